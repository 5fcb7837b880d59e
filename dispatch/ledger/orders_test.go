package ledger_test

import (
	"errors"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/taskstate"
)

// orderOf signs a job at a time, in the place of another order, as nobody checks it: the signature
// is looked at in package taskstate.
func orderOf(t testing.TB, j taskstate.Job, at int64, old *taskstate.Order) taskstate.Job {
	t.Helper()
	j.Submitter = "p1"
	if err := taskstate.SignOrder(&j, "c", "p1", at, old.Digest(), func(b []byte) ([]byte, error) { return b[:1], nil }); err != nil {
		t.Fatal(err)
	}
	return j
}

// foundedWith is newLog with jobs.
func foundedWith(t *testing.T, jobs ...taskstate.Job) *log {
	l := newLog(t)
	for _, j := range jobs {
		l.must(ledger.Command{Submit: &ledger.Submit{Job: j}})
	}
	return l
}

// lastingJob is a service that is switched off.
func lastingJob(id taskstate.JobID, command string) taskstate.Job {
	return taskstate.Job{
		ID: id, Name: string(id), Type: taskstate.ServiceJob, Priority: taskstate.DefaultPriority,
		Run: taskstate.Run{Process: &taskstate.Process{Command: []string{command}}},
	}
}

// Attack (b), where the ledger knows better than who coordinates: an attempt again, an older
// version again.
func TestWhatWasSignedOnceIsOutdatedWhenItIsOverOrReplaced(t *testing.T) {
	s := ledger.NewState()
	first := orderOf(t, lastingJob("web", "a"), 1000, nil)
	second := orderOf(t, lastingJob("web", "b"), 2000, first.Order)
	third := orderOf(t, lastingJob("web", "c"), 3000, second.Order)
	first.Version = 1
	batch := orderOf(t, taskstate.Job{ID: "once", Name: "once", Type: taskstate.BatchJob, Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{}}}, 1000, nil)
	if err := s.Warrants().Outdated(taskstate.Task("web", 1, 1), &first); err != nil {
		t.Errorf("what is not known yet: %v", err)
	}
	state := foundedWith(t, batch, first)
	apply := func(c ledger.Command) { state.must(c) }
	if err := state.Warrants().Outdated(taskstate.Task("once", 1, 1), &batch); err != nil {
		t.Errorf("before it ran: %v", err)
	}
	apply(assign("once", "p1", run(1, 1, 1)))
	if err := state.Warrants().Outdated(taskstate.Task("once", 1, 1), &batch); err != nil {
		t.Errorf("while it runs: %v", err)
	}
	apply(settle("p1", ended("once", 1, taskstate.Complete)))
	if err := state.Warrants().Outdated(taskstate.Task("once", 1, 1), &batch); !errors.Is(err, ledger.ErrOutdated) {
		t.Errorf("the same attempt again: %v", err)
	}
	apply(ledger.Command{Update: &ledger.Update{Job: second}})
	apply(ledger.Command{Update: &ledger.Update{Job: third}})
	old, far := first, second // the second was never rolled out: the way back is to the first
	old.Version, far.Version = 3, 9
	for what, j := range map[string]*taskstate.Job{"an old one under the version of now": &old, "an old one under a version to come": &far} {
		if err := state.Warrants().Outdated(taskstate.Task("web", 1, 5), j); !errors.Is(err, ledger.ErrOutdated) {
			t.Errorf("%s: %v", what, err)
		}
	}
	kept := first
	kept.Version = 4 // a way back that this copy has not heard of
	if err := state.Warrants().Outdated(taskstate.Task("web", 1, 5), &kept); err != nil {
		t.Errorf("the one to go back to: %v", err)
	}
	third.Version = 3
	if err := state.Warrants().Outdated(taskstate.Task("web", 1, 5), &third); err != nil {
		t.Errorf("the one of now: %v", err)
	}
}

func TestAnOrderIsRenewedWithoutRestartingAnything(t *testing.T) {
	batch := orderOf(t, taskstate.Job{ID: "once", Name: "once", Type: taskstate.BatchJob, Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{}}}, 1000, nil)
	service := orderOf(t, lastingJob("web", "a"), 1000, nil)
	l := foundedWith(t, batch, service)
	for _, j := range []taskstate.Job{batch, service} {
		renewed := orderOf(t, j, 5000, j.Order)
		stray := orderOf(t, j, 6000, nil)
		// It does not say what it takes the place of.
		l.refuses(ledger.CodeConflict, ledger.Command{Update: &ledger.Update{Job: stray}})
		l.must(ledger.Command{Update: &ledger.Update{Job: renewed}})
		r, _ := l.Job(j.ID)
		if r.Job().Order.At != 5000 || r.Rollout().State != taskstate.RolloutNone {
			t.Errorf("%+v, %+v", r.Job().Order, r.Rollout())
		}
		if again := l.one(ledger.Command{Submit: &ledger.Submit{Job: j}}); !again.Existed || again.Refused != ledger.CodeNone {
			t.Errorf("submitted again, as it was: %+v", again)
		}
		if again := l.one(ledger.Command{Update: &ledger.Update{Job: renewed}}); !again.Existed {
			t.Errorf("renewed again: %+v", again)
		}
		older := orderOf(t, j, 4000, renewed.Order)
		l.refuses(ledger.CodeConflict, ledger.Command{Update: &ledger.Update{Job: older}})
		changed := orderOf(t, j, 7000, renewed.Order)
		changed.Priority++
		if r := l.one(ledger.Command{Update: &ledger.Update{Job: changed}}); j.Type == taskstate.BatchJob && r.Refused != ledger.CodeInvalid {
			t.Errorf("a batch job is another one now: %+v", r)
		}
	}
}

// After a way back the order of before counts again, and who has the one that followed on it shows
// it once more.
func TestAnUpdateThatWasTurnedBackIsNotMadeAgainByItsOldOrder(t *testing.T) {
	first := orderOf(t, lastingJob("web", "a"), 1000, nil)
	second := orderOf(t, lastingJob("web", "b"), 2000, first.Order)
	third := orderOf(t, lastingJob("web", "c"), 3000, first.Order)
	for _, again := range []bool{false, true} { // also by who has a snapshot
		l := foundedWith(t, first)
		l.must(ledger.Command{Update: &ledger.Update{Job: second}}, rollout("web", taskstate.RolloutRollingBack))
		if again {
			st, err := ledger.DecodeState(encode(t, l.State))
			if err != nil {
				t.Fatal(err)
			}
			l.State = st
		}
		l.refuses(ledger.CodeConflict, ledger.Command{Update: &ledger.Update{Job: second}})
		l.must(ledger.Command{Update: &ledger.Update{Job: third}})
	}
}

// The goal is 100 µs a job, with a real key.
func BenchmarkCheckOrder(b *testing.B) {
	key, err := p2p.NewIdentity()
	if err != nil {
		b.Fatal(err)
	}
	id, err := p2p.ID(key)
	if err != nil {
		b.Fatal(err)
	}
	j := taskstate.Job{
		ID: "k3v5q7x2ab", Name: "frames", Type: taskstate.BatchJob, Count: 1, Submitter: id, Priority: 50,
		Run: taskstate.Run{Process: &taskstate.Process{Command: []string{"ffmpeg", "-i", "in.mkv", "out.mp4"}, Env: map[string]string{"THREADS": "4"}}},
	}
	if err := taskstate.SignOrder(&j, "abcdefghijklmnop", id, 1000, nil, key.Sign); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := taskstate.CheckOrder(&j, "abcdefghijklmnop", 2000, p2p.Verify); err != nil {
			b.Fatal(err)
		}
	}
}
