package coordinator

import (
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator/clock"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
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
			if cmds, size = rp.tasks.giveUpSlots(p, h, slots, taskstate.ReasonUnreachable, cmds, size); rp.agenda.replacing {
				return cmds, size
			}
		}
	}
	return rp.addUntaken(cmds, size)
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

func (rp *replacer) dueStall(p *peerState) {
	if rp.clock.Now().Before(p.stallAt) {
		rp.clock.WakeAt(p.stallAt)
		return
	}
	p.stallAt = time.Time{}
	if rp.peers.shunned(p) {
		rp.clock.WakeAt(p.shunned)
	} else if !p.shunned.IsZero() {
		p.shunned = time.Time{}
		rp.agenda.place()
	}
	if p.outstanding == 0 || p.standing != Ready || !p.session.synced || p.offer.Trouble != "" || !rp.peers.staying(p) {
		p.stalls = stalls{} // it has nothing, or what it has waits for a reason that is known
		return
	}
	p.stallAt = rp.clock.Now().Add(stallLook)
	rp.clock.WakeAt(p.stallAt)
	rp.giveUpStalled(p, p.stalls.look(p.offer.Resources, rp.reported(p), rp.clock.Now(), rp.cfg.StartWithin))
}

// reported lists what a peer has, as it says itself.
func (rp *replacer) reported(p *peerState) (out []heldAttempt) {
	for _, h := range p.holds {
		for n, r := range h.slots {
			if !r.is(ended|saving|deciding) && r.state != taskstate.Preparing { // that waits for its inputs, and says so
				t := taskstate.Task(h.job.id, n, int(r.attempt))
				out = append(out, heldAttempt{t, r.index, h.job.body(int(r.version)).Resources, r.state >= taskstate.Starting, r.state <= taskstate.Assigned})
			}
		}
	}
	return out
}

// giveUpStalled takes from a peer what it does not start. It is asked for what must not run twice:
// nobody but it knows how far it got.
func (rp *replacer) giveUpStalled(p *peerState, due []taskstate.TaskID) {
	if len(due) == 0 {
		return
	}
	if !rp.peers.shunned(p) {
		rp.cfg.Log.Warn("a peer starts nothing of what it has, and is passed over", "peer", p.id, "tasks", len(due), "for", stallShun)
	}
	p.shunned = rp.clock.Now().Add(stallShun)
	rp.agenda.changed()
	rp.clock.WakeAt(p.shunned)
	for _, t := range due {
		h, r, ok := p.find(t)
		switch {
		case !ok:
		case h.job.job.Unreachable.Wait && !h.job.cancelled:
			if r.idle() {
				rp.sessions.recallSlots(p, h, t.Slot)
			}
		default:
			r.marks |= deciding
			h.slots[t.Slot] = r
			rp.tasks.supersede(h, t, r, taskstate.ReasonNotStarted, false)
		}
	}
}

// sickPatience is how long tasks wait for a peer that cannot take them on because its disk is full,
// read-only or stuck. Most such troubles pass.
const sickPatience = 10 * time.Second

// dueSick looks whether a peer has been in trouble for so long that what it has not taken on goes
// elsewhere.
func (rp *replacer) dueSick(p *peerState) {
	if p.offer.Trouble == "" || p.standing != Ready || !p.session.synced { // one that reads its journal will say what it has
		p.sickSince = time.Time{}
		return
	}
	if p.sickSince.IsZero() {
		p.sickSince = rp.clock.Now()
	}
	switch due := p.sickSince.Add(sickPatience); {
	case rp.clock.Now().Before(due):
		rp.clock.WakeAt(due)
	default:
		rp.agenda.replacing = rp.agenda.replacing || p.hasUntaken()
		rp.recallUnbegun(p)
	}
}

// recallUnbegun asks a peer in trouble for what it has accepted and not begun, and for what it may
// have and must not run twice: nobody but it knows how far it got. It answers at its word
// (worker/disk_full.go).
func (rp *replacer) recallUnbegun(p *peerState) {
	for _, h := range p.byAge() {
		if h.job.cancelled {
			continue
		}
		idle := h.sorted(func(r rec) bool { return r.idle() && !h.untaken(r) })
		rp.sessions.recallSlots(p, h, idle...)
	}
}

// untaken tells whether a task was given to a peer and nothing of it was heard: a peer in trouble
// has not begun with it, for it journals first. One that must not run twice waits all the same: the
// peer may be getting well this very moment.
func (h *holding) untaken(r rec) bool {
	return r.state <= taskstate.Assigned && !r.is(ended|deciding|stopped) && !h.job.cancelled && !h.job.job.Unreachable.Wait
}

func (p *peerState) hasUntaken() bool {
	for _, h := range p.holds {
		if len(h.sorted(h.untaken)) > 0 {
			return true
		}
	}
	return false
}

// addUntaken gives up what peers in trouble have not taken on, as far as one proposal reaches.
func (rp *replacer) addUntaken(cmds []ledger.Command, size int) ([]ledger.Command, int) {
	for _, p := range rp.peers.list() {
		if p.sickSince.IsZero() || p.standing != Ready || rp.clock.Now().Before(p.sickSince.Add(sickPatience)) {
			continue
		}
		for _, h := range p.byAge() {
			if cmds, size = rp.tasks.giveUpSlots(p, h, h.sorted(h.untaken), taskstate.ReasonStuck, cmds, size); rp.agenda.replacing {
				return cmds, size
			}
		}
	}
	return cmds, size
}
