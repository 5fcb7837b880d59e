package ledger_test

import (
	"fmt"
	"testing"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

func TestFinishedJobsAreForgottenByCountAndAgeAndNeverRunAgain(t *testing.T) {
	l := newLog(t)
	l.must(submit("running", 1), assign("running", "p2", run(1, 1, 1)))
	for i := range ledger.KeepFinished + 5 {
		id := taskstate.JobID(fmt.Sprintf("j%04d", i))
		l.must(submit(id, 1), cancel(id))
	}
	if _, ok := l.Job("j0004"); ok || l.JobCount() != ledger.KeepFinished+1 {
		t.Fatalf("%d jobs are kept", l.JobCount())
	}
	if _, ok := l.Job("j0005"); !ok {
		t.Error("one job too many was forgotten")
	}
	if r := l.one(submit("j0001", 1)); r.Refused != ledger.CodeOver || !r.Existed {
		t.Errorf("a late repetition of a forgotten job's submit: %+v", r)
	}
	if _, _, _, st := l.Assigned(taskstate.Task("j0001", 1, 1)); st != taskstate.Unknown {
		t.Errorf("a forgotten job's task is %v", st)
	}
	l.stamp += ledger.KeepFor + 1
	l.must(ledger.Command{Lead: &ledger.Lead{}})
	if l.JobCount() != 1 {
		t.Errorf("%d jobs are kept for longer than that", l.JobCount())
	}
	l.record("running")
}

func TestHeavyJobsAreForgottenBeforeTheyAreTooMany(t *testing.T) {
	l := newLog(t)
	item := string(make([]byte, 1<<20))
	for i := range 100 {
		c := submit(taskstate.JobID(fmt.Sprintf("j%d", i)), 1)
		c.Submit.Job.Each = []string{item}
		l.must(c, cancel(c.Submit.Job.ID))
	}
	if n := l.JobCount(); n < 30 || n > 64 {
		t.Errorf("%d jobs of a megabyte are kept, at most %d bytes", n, ledger.KeepBytes)
	}
	c := submit("giant", 100)
	for range 100 {
		c.Submit.Job.Each = append(c.Submit.Job.Each, item)
	}
	l.must(c, cancel("giant"))
	if l.JobCount() != 1 {
		t.Errorf("%d jobs are kept beside the giant", l.JobCount()-1)
	}
}

// A week of load: what the ledger holds, in memory and in a snapshot, does not depend on how long it has been at work.
func TestAWeekOfLoadLeavesTheLedgerAsLargeAsADay(t *testing.T) {
	l := newLog(t)
	const perDay = 3000
	size := func() (int, int) { return l.JobCount(), len(encode(t, l.State)) }
	var jobs, bytes int
	for day := range 7 {
		for i := range perDay {
			l.stamp += 24 * 60 * 60 * 1000 / perDay
			id := taskstate.JobID(fmt.Sprintf("d%dj%05d", day, i))
			l.must(submit(id, 3), assign(id, "p2", run(1, 3, 1)))
			if i%50 == 0 { // its worker is lost, and another attempt ends it
				l.must(supersede(taskstate.Task(id, 2, 1), true), assign(id, "p1", run(2, 1, 2)))
				l.must(settle("p1", taskstate.Status{Task: taskstate.Task(id, 2, 2), Seq: 1, State: taskstate.Complete}))
			} else {
				l.must(settle("p2", ended(id, 2, taskstate.Complete)))
			}
			l.must(settle("p2", ended(id, 1, taskstate.Complete), ended(id, 3, taskstate.Failed)))
		}
		if day == 3 { // by then as many are forgotten as are remembered to be
			jobs, bytes = size()
		}
	}
	if j, b := size(); j != jobs || b > bytes+bytes/20 {
		t.Errorf("after four days %d jobs and a snapshot of %d bytes, after seven %d and %d", jobs, bytes, j, b)
	}
}
