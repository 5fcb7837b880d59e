package coordinator

import (
	"maps"
	"slices"

	"covey/dispatch/ledger"
	"covey/dispatch/rollout"
	"covey/taskstate"
)

// applied follows the decisions about what a job is to be – its spec, how far its tasks follow that,
// which of them there are – and about attempts that somebody asks for. What they mean, the ledger
// says in Result.Now. It tells whether the command was one.
func (u *upkeep) applied(cmd *ledger.Command, r *ledger.Result) bool {
	id, seen := about(cmd)
	if id == "" {
		return false
	}
	j := u.jobs.of(id)
	if j == nil {
		return true
	}
	if l := j.lasting; l != nil {
		own := seen != nil && *seen >= u.born && l.proposed > 0
		if own {
			l.proposed--
		}
		if own && r.Now == nil { // it would come to the same again
			u.stepAgain(l, u.clock.Elapsed(u.clock.Now().Add(refusedPause)))
		} else {
			l.stale = true
		}
	}
	if r.Now != nil {
		u.adopt(j, r.Now, cmd)
	}
	u.jobs.endJob(j)
	return true
}

// about is the job that such a command is about, "" for others, and how far its author had seen the
// ledger, where it says so: only steps do.
func about(cmd *ledger.Command) (id taskstate.JobID, seen *uint64) {
	switch {
	case cmd.Update != nil:
		return cmd.Update.Job.ID, nil
	case cmd.Renew != nil:
		return cmd.Renew.Job, &cmd.Renew.Seen
	case cmd.Retire != nil:
		return cmd.Retire.Job, &cmd.Retire.Seen
	case cmd.Grow != nil:
		return cmd.Grow.Job, &cmd.Grow.Seen
	case cmd.Rollout != nil:
		return cmd.Rollout.Job, &cmd.Rollout.Seen
	}
	return "", nil
}

// adopt takes over what a job is to be now, and the slots of it that are to stop, or not to begin.
func (u *upkeep) adopt(j *jobState, o *ledger.Outline, cmd *ledger.Command) {
	l, other := j.lasting, o.Job != j.job
	if l != nil {
		l.from, l.phase = o.Rollout.From, rollout.Phase(o.Rollout.State)
	}
	if other {
		u.respec(j, o)
	} else if cmd.Rollout != nil && l.phase.Active() {
		for _, s := range l.slots {
			s.failed = 0 // from here on it counts anew
		}
	}
	if cmd.Renew != nil && cmd.Renew.Reason == taskstate.ReasonRetried {
		j.faults = nil
		u.agenda.place() // whoever asks may have mended the peer
	}
	for _, s := range o.Slots {
		l.retire(s.Slot, s.Retired)
		if s.Leaving != "" {
			j.leave(s.Slot, leaving{why: s.Leaving, next: s.Next, retired: s.Retired})
			if p, h := u.peers.holder(j, s.Slot); p != nil {
				u.sessions.stopLeaving(p, h, s.Slot)
			}
		} else if s.Retired && !j.unwait(s.Slot) && j.underWay(s.Slot) {
			if j.early == nil {
				j.early = map[int]bool{}
			}
			j.early[s.Slot] = true
		}
	}
}

// pin notes which of the slots a command added are for which peer, before they wait.
func (u *upkeep) pin(o *ledger.Outline) {
	if o == nil || len(o.Slots) == 0 {
		return
	}
	if j := u.jobs.of(o.Job.ID); j != nil && j.lasting != nil {
		for _, s := range o.Slots {
			j.lasting.slot(s.Slot).pin = s.Pin
		}
	}
}

// respec makes another spec the one that is wanted. Tasks go on as they are until the rollout comes
// to them; those that do already what is wanted count as of it.
func (u *upkeep) respec(j *jobState, o *ledger.Outline) {
	version := o.Job.Version
	if version != j.job.Version {
		j.faults = nil
	}
	delete(j.size, version)
	j.job = o.Job
	l := j.lasting
	if l == nil {
		if u.jobs.schedules.changed(j, o.StartsFrom) {
			u.clock.WakeAt(u.clock.Now())
		}
		return
	}
	l.versions[version] = o.Job
	same := func(v int) bool { return v == version || slices.Contains(o.Same, v) }
	for _, s := range l.slots {
		if same(s.version) {
			s.version = version
		}
	}
	for n, x := range j.leaving {
		if same(x.next) && !x.retired {
			x.next = version
			j.leaving[n] = x
		}
	}
	for _, w := range j.groups {
		if same(w.body.Version) {
			w.body = o.Job
		}
	}
	for i := range j.later {
		if same(j.later[i].version) {
			j.later[i].version = version
		}
	}
	u.jobs.reclassify(j)
	l.tidyVersions(u.peers.list(), j)
}

// tidyVersions forgets versions nobody can need any more.
func (l *lasting) tidyVersions(all []*peerState, j *jobState) {
	used := map[int]bool{j.job.Version: true, l.from: true}
	for _, s := range l.slots {
		used[s.version] = true
	}
	for _, x := range j.leaving {
		used[x.next] = true
	}
	for _, x := range j.inflight {
		used[x.body.Version] = true
	}
	for _, p := range all {
		if h := p.holds[j.id]; h != nil {
			for _, r := range h.slots {
				used[int(r.version)] = true
			}
		}
	}
	maps.DeleteFunc(l.versions, func(v int, _ *taskstate.Job) bool { return !used[v] })
}

// holder finds the peer a slot is open on.
func (ps *peers) holder(j *jobState, slot int) (*peerState, *holding) {
	for _, p := range ps.order {
		if h := p.holds[j.id]; h != nil {
			if _, open := h.slots[slot]; open {
				return p, h
			}
		}
	}
	return nil, nil
}

// ordered lists the slots of a lasting job, ascending.
func (l *lasting) ordered() []int { return slices.Sorted(maps.Keys(l.slots)) }
