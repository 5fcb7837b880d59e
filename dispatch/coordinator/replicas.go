package coordinator

import (
	"slices"

	"covey/dispatch/replicas"
	"covey/dispatch/rollout"
	"covey/taskstate"
)

// markSurge marks as many slots of the version wanted as there are too many: those that have ended for good, then the highest.
func markSurge(slots []rollout.Slot, target, extra int) {
	for _, done := range []bool{true, false} {
		for i := range slices.Backward(slots) {
			if s := &slots[i]; extra > 0 && s.Version == target && s.Done == done {
				s.Surge = true
				extra--
			}
		}
	}
}

// mayRun tells whether a task that was given to a peer may run there though nothing was heard of it yet: after an election, for as long as
// everybody has to come back. Later a task that nobody has heard of is taken for one that is down, and is changed first; should it run all the
// same, it is one of those that may be down.
func (c *Core) mayRun(id taskstate.PeerID) bool {
	p := c.peers[id]
	return p != nil && p.standing == Unknown
}

// unsure tells whether it will be known soon, and is not yet, which tasks of a job run: after an election, until everybody has said what it has
// or is known to be away. Whoever took something down meanwhile might do so beside what is down.
func (c *Core) unsure(j *jobState) bool {
	for n, s := range j.lasting.slots {
		p := c.peers[s.peer]
		if s.retired || p == nil || !s.running.IsZero() || j.leaves(n) {
			continue
		}
		if p.standing == Unknown || p.session != nil && !p.session.synced {
			return true
		}
	}
	return false
}

// away tells whether a peer can take no new task for now: it is gone, or somebody paused it. One that merely has no session, after an
// election for instance, may well run its task.
func (c *Core) away(id taskstate.PeerID) bool {
	p := c.peers[id]
	return p == nil || p.standing == Unreachable || p.standing == Left || !p.takes()
}

// surge is how many slots there are to be above the number wanted. A paused update keeps what it has.
func (c *Core) surge(j *jobState, in rollout.Input, out rollout.Output) int {
	if !pausedPhase(in.Phase) || in.Update.Order != taskstate.StartFirst {
		return out.Surge
	}
	extra := 0
	for _, s := range in.Slots {
		if s.Surge {
			extra++
		}
	}
	return extra
}

// serviceChange gives a service its replicas. Where the surge of an update comes first, it must be of the new version: what is left of a
// higher count before is given up, and does not stand in for it. When the surge ends, what the update has not seen run for long goes first:
// were it left, the update would begin anew; and what failed before what did not.
func (c *Core) serviceChange(j *jobState, in rollout.Input, out rollout.Output) replicas.Change {
	all := c.replicasOf(j)
	for i, s := range all {
		fresh := out.Surge == 0 && slices.Contains(out.Fresh, s.N)
		all[i].Running = s.Running && !fresh
	}
	if out.Surge > 0 {
		var old []replicas.Slot
		for _, s := range all {
			if !s.Retired && j.lasting.slots[s.N].version != in.Target && j.leaving[s.N].next != in.Target {
				old = append(old, s)
			}
		}
		if len(old) > j.job.Count {
			return replicas.Service(old, j.job.Count)
		}
	}
	return replicas.Service(all, j.job.Count+min(c.surge(j, in, out), j.job.Count)) // an update of all at once means all there are to be
}

// replicasOf describes the slots of a service.
func (c *Core) replicasOf(j *jobState) []replicas.Slot {
	var out []replicas.Slot
	for _, n := range j.lasting.ordered() {
		s := j.lasting.slots[n]
		out = append(out, replicas.Slot{
			N: n, Retired: s.retired || j.leaving[n].retired, Peer: s.peer,
			Running: !s.running.IsZero() && !j.leaves(n), Failed: s.failedOn(j.job.Version),
		})
	}
	return out
}

// globalChange gives each peer that fits its slot.
func (c *Core) globalChange(j *jobState) replicas.Change {
	var slots []replicas.Slot
	for _, n := range j.lasting.ordered() {
		s := j.lasting.slots[n]
		slots = append(slots, replicas.Slot{N: n, Retired: s.retired || j.leaving[n].retired, Peer: s.pin, Running: !s.running.IsZero()})
	}
	var fit []taskstate.PeerID
	for _, p := range c.order {
		if c.fitsGlobal(j, p) {
			fit = append(fit, p.id)
		}
	}
	return replicas.Global(slots, fit, func(id taskstate.PeerID) bool {
		p := c.peers[id]
		return p != nil && p.worker && !p.left && !p.drained() && j.allows(p)
	})
}

// fitsGlobal tells whether a peer is to have a task of a global job.
func (c *Core) fitsGlobal(j *jobState, p *peerState) bool {
	return p.worker && !p.left && p.takes() && p.standing == Ready && p.about != nil && j.allows(p) && j.job.Resources.Fits(p.offer.Resources)
}
