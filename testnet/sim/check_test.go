package sim

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// decide writes commands into the ledger of a world in which nothing happens by itself, and returns
// what came of the last one.
func (w *world) decide(t *testing.T, cmds ...ledger.Command) ledger.Result {
	t.Helper()
	results := w.quorum.write(ledger.Entry{Epoch: taskstate.At(1, 1), Stamp: birth.UnixMilli() + int64(len(w.quorum.log)), By: w.peers[0].id, Commands: cmds})
	last := results[len(results)-1]
	if last.Refused != ledger.CodeNone {
		t.Fatalf("refused: %+v", last)
	}
	return last
}

// founded is a world of which the ledger has begun, with one worker.
func founded(t *testing.T) *world {
	w := newWorld(Config{Seed: 1, Peers: 3})
	p := w.peers[0]
	w.orders.off = true
	w.load.drains = map[taskstate.PeerID]ledger.Availability{}
	entry := admission.Entry{Cluster: clusterID, Peer: p.id, Name: p.id, Roles: admission.AllRoles(), By: p.id}
	w.decide(t, ledger.Command{Found: &ledger.Found{Cluster: clusterID, Generation: 1, Founder: entry}}, ledger.Command{Lead: &ledger.Lead{Chain: true}})
	w.decide(t, ledger.Command{Register: &ledger.Register{Peer: p.id, Incarnation: p.inc}})
	return w
}

// failing submits a service of one task that may be restarted once, and has its first attempt fail.
func failing(t *testing.T, w *world) taskstate.JobID {
	j := &work{job: taskstate.Job{
		ID: "s", Name: "s", Type: taskstate.ServiceJob, Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{Duration: goodSpec}},
		Restart: &taskstate.Restart{Condition: taskstate.RestartAny, Attempts: 1, Delay: 3000}, Update: &taskstate.Update{},
	}}
	j.mark(&j.job)
	w.load.jobs, w.load.byID[j.job.ID] = append(w.load.jobs, j), j
	w.decide(t, ledger.Command{Submit: &ledger.Submit{Job: j.job}})
	w.fails(t, j.job.ID, 1)
	return j.job.ID
}

// fails has an attempt of a service's only slot be given out, and fail.
func (w *world) fails(t *testing.T, id taskstate.JobID, attempt int) {
	t.Helper()
	p := w.peers[0]
	w.decide(t, ledger.Command{Assign: &ledger.Assign{Job: id, Peer: p.id, Incarnation: p.inc, Slots: []ledger.Slots{{First: 1, N: 1, Attempt: attempt}}, Version: 1}})
	st := taskstate.Status{Task: taskstate.Task(id, 1, attempt), State: taskstate.Failed, Exit: 3}
	w.decide(t, ledger.Command{Settle: &ledger.Settle{Peer: p.id, Incarnation: p.inc, Statuses: []taskstate.Status{st}}})
}

func TestASlotThatIsTakenBackWhileItWaitsForItsRestartIsNotRestarted(t *testing.T) {
	w := founded(t)
	id := failing(t, w)
	run := []ledger.Slots{{First: 1, N: 1}}
	w.decide(t, ledger.Command{Retire: &ledger.Retire{Job: id, Slots: run, Reason: taskstate.ReasonScaled}})
	w.decide(t, ledger.Command{Renew: &ledger.Renew{Job: id, Slots: run, Reason: taskstate.ReasonScaled}})
	if w.violation != nil {
		t.Fatal(w.violation)
	}
	w.fails(t, id, 3) // a new attempt may be restarted, as the first one might
	if w.violation != nil {
		t.Error(w.violation)
	}
}

func TestARestartMoreThanThePolicyAllowsIsNoticed(t *testing.T) {
	w := founded(t)
	id := failing(t, w)
	w.check.restarts.again(&ledger.Again{Job: id, Slots: ledger.Slots{First: 1, N: 1, Attempt: 2}, Version: 1})
	if w.violation == nil || w.violation.Rule != "I15" {
		t.Errorf("%v, want I15", w.violation)
	}
}

func TestWhetherAPeerIsDrainedIsWhatWasDecidedLastWhateverWasAnsweredLast(t *testing.T) {
	w := founded(t)
	p := w.peers[0]
	for _, to := range []ledger.Availability{ledger.AvailDrain, ledger.AvailActive} {
		w.decide(t, ledger.Command{Avail: &ledger.SetAvailability{Peer: p.id, Availability: to, Reason: string(to)}})
	}
	if got := w.load.drains[p.id]; got != ledger.AvailActive {
		t.Errorf("the peer counts as %q, and takes tasks", got)
	}
}

// Nobody knows that a task runs that does not say so: an update that ends it has taken nothing
// down.
func TestATaskThatGoesOnForAWhileSaysThatItRuns(t *testing.T) {
	w := newWorld(Config{Seed: 1, Peers: 3})
	silent := 0
	for range 200 {
		for _, n := range []need{{long: true}, {ever: true}, {time: time.Second, exit: 3}, {time: 14 * time.Second}} {
			if !w.saysItRuns(n) {
				t.Fatalf("%+v does not say that it runs", n)
			}
		}
		if !w.saysItRuns(need{time: 10 * time.Millisecond}) {
			silent++
		}
	}
	if silent == 0 || silent == 200 {
		t.Errorf("%d of 200 short tasks end before anybody hears that they run, want some", silent)
	}
}

func TestARunThatStartsBesideOneThatIsTriedAgainIsNoticed(t *testing.T) {
	w := founded(t)
	parent := &work{job: taskstate.Job{
		ID: "p", Name: "p", Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{}}, Schedule: &taskstate.Schedule{Cron: "* * * * *", Overlap: taskstate.SkipOverlap},
	}}
	w.load.jobs, w.load.byID[parent.job.ID] = append(w.load.jobs, parent), parent
	w.decide(t, ledger.Command{Submit: &ledger.Submit{Job: parent.job}})
	run := parent.job
	run.ID, run.Schedule, run.Origin = "r1", nil, &taskstate.Origin{Job: "p", At: 60_000}
	first := []ledger.Slots{{First: 1, N: 1, Attempt: 1}}
	w.decide(t, ledger.Command{Submit: &ledger.Submit{Job: run}})
	w.decide(t, ledger.Command{Cancel: &ledger.Cancel{Job: "r1"}})
	w.quorum.leader = &life{w: w, p: w.peers[0]}
	w.decide(t, ledger.Command{Renew: &ledger.Renew{Job: "r1", Slots: first, Reason: taskstate.ReasonRetried}})
	if w.violation != nil {
		t.Fatal(w.violation)
	}
	next := run
	next.ID, next.Origin = "r2", &taskstate.Origin{Job: "p", At: 120_000}
	w.check.scheduled(&next)
	if w.violation == nil || w.violation.Rule != "I13" {
		t.Errorf("%v, want I13", w.violation)
	}
}
