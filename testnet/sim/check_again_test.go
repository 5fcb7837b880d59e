package sim

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/coordinator"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// batch submits a batch job of so many slots.
func (w *world) batch(t *testing.T, n int) *work {
	j := &work{acked: true, job: taskstate.Job{ID: "b", Type: taskstate.BatchJob, Count: n, Run: taskstate.Run{Noop: &taskstate.Noop{}}}}
	w.load.jobs, w.load.byID[j.job.ID] = append(w.load.jobs, j), j
	w.decide(t, ledger.Command{Submit: &ledger.Submit{Job: j.job}})
	return j
}

// fail1 has the first attempt of slot 1 be given out, and fail.
func (w *world) fail1(t *testing.T, id taskstate.JobID) {
	p := w.peers[0]
	task := taskstate.Task(id, 1, 1)
	w.decide(t, ledger.Command{Assign: &ledger.Assign{Job: id, Peer: p.id, Incarnation: p.inc, Slots: []ledger.Slots{{First: 1, N: 1, Attempt: 1}}}})
	w.check.outcomes[task] = taskstate.RunReport{State: taskstate.Failed}
	st := taskstate.Status{Task: task, State: taskstate.Failed, Exit: 3}
	w.decide(t, ledger.Command{Settle: &ledger.Settle{Peer: p.id, Incarnation: p.inc, Statuses: []taskstate.Status{st}}})
}

func (w *world) retry1(t *testing.T, id taskstate.JobID) {
	w.decide(t, ledger.Command{Renew: &ledger.Renew{Job: id, Slots: []ledger.Slots{{First: 1, N: 1, Attempt: 1}}, Reason: taskstate.ReasonRetried}})
}

func TestWhatIsTriedAgainAfterItsEndLivesAnotherLifeForThoseThatHaveHeardOfIt(t *testing.T) {
	w := founded(t)
	w.quorum.leader = &life{}
	id := w.batch(t, 1).job.ID
	w.fail1(t, id)
	if !w.check.over[id] {
		t.Fatal("the job is not over")
	}
	before := w.quorum.truth.Index()
	w.retry1(t, id)
	if w.check.over[id] {
		t.Error("it counts as over, and goes on")
	}
	if a, b := w.check.life(id, before), w.check.life(id, before+1); a != 0 || b != 1 {
		t.Errorf("life %d before it was tried again and %d from then on", a, b)
	}
	if !w.check.mayFollow(w.load.byID[id], taskstate.Task(id, 1, 1)) {
		t.Error("it may not run twice, although somebody said so")
	}
}

func TestATryThatWasPromisedAndNeverCameIsNoticed(t *testing.T) {
	w := founded(t)
	w.quorum.leader = &life{}
	id := w.batch(t, 1).job.ID
	w.fail1(t, id)
	w.check.promised[slot{id, 1}] = 1
	if w.check.triedAgain(); w.violation == nil || w.violation.Rule != "I1" {
		t.Fatalf("%v, want I1", w.violation)
	}
	w.violation = nil
	w.retry1(t, id)
	if w.check.triedAgain(); w.violation != nil {
		t.Error(w.violation)
	}
}

func TestATaskThatWasCancelledAloneMayNotStart(t *testing.T) {
	w := founded(t)
	id := w.batch(t, 2).job.ID
	p := w.peers[0]
	w.decide(t, ledger.Command{Assign: &ledger.Assign{Job: id, Peer: p.id, Incarnation: p.inc, Slots: []ledger.Slots{{First: 1, N: 1, Attempt: 1}}}})
	for n := 1; n <= 2; n++ {
		w.decide(t, ledger.Command{Retire: &ledger.Retire{Job: id, Slots: []ledger.Slots{{First: n, N: 1, Attempt: 1}}, Reason: taskstate.ReasonCancelled}})
		w.check.taskCancelled(taskstate.Task(id, n, 1))
	}
	if w.check.unwantedStart(p, taskstate.Task(id, 1, 1)); w.violation != nil {
		t.Errorf("its worker may not have heard of it: %v", w.violation)
	}
	for _, task := range []taskstate.TaskID{taskstate.Task(id, 1, 2), taskstate.Task(id, 2, 1)} {
		w.violation = nil
		if w.check.unwantedStart(p, task); w.violation == nil || w.violation.Rule != "I7" {
			t.Errorf("%s starts: %v, want I7", task, w.violation)
		}
	}
}

func TestAWorkerThatIsAwayMayBeginWhatWasCancelledAndGivenUpMeanwhile(t *testing.T) {
	w := founded(t)
	id := w.batch(t, 1).job.ID
	p, task := w.peers[0], taskstate.Task(id, 1, 1)
	slots := []ledger.Slots{{First: 1, N: 1, Attempt: 1}}
	w.decide(t, ledger.Command{Assign: &ledger.Assign{Job: id, Peer: p.id, Incarnation: p.inc, Slots: slots}})
	w.decide(t, ledger.Command{Retire: &ledger.Retire{Job: id, Slots: slots, Reason: taskstate.ReasonCancelled}})
	w.decide(t, ledger.Command{Supersede: &ledger.Supersede{Task: task, Reason: taskstate.ReasonUnreachable, Again: true}})
	w.check.taskCancelled(task)
	if w.check.unwantedStart(p, task); w.violation != nil {
		t.Errorf("its worker may not have heard of it: %v", w.violation)
	}
	if w.check.unwantedStart(p, taskstate.Task(id, 1, 2)); w.violation == nil || w.violation.Rule != "I7" {
		t.Errorf("the next attempt starts: %v, want I7", w.violation)
	}
}

func TestAMoveThatEvensNothingOutIsNoticed(t *testing.T) {
	w := founded(t)
	p := w.peers[0]
	l := &life{p: p, w: w}
	l.replica = ledger.NewReplica()
	w.quorum.leader = l
	id := w.batch(t, 3).job.ID
	w.decide(t, ledger.Command{Assign: &ledger.Assign{Job: id, Peer: p.id, Incarnation: p.inc, Slots: []ledger.Slots{{First: 1, N: 3, Attempt: 1}}}})
	l.applyTo(len(w.quorum.log))
	to := w.peers[1].id
	if w.check.moves(id, []coordinator.Move{{Slot: 1, From: p.id, To: to}}); w.violation != nil {
		t.Fatal(w.violation)
	}
	if w.check.moves(id, []coordinator.Move{{Slot: 1, From: p.id, To: to}, {Slot: 2, From: p.id, To: to}}); w.violation == nil {
		t.Error("two of three tasks move, and nobody minds")
	}
}
