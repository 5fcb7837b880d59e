package view

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/taskstate"
)

// away is which peers cannot be reached: as the coordinator sees it, which decides what becomes of
// their tasks, or without one as this peer does.
type away struct {
	since   map[taskstate.PeerID]time.Time
	frozen  bool // replacement is
	decides bool // there is a coordinator
	now     time.Time
}

// awayOf reads it off a coordinator's answer; nil if there was none.
func (v *View) awayOf(f *calls.ClusterView) away {
	a := away{since: map[taskstate.PeerID]time.Time{}, now: v.cfg.Now(), decides: f != nil}
	if f != nil {
		a.frozen = f.Frozen != ""
		for _, p := range f.Peers {
			if p.Away > 0 && p.Standing == string(coordinator.Unreachable) {
				a.since[p.ID] = a.now.Add(-time.Duration(p.Away) * time.Millisecond)
			}
		}
		return a
	}
	for _, m := range v.cfg.Members().Members {
		if m.Verdict == membership.Dead {
			a.since[m.ID] = m.Since
		}
	}
	return a
}

// away asks the coordinator who cannot be reached, if anybody has tasks of the job.
func (v *View) away(ctx context.Context, job taskstate.JobID) (a away) {
	open := false
	v.cfg.Replica.Read(func(s *ledger.State) {
		if j, ok := s.Job(job); ok {
			open = j.Counts().Open > 0
		}
	})
	if open {
		a = v.awayOf(v.AskCluster(ctx, ""))
	}
	return a
}

// of says since when a task's peer cannot be reached, and what will happen; nil if it can, or the
// task has ended.
func (a *away) of(job *taskstate.Job, r ledger.SlotRecord, cancelled bool) *api.Unreachable {
	since, gone := a.since[r.Peer]
	if !gone || !r.Open {
		return nil
	}
	return &api.Unreachable{Since: since.UTC(), Then: a.then(job, since, cancelled)}
}

// then says what becomes of tasks on a peer that has been away since then.
func (a *away) then(job *taskstate.Job, since time.Time, cancelled bool) string {
	left := since.Add(time.Duration(job.Unreachable.ReplaceAfter) * time.Millisecond).Sub(a.now)
	switch {
	case cancelled:
		return "it ends without it"
	case job.Unreachable.Wait:
		return "waits for it"
	case !a.decides:
		return "waits for a coordinator"
	case a.frozen:
		return "replacement is frozen (`peer thaw`)"
	case job.Type == taskstate.GlobalJob:
		return "runs there again when it is back"
	case left <= 0:
		return "is being replaced"
	case left < 10*time.Second:
		return "replaced in " + max(left, 100*time.Millisecond).Round(100*time.Millisecond).String()
	}
	return "replaced in " + left.Round(time.Second).String()
}

// ofJob lists the unreachable peers that have tasks of a job.
func (a *away) ofJob(j *ledger.JobRecord, said map[taskstate.TaskID]taskstate.Status) []api.Away {
	if j.Counts().Open == 0 {
		return nil
	}
	_, _, cancelled := j.Cancelled()
	found := map[taskstate.PeerID]*api.Away{}
	for r := range j.OpenSlots() {
		u := a.of(j.Job(), r, cancelled)
		if u == nil {
			continue
		}
		x := found[r.Peer]
		if x == nil {
			x = &api.Away{Peer: r.Peer, Unreachable: *u}
			found[r.Peer] = x
		}
		x.Tasks++
		if said[taskstate.Task(j.Job().ID, r.Slot, r.Attempt)].State == taskstate.Running {
			x.Running++
		}
	}
	var out []api.Away
	for _, peer := range slices.Sorted(maps.Keys(found)) {
		out = append(out, *found[peer])
	}
	return out
}

// nameAway puts names to the unreachable peers of a job's row. They are all it waits for if nothing
// else of it is to start.
func (v *View) nameAway(row *api.Job) {
	for i := range row.Unreachable {
		row.Unreachable[i].PeerName = v.Who.Called(row.Unreachable[i].Peer)
	}
	if len(row.Unreachable) > 0 && row.Tasks["pending"] == 0 {
		row.Waiting = ""
	}
}
