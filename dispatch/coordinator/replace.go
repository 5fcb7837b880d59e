package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"covey/dispatch/coordinator/clock"
	"covey/dispatch/ledger"
	"covey/dispatch/session"
	"covey/taskstate"
)

// replacer gives up what peers have that are away, in trouble, or do not start it.
type replacer struct {
	cfg      *CoreConfig
	clock    *clock.Clock
	agenda   *agenda
	peers    *peers
	sessions *sessions
	tasks    *tasks
}

// dueReplacements looks whether a peer has been unreachable for as long as a job allows. What is
// given up is decided when the next proposal is cut, so that a sign of life counts until the last
// moment.
func (rp *replacer) dueReplacements() {
	for _, p := range rp.peers.list() {
		rp.dueSick(p)
		rp.dueStall(p)
		if p.standing != Unreachable {
			continue
		}
		for _, h := range p.holds {
			if due, ever := rp.replaceAt(p, h.job); ever && len(h.slots) > 0 {
				if rp.clock.Now().Before(due) {
					rp.clock.WakeAt(due)
				} else {
					rp.agenda.replacing = true
				}
			}
		}
	}
}

// addReplacements gives up what is due, as far as one proposal reaches: in the same entry of the
// ledger the slots wait again.
func (rp *replacer) addReplacements(cmds []ledger.Command, size int) ([]ledger.Command, int) {
	if !rp.agenda.replacing {
		return cmds, size
	}
	rp.agenda.replacing = false
	for _, p := range rp.peers.list() {
		if p.standing != Unreachable || p.session != nil { // a Hello is a sign of life, welcomed or not
			continue
		}
		for _, h := range p.byAge() {
			if due, ever := rp.replaceAt(p, h.job); !ever || rp.clock.Now().Before(due) {
				continue
			}
			slots := h.sorted(func(r rec) bool { return !r.is(deciding) })
			if len(slots) == 0 || !h.job.cancelled && !rp.peers.mayReplace(p) {
				continue // what is cancelled needs no replacement, only an end
			}
			if cmds, size = rp.tasks.giveUpSlots(h, slots, taskstate.ReasonUnreachable, cmds, size); rp.agenda.replacing {
				return cmds, size
			}
		}
	}
	return rp.addUntaken(cmds, size)
}

// giveUpSlots adds to cmds that the attempts of these slots are given up. It stops, and says so in
// replacing, where one proposal ends.
func (ts *tasks) giveUpSlots(h *holding, slots []int, why taskstate.Reason, cmds []ledger.Command, size int) ([]ledger.Command, int) {
	for _, n := range slots {
		if size >= maxDecideSize {
			ts.agenda.replacing = true
			return cmds, size
		}
		r := h.slots[n]
		r.marks |= deciding
		h.slots[n] = r
		t := taskstate.Task(h.job.id, n, int(r.attempt))
		cmds = append(cmds, ledger.Command{Supersede: ts.givenUp(h, t, r, why, false)})
		size += supersedeBytes
	}
	return cmds, size
}

// replaceAt is when attempts of a job on an unreachable peer are given up; ever is false for work
// that must not run twice. A cancelled job waits for nobody.
func (rp *replacer) replaceAt(p *peerState, j *jobState) (due time.Time, ever bool) {
	switch {
	case j.cancelled:
		return p.lostSince, true
	case j.job.Unreachable.Wait:
		return time.Time{}, false
	}
	return p.lostSince.Add(time.Duration(j.job.Unreachable.ReplaceAfter) * time.Millisecond), true
}

// waitingForPeers says which of a job's tasks hang on peers that do not answer.
func (ex *explainer) waitingForPeers(j *jobState) string {
	if j == nil {
		return ""
	}
	for _, p := range ex.peers.list() {
		h := p.holds[j.id]
		if h == nil || len(h.slots) == 0 {
			continue
		}
		if p.standing == Ready {
			if said := cmp.Or(ex.stalledTasks(h, p), ex.inLine(h, p)); said != "" {
				return said
			}
			continue
		}
		tasks := fmt.Sprintf("tasks on peer %s, which is %s: %d", p.id, p.standing, len(h.slots))
		switch due, ever := ex.replacer.replaceAt(p, j); {
		case ex.peers.frozen().Active() && ever && p.standing == Unreachable:
			return tasks + "; replacement is frozen: " + ex.peers.frozen().String() + " (peer thaw)"
		case p.standing != Unreachable:
			return tasks
		case !ever:
			return tasks + "; they must not run twice and wait for it (unreachable.wait)"
		default:
			said := fmt.Sprintf("%s; they go elsewhere in %s", tasks, max(0, later(due, ex.peers.held(p)).Sub(ex.clock.Now()).Round(100*time.Millisecond)))
			if !ex.peers.guard.Returning(ex.clock.Now()).IsZero() {
				said += ", for other peers are just coming back"
			}
			return said
		}
	}
	return ""
}

// giveUp mirrors what the ledger does when an open attempt ends without its worker. A worker that
// may still run it is told to stop.
func (ts *tasks) giveUp(p *peerState, h *holding, slot int, r rec, again bool, why taskstate.Reason) {
	t := taskstate.Task(h.job.id, slot, int(r.attempt))
	if s := p.session; s != nil && s.synced && !r.is(ended) {
		s.stops = append(s.stops, session.Stop{Task: t, Reason: why})
		ts.sessions.touch(s)
	}
	if again && !h.job.cancelled {
		ts.given.add(t)
	}
	ts.close(p, h, slot, r)
	ts.jobs.enqueue(h.job)
}

// giveUpAll mirrors what happens to a peer's open tasks when it is removed, leaves or comes back as
// another incarnation. Ends that it told before and that are not decided yet are decided as what
// they are now: late.
func (ts *tasks) giveUpAll(p *peerState) {
	ts.keepTold(p)
	for _, h := range p.byAge() {
		slots := make([]int, 0, len(h.slots))
		for n := range h.slots {
			slots = append(slots, n)
		}
		slices.Sort(slots)
		for _, n := range slots {
			ts.giveUp(p, h, n, h.slots[n], !h.job.job.Unreachable.Wait, taskstate.ReasonInterrupted)
		}
	}
}

// byAge lists what p holds, the oldest job first.
func (p *peerState) byAge() []*holding {
	out := make([]*holding, 0, len(p.holds))
	for _, h := range p.holds {
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b *holding) int { // several may have come with one entry
		return cmp.Or(cmp.Compare(a.job.index, b.job.index), cmp.Compare(a.job.id, b.job.id))
	})
	return out
}

// appliedCancel stops a job: what waits is over, what is open is stopped wherever a session is up;
// elsewhere it is stopped when the worker comes back.
func (c *Core) appliedCancel(id taskstate.JobID) {
	j := c.jobs.of(id)
	if j == nil {
		return
	}
	j.cancelled = true
	j.groups, j.later, j.leaving = nil, nil, nil
	for _, p := range c.peers.list() {
		if h := p.holds[id]; h != nil {
			c.sessions.stopAll(p, h)
			if p.standing == Unreachable {
				c.clock.WakeAt(c.clock.Now())
			}
		}
	}
	c.jobs.endJob(j)
}

// stopAll tells a peer with a session to stop all it has of a job.
func (ss *sessions) stopAll(p *peerState, h *holding) {
	s := p.session
	if s == nil || !s.synced {
		return
	}
	for _, n := range h.sorted(func(r rec) bool { return !r.is(ended | stopped) }) {
		r := h.slots[n]
		r.marks |= stopped
		h.slots[n] = r
		s.stops = append(s.stops, session.Stop{Task: taskstate.Task(h.job.id, n, int(r.attempt)), Reason: taskstate.ReasonCancelled})
	}
	ss.touch(s)
}

// sorted lists the slots of a holding whose task pick accepts, ascending.
func (h *holding) sorted(pick func(rec) bool) []int {
	var out []int
	for n, r := range h.slots {
		if pick(r) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// giveUpLost gives up what the recovered ledger says a worker has, and the worker has not: it never
// got there, or it ended and that was decided, and acknowledged to the worker, in the part of the
// ledger that was lost. It must not be sent again, because the same attempt would run twice: the
// slot gets another attempt, or, if its job must not run twice, ends.
func (ts *tasks) giveUpLost(p *peerState) {
	if ts.began == 0 {
		return
	}
	for _, h := range p.byAge() {
		for _, n := range h.sorted(func(r rec) bool { return r.is(inherited) && !r.is(deciding) }) {
			r := h.slots[n]
			ts.release(p, h, &r)
			r.marks |= deciding
			h.slots[n] = r
			ts.supersede(h, taskstate.Task(h.job.id, n, int(r.attempt)), r, taskstate.ReasonDropped, true)
		}
	}
}
