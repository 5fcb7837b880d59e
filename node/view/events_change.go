package view

import (
	"fmt"
	"strings"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
)

// changeEvents lists what a change of a job that is there means to a watcher.
func (v *Events) changeEvents(e ledger.Entry, c *ledger.Command, r ledger.Result) []event {
	ev := event{at: e.Stamp, kind: kindJob}
	switch {
	case r.Existed, c.Renew != nil && none(c.Renew.Slots, r.Slots), c.Retire != nil && none(c.Retire.Slots, r.Slots):
		return nil
	case c.Update != nil:
		ev.job, ev.state = c.Update.Job.ID, "updated"
		if r.Signed {
			ev.state = "signed"
		} else if r.Version > 0 {
			ev.note = fmt.Sprintf("version %d", r.Version)
		}
	case c.Rollout != nil:
		ev.job, ev.state, ev.note = c.Rollout.Job, string(v.rolloutState(c.Rollout)), c.Rollout.Message
	case c.Renew != nil:
		ev.job, ev.state, ev.note = c.Renew.Job, "renewed", slotsText(c.Renew.Slots, r.Slots)+": "+string(c.Renew.Reason)
	case c.Retire != nil:
		ev.job, ev.state, ev.note = c.Retire.Job, "retired", slotsText(c.Retire.Slots, r.Slots)+": "+string(c.Retire.Reason)
	case c.Skip != nil:
		ev.job, ev.state, ev.note = c.Skip.Job, "skipped", fmt.Sprintf("the run for %s: run %s still goes on", spell.Minute(c.Skip.At), c.Skip.Run)
	case c.Grow != nil:
		ev.job, ev.state, ev.note = c.Grow.Job, "grown", tasksText(c.Grow.N+len(c.Grow.Peers))+" more"
	}
	return []event{ev}
}

// skipInstead is what became of a run of a schedule that was skipped when it was decided.
func skipInstead(s *ledger.Submit, r ledger.Result) *ledger.Command {
	return &ledger.Command{Skip: &ledger.Skip{Job: s.Job.Origin.Job, At: s.Job.Origin.At, Run: r.Job}}
}

// none tells whether all slots of runs were refused: they had moved on.
func none(runs, refused []ledger.Slots) bool {
	left := 0
	for _, r := range runs {
		left += r.N
	}
	for _, r := range refused {
		left -= r.N
	}
	return left == 0
}

// rolloutState is what became of a rollout that was told to be in a state: going on, a rollback
// goes on as one.
func (v *Events) rolloutState(c *ledger.Rollout) (is taskstate.RolloutState) {
	is = c.State
	v.replica.Read(func(s *ledger.State) {
		if j, ok := s.Job(c.Job); ok && (c.State == taskstate.RolloutUpdating || c.State == taskstate.RolloutPaused) {
			if now := j.Rollout().State; now == taskstate.RolloutRollingBack || now == taskstate.RolloutRollbackPaused {
				is = now
			}
		}
	})
	return is
}

func tasksText(n int) string {
	if n == 1 {
		return "1 task"
	}
	return fmt.Sprintf("%d tasks", n)
}

// slotsText names the slots of runs, without those refused.
func slotsText(runs, refused []ledger.Slots) string {
	no := map[int]bool{}
	for _, r := range refused {
		for n := range r.All() {
			no[n] = true
		}
	}
	var parts []string
	slots := 0
	for _, r := range runs {
		for n := range r.All() {
			if no[n] {
				continue
			}
			if slots++; slots <= 10 {
				parts = append(parts, fmt.Sprint(n))
			}
		}
	}
	if slots > len(parts) {
		parts = append(parts, fmt.Sprintf("%d more", slots-len(parts)))
	}
	if slots == 1 {
		return "slot " + parts[0]
	}
	return "slots " + strings.Join(parts, ", ")
}

// consequences lists what a command brought about besides what it says.
func (v *Events) consequences(e ledger.Entry, c *ledger.Command, r ledger.Result) (out []event) {
	for _, id := range r.Released {
		out = append(out, event{at: e.Stamp, kind: kindJob, job: id, state: "released", note: "what it waited for is complete"})
	}
	for _, id := range r.Cut {
		out = append(out, event{at: e.Stamp, kind: kindJob, job: id, state: "cancelled", note: v.whyCut(id)})
	}
	if c.Settle == nil { // others say themselves what they are about
		return out
	}
	for _, a := range r.Again {
		for i := range a.Slots.N {
			out = append(out, event{
				at: e.Stamp, kind: kindTask, task: taskstate.Task(a.Job, a.Slots.First+i, a.Slots.Attempt), state: taskstate.Pending.String(),
				exit: taskstate.NoExit, note: again(a, e.Stamp),
			})
		}
	}
	return out
}

// again says when another attempt starts.
func again(a ledger.Again, stampNow int64) string {
	if a.NotBefore <= stampNow {
		return "another attempt"
	}
	return "another attempt, not before " + stamp(a.NotBefore).Format("15:04:05.000 MST")
}

func (v *Events) whyCut(id taskstate.JobID) (why string) {
	v.replica.Read(func(s *ledger.State) {
		if j, ok := s.Job(id); ok {
			why, _, _ = j.Cancelled()
		}
	})
	return why
}
