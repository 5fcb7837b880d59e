package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
)

// runFacts is a job that a schedule started.
type runFacts struct {
	id       taskstate.JobID
	at       int64 // the moment it is for
	accepted int64
	state    taskstate.State
}

// runsOf lists the runs of a schedule that are known still, the newest first.
func runsOf(s *ledger.State, id taskstate.JobID) (out []runFacts) {
	for j := range s.Jobs() {
		if o := j.Job().Origin; o != nil && o.Job == id {
			out = append(out, runFacts{j.Job().ID, o.At, j.Accepted(), j.State()})
		}
	}
	return out
}

func (t *explainer) tellChanges() {
	for _, r := range t.job.runs {
		t.add(r.accepted, api.Fact{
			Kind: kindJob, State: "started", Text: fmt.Sprintf("started run %s for %s: it is %s", r.id, spell.Minute(r.at), r.state),
		})
	}
	t.tellSkips()
	if s := t.job.job.Schedule; s != nil && !t.job.cancelled {
		if next := NextRun(s, t.now); next != nil {
			t.add(t.now, api.Fact{Kind: "waiting", Reason: "schedule", Text: "starts the next run at " + spell.Minute(next.UnixMilli())})
		}
	}
	r := t.job.rollout
	if r.State == taskstate.RolloutNone {
		return
	}
	what := "update to"
	if backwards(r.State) {
		what = "way back, as"
		t.add(r.Began, api.Fact{Kind: kindJob, State: string(taskstate.RolloutRollingBack), Text: fmt.Sprintf("goes back to the version before, as version %d", r.Version)})
	} else {
		t.add(r.Began, api.Fact{Kind: kindJob, State: "updated", Text: fmt.Sprintf("updated to version %d", r.Version)})
	}
	if r.Since > r.Began {
		t.add(r.Since, api.Fact{
			Kind: kindJob, State: string(r.State), Reason: r.Message,
			Text: strings.TrimSuffix(fmt.Sprintf("%s version %d: %s: %s", what, r.Version, r.State, r.Message), ": "),
		})
	}
}

func (t *explainer) tellSkips() {
	f := api.Fact{Kind: kindJob, State: "skipped", Reason: "overlap"}
	if n := t.job.skipped - len(t.job.skips); n > 0 {
		f.Text = fmt.Sprintf("%d runs before were skipped, too", n)
		if n == 1 {
			f.Text = "1 run before was skipped, too"
		}
		t.add(t.job.skips[0].Stamp, f)
	}
	for _, k := range t.job.skips {
		f.Text = fmt.Sprintf("skipped the run for %s: run %s still went on (overlap: skip)", spell.Minute(k.At), k.Run)
		t.add(k.Stamp, f)
	}
}

func backwards(s taskstate.RolloutState) bool {
	return s == taskstate.RolloutRollingBack || s == taskstate.RolloutRolledBack || s == taskstate.RolloutRollbackPaused
}

// tellChange tells a change of the job that this peer remembers, if the ledger does not tell it.
func (t *explainer) tellChange(e *event) {
	if r := t.job.rollout; e.at == r.Began || e.at == r.Since && r.State != taskstate.RolloutNone {
		return
	}
	f := api.Fact{Kind: kindJob, State: e.state, Text: strings.TrimSuffix(e.state+": "+e.note, ": ")}
	switch e.state {
	case "updated":
		f.Text = strings.TrimSpace("updated to " + e.note)
		if e.note == "" {
			f.Text = "updated"
		}
	case "released":
		f.Text = e.note
	case "signed":
		f.Text = "signed anew, to go on starting tasks"
	case "grown", "retired", "renewed", "updating", "paused", "rolling-back", "rolled-back", "rollback-paused":
	case "completed":
		f.Text = "update complete: " + e.note
	default: // told from the ledger
		return
	}
	t.add(e.at, f)
}

// tellEnded tells how an attempt ended that another one followed, and why.
func (t *explainer) tellEnded(task taskstate.TaskID, p ledger.PastAttempt, next int, peer taskstate.PeerID) {
	f := api.Fact{
		Kind: kindTask, Task: task.String(), Peer: p.Peer, State: p.End.State.String(), Reason: string(p.Reason), HeldTo: p.End.Held.Words(),
		Text: fmt.Sprintf("%s on %s%s", endText(*p.End), t.name(p.Peer), ranText(p.End.Took, p.End.Waited)),
	}
	if p.End.Exit != taskstate.NoExit {
		f.ExitCode = new(p.End.Exit)
	}
	follows := fmt.Sprintf("%s: attempt %d follows", whyGivenUp(p.Reason), next)
	if peer != "" {
		follows += ", on " + t.name(peer)
	}
	if p.Reason == taskstate.ReasonRetried || p.Reason == taskstate.ReasonScaled { // later, and for another reason
		t.add(p.End.At, f)
		t.add(p.GivenUpAt, api.Fact{Kind: kindTask, Task: task.String(), State: "renewed", Reason: string(p.Reason), Text: follows})
		return
	}
	f.Text += "; " + follows
	t.add(p.GivenUpAt, f)
}

// tellNext tells what a slot waits for, or that it is being stopped.
func (t *explainer) tellNext(task taskstate.TaskID, s slotFacts) {
	switch {
	case s.Pending() && s.NotBefore > t.now:
		t.add(t.now, api.Fact{
			Kind: "waiting", Task: task.String(), Reason: string(taskstate.ReasonRestart),
			Text: fmt.Sprintf("attempt %d starts not before %s", s.Attempt, stamp(s.NotBefore).Format(time.TimeOnly+" MST")),
		})
	case s.Leaving != "":
		t.add(t.now, api.Fact{Kind: kindTask, Task: task.String(), Peer: s.Peer, State: "leaving", Reason: string(s.Leaving), Text: "is being stopped: " + whyGivenUp(s.Leaving)})
	}
}
