package node

import (
	"testing"

	"github.com/coveyproject/covey/taskstate"
)

// Case 28: what follows a job runs where that left its files, though whoever submitted it is away,
// and no byte of them moves.
func TestAJobThatTakesWhatAnotherLeftRunsWhereThatIs(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two", "three", "four")
	one, two := all[0], all[1]
	first := one.submit(outputJob("first", "head -c 3000000 /dev/urandom > x", "two", "x"))
	one.outcome(first)
	saved := all[2].keeps(first, 1, one, two)
	if err := one.stop(); err != nil {
		t.Fatal(err)
	}
	for _, l := range all[1:] {
		l.sees("two", "three", "four")
	}
	ready := noopJob("ready", 1, 0) // until it runs, two may not be at hand for the new coordinator
	ready.Constraints = []string{"peer.name == two"}
	all[3].outcome(all[3].submit(ready))
	before := map[string]int64{}
	for _, l := range all[1:] {
		before[l.name] = l.files.store.Usage().Bytes
	}
	for range 4 {
		then := shellJob("then", 1, "cat x > y")
		then.Inputs = []taskstate.Input{{Name: ".", From: taskstate.JobID(first)}}
		last, tasks := all[3].outcome(all[3].submit(then))
		if last.State != taskstate.Complete.String() || tasks[1].PeerName != "two" {
			t.Errorf("it is %s, on %s", last.State, tasks[1].PeerName)
		}
	}
	for _, l := range all[1:] {
		if n := l.files.store.Usage().Bytes - before[l.name]; n != 0 {
			t.Errorf("%s keeps %d bytes more", l.name, n)
		}
		if l != two && l.files.store.Have(saved.Root).Whole {
			t.Errorf("%s has what was left", l.name)
		}
	}
}
