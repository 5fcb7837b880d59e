package coordinator

import (
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/replicas"
	"github.com/coveyproject/covey/dispatch/rollout"
	"github.com/coveyproject/covey/taskstate"
)

// step asks the pure steps of what lasts what is to be done now. Their decisions go out with the
// next proposal.
func (u *upkeep) step() {
	for _, j := range slices.Clone(u.jobs.lasting) {
		l := j.lasting
		if l.seen != u.agenda.changes {
			l.seen, l.stale = u.agenda.changes, true
		}
		if !l.wake.IsZero() && !u.clock.Now().Before(l.wake) {
			l.stale = true
		}
		if !l.stale || l.proposed > 0 || j.cancelled || j.blocked {
			continue
		}
		l.stale, l.wake = false, time.Time{}
		u.stepLasting(j)
	}
}

// stepLasting brings one service or global job nearer to what is wanted.
func (u *upkeep) stepLasting(j *jobState) {
	u.watchRunning(j)
	in := u.rolloutOf(j)
	u.noteCrowded(j.lasting, in)
	out := rollout.Step(in)
	if out.Wake > 0 {
		u.stepAgain(j.lasting, out.Wake)
	}
	var ch replicas.Change
	if j.job.Type == taskstate.GlobalJob {
		ch = u.globalChange(j)
	} else {
		ch = u.serviceChange(j, in, out)
	}
	unsure := u.unsure(j)
	if unsure && j.job.Type == taskstate.ServiceJob {
		ch.Retire = nil
	}
	if !ch.Empty() {
		// One thing at a time: what is given up now must not be renewed in the same breath. The
		// rest follows when this is decided.
		u.change(j, ch)
		return
	}
	if !unsure {
		u.renew(j, out.Renew, j.job.Version, taskstate.ReasonUpdated)
		if !in.Phase.Active() {
			u.catchUp(j, in)
		}
	}
	if u.moveAway(j); j.lasting.proposed == 0 {
		u.balance(j, in)
	}
	if out.Phase != taskstate.RolloutNone {
		u.decideFor(j, ledger.Command{Rollout: &ledger.Rollout{
			Job: j.id, State: out.Phase, Message: out.Message, Version: j.job.Version, Failed: out.Failed,
		}})
	}
}

// noteCrowded records since when a task of an update that starts new tasks first waits to run.
func (u *upkeep) noteCrowded(l *lasting, in rollout.Input) {
	waits := slices.ContainsFunc(in.Slots, func(s rollout.Slot) bool { return s.Surge && !s.Running && !s.Done && !s.Failed && !s.Failing })
	switch {
	case !waits || !in.Phase.Active():
		l.crowded = time.Time{}
	case l.crowded.IsZero():
		l.crowded = u.clock.Now()
	}
}

// watchRunning notes since when tasks are seen to run.
func (u *upkeep) watchRunning(j *jobState) {
	for _, n := range j.lasting.ordered() {
		s := j.lasting.slots[n]
		if r, ok := u.peers.openTask(j, s, n); ok && r.state >= taskstate.Running && !r.is(ended) {
			if s.running.IsZero() {
				s.running, s.ran = u.clock.Now(), u.clock.Now()
			}
		} else {
			s.running = time.Time{}
		}
	}
}

// rolloutOf gathers what the step of an update depends on. Slots pinned to a peer that is away are
// left out: they follow when it is back (catchUp).
func (u *upkeep) rolloutOf(j *jobState) rollout.Input {
	l := j.lasting
	in := rollout.Input{Update: j.job.Updating(), Phase: l.phase, Target: j.job.Version, Now: u.clock.Elapsed(u.clock.Now())}
	if j.job.Type == taskstate.GlobalJob {
		in.Update.Order = taskstate.StopFirst // a peer has one slot
	}
	for _, n := range l.ordered() {
		s := l.slots[n]
		if s.retired || s.pin != "" && u.peers.away(s.pin) {
			continue
		}
		x := rollout.Slot{N: n, Version: s.version, Done: s.done && s.peer == "" && !s.waits, Running: !s.running.IsZero(), Down: s.waits}
		x.Failing = s.version != j.job.Version && s.failedOn(s.version)
		switch {
		case x.Running:
			x.Since = u.clock.Elapsed(s.running)
		case u.peers.mayRun(s.peer): // after an election for instance; taken for down, it would be taken down
			x.Running, x.Since = true, u.clock.Elapsed(u.clock.Now())
		}
		if leave, ok := j.leaving[n]; ok {
			if leave.retired {
				continue
			}
			x.Version, x.Leaving, x.Running = leave.next, true, false
		}
		if s.failedOn(j.job.Version) {
			x.Failed, x.FailedAt = true, u.clock.Elapsed(s.failedAt)
		}
		in.Slots = append(in.Slots, x)
	}
	if extra := len(in.Slots) - j.job.Count; extra > 0 && in.Update.Order == taskstate.StartFirst {
		markSurge(in.Slots, in.Target, extra)
	}
	return in
}

// change has the slots that are missing added and those that are too many retired. While an update
// is paused, what is added is of the version before: nobody knows the new one to be good.
func (u *upkeep) change(j *jobState, ch replicas.Change) {
	version := j.job.Version
	if l := j.lasting; l.phase == taskstate.RolloutPaused && l.versions[l.from] != nil {
		version = l.from
	}
	u.renew(j, ch.Renew, version, taskstate.ReasonScaled)
	if len(ch.Retire) > 0 {
		u.decideFor(j, ledger.Command{Retire: &ledger.Retire{Job: j.id, Slots: j.lasting.runs(ch.Retire), Reason: taskstate.ReasonScaled}})
	}
	if ch.Grow > 0 {
		u.decideFor(j, ledger.Command{Grow: &ledger.Grow{Job: j.id, N: ch.Grow, Version: version, First: j.lasting.top + 1}})
	}
	if len(ch.Pins) > 0 {
		u.decideFor(j, ledger.Command{Grow: &ledger.Grow{Job: j.id, Peers: ch.Pins, Version: version}})
	}
}

// catchUp renews slots that missed the update because their peer was away, no more at once than the
// update may: when half a cluster comes back together, its tasks do not all stop together.
func (u *upkeep) catchUp(j *jobState, in rollout.Input) {
	var late []int
	most := in.Update.Parallelism
	if most <= 0 {
		most = len(in.Slots)
	}
	for _, s := range in.Slots {
		switch {
		case s.Version == in.Target && !s.Running && !s.Done && !s.Failed:
			most--
		case s.Version != in.Target && !s.Leaving:
			late = append(late, s.N)
		}
	}
	u.renew(j, late[:max(0, min(most, len(late)))], in.Target, taskstate.ReasonUpdated)
}

// moveAway renews the tasks of a service that are where they must not be: on a peer that is
// drained, or that the job's constraints do not allow any more.
func (u *upkeep) moveAway(j *jobState) {
	if j.job.Type != taskstate.ServiceJob {
		return
	}
	var drained, moved []int
	for _, n := range j.lasting.ordered() {
		s := j.lasting.slots[n]
		p := u.peers.of(s.peer)
		switch {
		case p == nil || j.leaves(n) || s.retired:
		case p.drained():
			drained = append(drained, n)
		case !j.allows(p):
			moved = append(moved, n)
		}
	}
	u.renew(j, drained, 0, taskstate.ReasonDrained)
	u.renew(j, moved, 0, taskstate.ReasonMoved)
}

// markSurge marks as many slots of the version wanted as there are too many: those that have ended
// for good, then the highest.
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

// unsure tells whether it will be known soon, and is not yet, which tasks of a job run: after an
// election, until everybody has said what it has or is known to be away. A worker that took
// something down meanwhile might do so beside what is down.
func (u *upkeep) unsure(j *jobState) bool {
	for n, s := range j.lasting.slots {
		p := u.peers.of(s.peer)
		if s.retired || p == nil || !s.running.IsZero() || j.leaves(n) {
			continue
		}
		if p.standing == Unknown || p.session != nil && !p.session.synced {
			return true
		}
	}
	return false
}

// surge is how many slots there are to be above the number wanted. A paused update keeps what it
// has.
func (u *upkeep) surge(in rollout.Input, out rollout.Output) int {
	if !in.Phase.Halted() || in.Update.Order != taskstate.StartFirst {
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

// serviceChange gives a service its replicas. Where the surge of an update comes first, it must be
// of the new version: what is left of a higher count before is given up, and does not stand in for
// it. When the surge ends, what the update has not seen run for long goes first: were it left, the
// update would begin anew; and what failed before what did not.
func (u *upkeep) serviceChange(j *jobState, in rollout.Input, out rollout.Output) replicas.Change {
	all := u.replicasOf(j)
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
	return replicas.Service(all, j.job.Count+min(u.surge(in, out), j.job.Count)) // an update of all at once means all there are to be
}

func (u *upkeep) replicasOf(j *jobState) []replicas.Slot {
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
func (u *upkeep) globalChange(j *jobState) replicas.Change {
	var slots []replicas.Slot
	for _, n := range j.lasting.ordered() {
		s := j.lasting.slots[n]
		slots = append(slots, replicas.Slot{N: n, Retired: s.retired || j.leaving[n].retired, Peer: s.pin, Running: !s.running.IsZero()})
	}
	var fit []taskstate.PeerID
	for _, p := range u.peers.list() {
		if u.peers.fitsGlobal(j, p) {
			fit = append(fit, p.id)
		}
	}
	return replicas.Global(slots, fit, func(id taskstate.PeerID) bool {
		p := u.peers.of(id)
		return p != nil && p.worker && !p.member.Left && !p.drained() && u.peers.lets(j, p)
	})
}
