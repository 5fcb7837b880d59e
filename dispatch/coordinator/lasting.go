package coordinator

import (
	"maps"
	"slices"

	"covey/dispatch/ledger"
	"covey/dispatch/rollout"
	"covey/taskstate"
)

// appliedLasting follows the decisions about services and global jobs, and about attempts that
// somebody asks for. It tells whether the command was one.
func (u *upkeep) appliedLasting(cmd *ledger.Command, r *ledger.Result) bool {
	var id taskstate.JobID
	var follow func(j *jobState)
	switch {
	case cmd.Update != nil:
		id, follow = cmd.Update.Job.ID, func(j *jobState) { u.appliedUpdate(j, &cmd.Update.Job, r) }
	case cmd.Renew != nil:
		id, follow = cmd.Renew.Job, func(j *jobState) { u.appliedRenew(j, cmd.Renew, r) }
	case cmd.Retire != nil:
		id, follow = cmd.Retire.Job, func(j *jobState) { u.appliedRetire(j, cmd.Retire, r) }
	case cmd.Grow != nil:
		id, follow = cmd.Grow.Job, func(j *jobState) { u.appliedGrow(j, cmd.Grow, r) }
	case cmd.Rollout != nil:
		id, follow = cmd.Rollout.Job, func(j *jobState) { u.appliedRollout(j, cmd.Rollout, r) }
	default:
		return false
	}
	j := u.jobs.of(id)
	if j == nil {
		return true
	}
	done := r.Refused == ledger.CodeNone || r.Refused == ledger.CodePartly
	if l := j.lasting; l != nil {
		if own := l.followed(cmd); own && !didAnything(cmd, r) {
			u.stepAgain(l, u.clock.Elapsed(u.clock.Now().Add(refusedPause)))
		} else {
			l.stale = true
		}
	}
	if done && !r.Existed {
		follow(j)
	}
	u.jobs.endJob(j)
	return true
}

// didAnything tells whether a command changed something: whoever came to it comes to the same
// again, if it did not.
func didAnything(cmd *ledger.Command, r *ledger.Result) bool {
	switch {
	case r.Refused == ledger.CodePartly && cmd.Renew != nil:
		return len(slotsOf(cmd.Renew.Slots, r.Slots)) > 0
	case r.Refused == ledger.CodePartly && cmd.Retire != nil:
		return len(slotsOf(cmd.Retire.Slots, r.Slots)) > 0
	}
	return r.Refused == ledger.CodeNone && !r.Existed
}

// appliedUpdate takes a new spec over. Tasks go on as they are until the rollout comes to them.
func (u *upkeep) appliedUpdate(j *jobState, job *taskstate.Job, r *ledger.Result) {
	next := *job
	next.Version, next.Submitter, next.Origin = r.Version, j.job.Submitter, j.job.Origin
	if j.lasting == nil {
		j.job = &next
		if u.jobs.schedules.changed(j, u.clock.Stamp()) {
			u.clock.WakeAt(u.clock.Now())
		}
		return
	}
	if l := j.lasting; next.Version != j.job.Version {
		if l.from == 0 || l.phase != rollout.Updating && l.phase != rollout.Paused {
			l.from = j.job.Version
		}
		l.phase = rollout.Updating
	}
	u.want(j, &next)
}

// want makes a spec the one that is wanted.
func (u *upkeep) want(j *jobState, next *taskstate.Job) {
	l := j.lasting
	if next.Version != j.job.Version {
		j.faults = nil
	}
	delete(j.size, next.Version)
	j.job, l.versions[next.Version] = next, next
	same := map[int]bool{}
	for v, b := range l.versions {
		same[v] = !taskstate.Restarts(b, next)
	}
	for _, s := range l.slots {
		if same[s.version] { // it does already what is wanted: after a way back, for instance
			s.version = next.Version
		}
	}
	for n, x := range j.leaving {
		if same[x.next] && !x.retired {
			x.next = next.Version
			j.leaving[n] = x
		}
	}
	for _, w := range j.groups {
		if same[w.body.Version] {
			w.body = next
		}
	}
	for i := range j.later {
		if same[j.later[i].version] {
			j.later[i].version = next.Version
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

// appliedRollout follows how far an update has come. Turned back, the version before is wanted
// again.
func (u *upkeep) appliedRollout(j *jobState, ro *ledger.Rollout, r *ledger.Result) {
	l := j.lasting
	if l == nil {
		return
	}
	if before := l.versions[l.from]; r.Version > j.job.Version && before != nil {
		next := *before
		next.Version, l.from, l.phase = r.Version, 0, rollout.RollingBack
		u.want(j, &next)
		return
	}
	l.phase = movedTo(l.phase, rollout.Phase(ro.State))
	for _, s := range l.slots {
		if l.phase.Active() {
			s.failed = 0 // from here on it counts anew
		}
	}
}

// movedTo is what becomes of a rollout that is told to pause or to go on: turned back, it does so
// as what it is.
func movedTo(is, told rollout.Phase) rollout.Phase {
	back := is == rollout.RollingBack || is == rollout.RollbackPaused
	switch {
	case back && told == rollout.Updating:
		return rollout.RollingBack
	case back && told == rollout.Paused:
		return rollout.RollbackPaused
	}
	return told
}

// slotsOf yields the slots of runs, without those refused.
func slotsOf(runs, refused []ledger.Slots) []int {
	no := map[int]bool{}
	for _, r := range refused {
		for n := range r.All() {
			no[n] = true
		}
	}
	var out []int
	for _, r := range runs {
		for n := range r.All() {
			if !no[n] {
				out = append(out, n)
			}
		}
	}
	return out
}

// appliedGrow learns which of the slots that were added are for which peer; they wait already.
func (u *upkeep) appliedGrow(j *jobState, g *ledger.Grow, r *ledger.Result) {
	l := j.lasting
	if l == nil || len(g.Peers) == 0 {
		return
	}
	has := map[taskstate.PeerID]bool{}
	for _, s := range l.slots {
		has[s.pin] = true
	}
	var fresh []int
	for _, a := range r.Again {
		for n := a.Slots.First; n < a.Slots.First+a.Slots.N; n++ {
			fresh = append(fresh, n)
		}
	}
	for _, p := range g.Peers {
		if has[p] || p == "" || len(fresh) == 0 {
			continue
		}
		has[p] = true
		n := fresh[0]
		fresh = fresh[1:]
		s := l.slot(n)
		s.pin = p
		for _, w := range j.groups { // from the group of those that may go anywhere
			for _, q := range []*slotQueue{&w.again, &w.fresh} {
				if attempt, ok := q.attempt(n); ok {
					q.remove(n)
					j.wait(ledger.Slots{First: n, N: 1, Attempt: attempt}, s.version, p)
				}
			}
		}
	}
	u.jobs.enqueue(j)
}

// appliedRenew has slots get a fresh attempt. Those that are open are stopped first.
func (u *upkeep) appliedRenew(j *jobState, w *ledger.Renew, r *ledger.Result) {
	if w.Reason == taskstate.ReasonRetried {
		j.faults, u.agenda.dirty = nil, true // whoever asks may have mended the peer
	}
	for _, n := range slotsOf(w.Slots, r.Slots) {
		if p, h := u.peers.holder(j, n); p != nil {
			version := w.Version
			if version == 0 && j.lasting != nil {
				version = j.lasting.slot(n).version
			}
			j.leave(n, leaving{why: w.Reason, next: version})
			j.lasting.retire(n, false)
			u.sessions.stopLeaving(p, h, n)
		}
	}
}

// appliedRetire ends slots that are not wanted any more.
func (u *upkeep) appliedRetire(j *jobState, w *ledger.Retire, r *ledger.Result) {
	for _, n := range slotsOf(w.Slots, r.Slots) {
		if p, h := u.peers.holder(j, n); p != nil {
			j.leave(n, leaving{why: w.Reason, retired: true})
			u.sessions.stopLeaving(p, h, n)
		} else if !j.unwait(n) && j.underWay(n) {
			if j.early == nil {
				j.early = map[int]bool{}
			}
			j.early[n] = true
		}
		j.lasting.retire(n, true)
	}
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
