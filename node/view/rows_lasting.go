package view

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/cron"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// fullRow is a job's row with what services, global jobs, schedules and jobs that wait for others
// have besides.
func fullRow(s *ledger.State, j *ledger.JobRecord, reported map[taskstate.State]int) api.Job {
	row := jobRow(j, reported)
	job := j.Job()
	if j.Lasts() {
		row.Version, row.Rollout = job.Version, rolloutRow(j)
		row.Wanted = job.Count
		if job.Type == taskstate.GlobalJob {
			row.Wanted = j.Slots() - j.Counts().Retired
		}
	}
	if _, over := j.Ended(); !over && len(j.Blocked()) > 0 {
		row.After = predecessorsOf(s, job)
	}
	if job.Schedule != nil {
		row.Schedule = scheduleRow(j, s)
	}
	if o := job.Origin; o != nil {
		row.Origin = &api.Origin{Job: string(o.Job), At: stamp(o.At)}
	}
	if o := job.Order; o != nil {
		row.Order = &api.Order{By: o.By, Signed: stamp(o.At), Until: stamp(o.Until)}
	}
	return row
}

// rolloutRow counts how far an update has come; nil if there never was one.
func rolloutRow(j *ledger.JobRecord) *api.Rollout {
	r := j.Rollout()
	if r.State == taskstate.RolloutNone {
		return nil
	}
	out := &api.Rollout{State: string(r.State), From: r.From, Message: r.Message, Failed: r.Failed, Since: stamp(r.Since)}
	for n := 1; n <= j.Slots(); n++ {
		s := j.Slot(n)
		if s.Retired {
			continue
		}
		out.Slots++
		if s.Version == r.Version && s.Leaving == "" && !s.Pending() {
			out.Updated++
		}
	}
	return out
}

func predecessorsOf(s *ledger.State, job *taskstate.Job) []api.Predecessor {
	out := make([]api.Predecessor, 0, len(job.After))
	for _, id := range job.After {
		p := api.Predecessor{ID: string(id)}
		if j, ok := s.Job(id); ok {
			p.Name, p.State = j.Job().Name, j.State().String()
		}
		out = append(out, p)
	}
	return out
}

// Predecessors are the jobs that a job comes after.
func (v *View) Predecessors(job *taskstate.Job) (out []api.Predecessor) {
	v.cfg.Replica.Read(func(s *ledger.State) { out = predecessorsOf(s, job) })
	return out
}

func scheduleRow(j *ledger.JobRecord, s *ledger.State) *api.Schedule {
	x := j.Job().Schedule
	out := &api.Schedule{Cron: x.Cron, Zone: x.Zone, Overlap: string(x.Overlap)}
	out.Zone = cmp.Or(out.Zone, "UTC")
	out.Overlap = cmp.Or(out.Overlap, string(taskstate.SkipOverlap))
	if at := j.LastRun(); at > 0 {
		out.Last = new(stamp(at))
	}
	if skips, n := j.Skips(); n > 0 {
		newest := skips[len(skips)-1]
		out.Skipped, out.Skip = n, &api.Skip{At: stamp(newest.At), Run: string(newest.Run)}
	}
	if _, _, cancelled := j.Cancelled(); !cancelled {
		out.Next = NextRun(x, max(time.Now().UnixMilli(), s.Stamp()))
	}
	return out
}

// NextRun is the first start of a schedule after a moment; nil if there is none.
func NextRun(x *taskstate.Schedule, after int64) *time.Time {
	at, err := cron.Next(x, after)
	if err != nil {
		return nil
	}
	return new(stamp(at))
}

// AllTasks implements api.ChangeBackend.
func (v *View) AllTasks(ctx context.Context, id string) (api.Tasks, error) {
	job, held, err := v.Find(ctx, id)
	if err != nil {
		return api.Tasks{}, err
	}
	if held != nil {
		return v.Tasks(ctx, id)
	}
	count := 0
	v.cfg.Replica.Read(func(s *ledger.State) {
		if j, ok := s.Job(job); ok {
			count = j.Slots()
		}
	})
	gone := v.away(ctx, job)
	return inPieces(allSlots(count), func(slots []int) ([]api.Task, error) { return v.everyTask(job, slots, &gone) })
}

// everyTask lists slots of a job, each after the earlier attempts of it that are remembered.
func (v *View) everyTask(job taskstate.JobID, slots []int, gone *away) ([]api.Task, error) {
	earlier, spec, accepted := map[int][]ledger.PastAttempt{}, (*taskstate.Job)(nil), int64(0)
	v.cfg.Replica.Read(func(s *ledger.State) {
		j, ok := s.Job(job)
		if !ok {
			return
		}
		spec, accepted = j.Job(), j.Accepted()
		for _, k := range slots {
			if past := j.Past(k); len(past) > 0 {
				earlier[k] = past
			}
		}
	})
	rows, err := v.taskRowsNow(job, slots, gone)
	out := make([]api.Task, 0, len(rows))
	for _, r := range rows {
		since := accepted
		for _, p := range earlier[r.Slot] {
			row := pastRow(spec, r.Slot, p, since)
			since = p.GivenUpAt
			row.PeerName = v.Who.Name(row.Peer)
			out = append(out, row)
		}
		out = append(out, r)
	}
	if err != nil {
		return out, err
	}
	return nameTasks(spec, out), nil
}

// pastRow is an attempt that its slot has left behind, which waited since then: with its end, or
// with why it was given up.
func pastRow(job *taskstate.Job, slot int, p ledger.PastAttempt, since int64) api.Task {
	r := ledger.SlotRecord{Slot: slot, Attempt: p.Attempt, Peer: p.Peer, Version: p.Version, AssignedAt: p.AssignedAt}
	end := p.End
	if end == nil {
		end = &taskstate.Status{State: taskstate.Shutdown, At: p.GivenUpAt, Exit: taskstate.NoExit, Reason: p.Reason, Message: "given up: " + whyGivenUp(p.Reason)}
		if l := p.Late; l != nil {
			end.State, end.At, end.Exit, end.Took, end.Message = l.State, l.At, l.Exit, l.Took, "given up, and reported late: it does not count"
		}
	}
	r.Final = end
	row := taskRow(job, r, since, nil, true)
	row.Earlier, row.Final = true, false
	return row
}

// addLastingFields adds to a task's row what slots of lasting jobs, and those that restart, have
// besides.
func addLastingFields(t *api.Task, r ledger.SlotRecord) {
	t.Version, t.Leaving, t.Retired = r.Version, string(r.Leaving), r.Retired
	if r.Retired || r.Leaving != "" {
		t.Desired = taskstate.Shutdown.String()
	}
	if r.NotBefore > 0 && r.Pending() {
		t.NotBefore = new(stamp(r.NotBefore))
	}
}

// lastMessage is what the attempt before said at its end: why a slot starts again.
func lastMessage(j *ledger.JobRecord, slot int) string {
	past := j.Past(slot)
	if len(past) == 0 || past[len(past)-1].End == nil {
		return ""
	}
	return past[len(past)-1].End.Message
}

// shownSlots lists the slots that a person means: those that are wanted, or not yet stopped. Of a
// batch job that is all of them.
func shownSlots(j *ledger.JobRecord) []int {
	out := make([]int, 0, j.Slots())
	for n := 1; n <= j.Slots(); n++ {
		if r := j.Slot(n); !j.Lasts() || !r.Retired || r.Open {
			out = append(out, n)
		}
	}
	return slices.Clip(out)
}
