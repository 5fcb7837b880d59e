package dispatch_test

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/membership/verdict"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/taskstate"
)

func withOutputs(j *taskstate.Job) {
	j.Outputs = &taskstate.Outputs{Globs: []string{"*"}}
}

func mustNotRunTwice(j *taskstate.Job) { j.Unreachable.Wait = true }

// keeps counts the ends of a job of which files are kept as they are to be.
func (f *cluster) keeps(job string) (n int) {
	f.boss.ledger.Replica().Read(func(s *ledger.State) {
		j, _ := s.Job(taskstate.JobID(job))
		for id, saved := range j.Saved() {
			if saved.Root == (piece.Root{1, byte(id.Slot)}) && len(saved.Keepers) == 1 {
				n++
			}
		}
	})
	return n
}

func TestWhileFilesAreSavedTheNextTasksRun(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, f *cluster) {
		f.submit("job", 40, time.Second, oneCPU, withOutputs) // four at once
		time.Sleep(16 * time.Second)
		if n := len(f.startsOf("job")); n != 40 {
			t.Errorf("after 16 seconds %d of 40 tasks of one second have begun on four cpus: none of the others is saved yet", n)
		}
		if c, _ := f.counts("job"); c.Complete != 0 {
			t.Errorf("and of those complete are %d", c.Complete)
		}
		if c := f.finish("job", time.Minute); c.Complete != 40 || f.keeps("job") != 40 {
			t.Errorf("%+v, %d of them keep their files", c, f.keeps("job"))
		}
	})
}

// A restart goes on saving, and a new coordinator learns of it; nothing runs twice.
func TestWhatWasBeingSavedNeverRunsAgainAfterARestart(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, f *cluster) {
		f.submit("job", 12, time.Second, oneCPU, withOutputs, mustNotRunTwice)
		f.submit("free", 12, time.Second, withOutputs)
		time.Sleep(4 * time.Second)
		for range 3 {
			f.peers[2].kill()
			time.Sleep(500 * time.Millisecond) // nobody has missed it yet
			f.peers[2].restart()
			time.Sleep(3 * time.Second)
			f.peers[2].verdict(verdict.Alive) // after the one that it was killed has come
			f.elect(f.peers[1])
			time.Sleep(3 * time.Second)
			f.elect(f.peers[0])
		}
		for _, job := range []string{"job", "free"} {
			if c := f.finish(job, 2*time.Minute); c.Complete != 12 || f.keeps(job) != 12 {
				t.Errorf("%s: %+v, %d of them keep their files", job, c, f.keeps(job))
			}
			for slot, n := range f.startsOf(job) {
				if n != 1 {
					t.Errorf("%s: slot %d was started %d times", job, slot, n)
				}
			}
		}
	})
}

// Part of case 8: a maker that is lost while it saves was never complete, and its job's rule says
// what follows.
func TestAMakerThatIsLostWhileItSavesIsReplacedOrWaitsForAPerson(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, f *cluster) {
		f.awaitReady()
		f.submit("job", 12, time.Second, oneCPU, withOutputs, func(j *taskstate.Job) { j.MaxPerPeer = 4 })
		f.submit("once", 3, time.Second, withOutputs, mustNotRunTwice, func(j *taskstate.Job) { j.MaxPerPeer = 1 })
		time.Sleep(4 * time.Second)
		on := f.on("once", "p2")
		if on == 0 || f.on("job", "p2") == 0 {
			t.Fatal("p2 has nothing of one of the jobs")
		}
		f.peers[2].kill()
		if c := f.finish("job", 2*time.Minute); c.Complete != 12 || f.keeps("job") != 12 {
			t.Errorf("%+v, %d of them keep their files", c, f.keeps("job"))
		}
		time.Sleep(time.Minute)
		if c, over := f.counts("once"); over || c.Open != on || c.Complete != 3-on {
			t.Errorf("what must not run twice: %+v", c)
		}
		if _, _, err := f.boss.ledger.Propose(t.Context(), []ledger.Command{{Cancel: &ledger.Cancel{Job: "once"}}}); err != nil {
			t.Fatal(err)
		}
		if c := f.finish("once", 10*time.Second); c.Shutdown+c.Orphaned != on {
			t.Errorf("once it is cancelled: %+v", c)
		}
		if s := standings(f.boss.coord)["p2"]; s != coordinator.Unreachable {
			t.Errorf("p2 is %s", s)
		}
	})
}
