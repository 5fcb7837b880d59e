package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

func afterJobs(id taskstate.JobID, ids ...taskstate.JobID) ledger.Command {
	c := submit(id, 1)
	c.Submit.Job.After = ids
	return c
}

// runTo gives the one task of a job out and ends it.
func (l *log) runTo(id taskstate.JobID, st taskstate.State) {
	l.t.Helper()
	n := l.record(id).Slot(1).Attempt
	l.must(assign(id, "p2", run(1, 1, n)), settle("p2", endedAs(id, 1, n, st)))
}

func newestLog(t *testing.T) *log {
	l := newLog(t)
	for _, p := range members(l.State) {
		l.must(reads(p, 2))
	}
	return l
}

func TestJobsThatWereCutBecauseOfAJobWaitForItAgainWhenItIsRetried(t *testing.T) {
	l := newestLog(t)
	web := service("web", 1)
	web.Submit.Job.After = []taskstate.JobID{"f"}
	l.must(submit("f", 1), submit("other", 1), afterJobs("d", "f"), afterJobs("e", "d"), afterJobs("mine", "f"), afterJobs("both", "f", "other"), web)
	l.must(ledger.Command{Cancel: &ledger.Cancel{Job: "mine"}})
	l.runTo("other", taskstate.Failed)
	l.runTo("f", taskstate.Failed)

	r := l.one(renew("f", 0, run(1, 1, 0)))
	var along []taskstate.JobID
	for _, o := range r.Along {
		along = append(along, o.Job.ID)
		if !o.Blocked {
			t.Errorf("%s waits for nothing", o.Job.ID)
		}
	}
	if !slices.Equal(along, []taskstate.JobID{"d", "e"}) {
		t.Errorf("along came %v", along)
	}
	for _, id := range []taskstate.JobID{"mine", "both", "web"} {
		if l.record(id).State() != taskstate.Shutdown {
			t.Errorf("%s is %v", id, l.record(id).State())
		}
	}
	back, err := ledger.DecodeState(encode(t, l.State))
	if err != nil {
		t.Fatal(err)
	}
	l.State = back
	l.refuses(ledger.CodeBlocked, assign("d", "p2", run(1, 1, l.record("d").Slot(1).Attempt)))
	l.runTo("f", taskstate.Complete)
	l.runTo("d", taskstate.Complete)
	l.runTo("e", taskstate.Complete)
	l.must(renew("other", 0, run(1, 1, 0)))
	l.runTo("other", taskstate.Complete)
	l.runTo("both", taskstate.Complete)
}

func TestAJobThatIsRetriedWaitsForThoseItComesAfter(t *testing.T) {
	l := newestLog(t)
	l.must(submit("f", 1), afterJobs("d", "f"))
	l.runTo("f", taskstate.Failed)
	if r := l.one(renew("d", 0, run(1, 1, 0))); r.Refused != ledger.CodeBlocked || r.Job != "f" {
		t.Errorf("after a job that failed: %+v", r)
	}
	l.must(renew("f", 0, run(1, 1, 0)), ledger.Command{Cancel: &ledger.Cancel{Job: "d"}})
	l.must(renew("d", 0, run(1, 1, 0)))
	if got := l.record("d").Blocked(); !slices.Equal(got, []taskstate.JobID{"f"}) {
		t.Errorf("it waits for %v", got)
	}
	l.runTo("f", taskstate.Failed)
	if l.record("d").Why() != taskstate.ReasonAfter {
		t.Errorf("it was cut for %q", l.record("d").Why())
	}
}

func TestWhileAPeerOfAnEarlierVersionIsAMemberARetryBeginsAtOnceAndAlone(t *testing.T) {
	l := newLog(t)
	l.must(submit("f", 1), afterJobs("d", "f"))
	l.runTo("f", taskstate.Failed)
	if r := l.one(renew("f", 0, run(1, 1, 0))); len(r.Along) > 0 || l.record("d").State() != taskstate.Shutdown {
		t.Errorf("along came %v", r.Along)
	}
	if got := l.BegunAfter("f"); len(got) > 0 {
		t.Errorf("begun: %v", got)
	}
	l.must(renew("d", 0, run(1, 1, 0)))
	l.runTo("d", taskstate.Complete)
	if got := l.BegunAfter("f"); !slices.Equal(got, []taskstate.JobID{"d"}) {
		t.Errorf("begun: %v", got)
	}
}

func TestAJobWhoseOrderHasExpiredDoesNotComeBackWithTheOneItComesAfter(t *testing.T) {
	l := newestLog(t)
	l.must(submit("f", 1))
	for _, id := range []taskstate.JobID{"late", "good"} {
		c := afterJobs(id, "f")
		c.Submit.Job.Submitter = "p1"
		if err := taskstate.SignOrder(&c.Submit.Job, l.Cluster(), "p1", l.stamp, nil, func(b []byte) ([]byte, error) { return b[:1], nil }); err != nil {
			t.Fatal(err)
		}
		if id == "late" {
			c.Submit.Job.Order.Until = l.stamp + 1
		}
		l.must(c)
	}
	l.runTo("f", taskstate.Failed)
	l.stamp += 2
	l.must(renew("f", 0, run(1, 1, 0)))
	if late, good := l.record("late").State(), l.record("good").State(); late != taskstate.Shutdown || good != taskstate.Pending {
		t.Errorf("late is %v, good %v", late, good)
	}
}

// Whatever fails, is retried and cancelled: a task begins only when all that its job comes after is
// complete, and in the end all jobs are but those that a person cancelled, and those after them.
func TestWithRetriesEveryJobIsCompleteInTheEndButWhatAPersonCancelled(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		l := newestLog(t)
		var ids []taskstate.JobID
		after := map[taskstate.JobID][]taskstate.JobID{}
		for i := range 8 {
			id := taskstate.JobID(fmt.Sprint("j", i))
			for _, x := range ids {
				if rnd.IntN(3) == 0 {
					after[id] = append(after[id], x)
				}
			}
			l.must(afterJobs(id, after[id]...))
			ids = append(ids, id)
		}
		lost := map[taskstate.JobID]bool{}
		step := func(id taskstate.JobID, fail, cancel bool) {
			j := l.record(id)
			_, over := j.Ended()
			switch {
			case over && j.State() != taskstate.Complete && !lost[id]:
				if j.Why() != taskstate.ReasonAfter {
					l.one(renew(id, 0, run(1, 1, 0)))
				}
			case over || len(j.Blocked()) > 0:
			case cancel:
				l.must(ledger.Command{Cancel: &ledger.Cancel{Job: id}})
				lost[id] = true
			case fail:
				l.runTo(id, taskstate.Failed)
			default:
				for _, x := range after[id] {
					if l.record(x).State() != taskstate.Complete {
						t.Fatalf("seed %d: %s begins before %s is complete", seed, id, x)
					}
				}
				l.runTo(id, taskstate.Complete)
			}
		}
		for range 60 {
			step(ids[rnd.IntN(len(ids))], rnd.IntN(2) == 0, rnd.IntN(20) == 0)
		}
		for range 3 {
			for _, id := range ids {
				step(id, false, false)
				step(id, false, false)
			}
		}
		for _, id := range ids {
			if slices.ContainsFunc(after[id], func(x taskstate.JobID) bool { return lost[x] }) {
				lost[id] = true
			}
			if st := l.record(id).State(); (st == taskstate.Complete) == lost[id] {
				t.Errorf("seed %d: %s, after %v, is %v", seed, id, after[id], st)
			}
		}
	}
}
