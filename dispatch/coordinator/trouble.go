package coordinator

import (
	"cmp"
	"slices"
	"time"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// A worker that keeps its session and starts nothing of what it has, although by its own reports it
// has room for it, loses it after StartWithin and is passed over for a while. Nobody else can tell
// whether it is broken or lies.
const (
	stallLook = 5 * time.Second
	stallShun = 5 * time.Minute // passed over, unless it starts something it has
)

// given is a task a worker has, as far as its own reports go. Workers start what they have in the
// order in which it came.
type given struct {
	task  taskstate.TaskID
	index uint64 // of the assignment
	need  taskstate.Resources
	begun bool
}

// stalls watches the tasks of one worker that have not begun. It is pure.
type stalls struct {
	watched map[taskstate.TaskID]stalled
}

type stalled struct {
	since time.Time // it could have begun
	ahead int       // so many waited with it or before it
}

// look tells which tasks could have begun for too long. A task's clock runs while there is room for
// it and for each of those that came before it and wait as well: whichever of them is the first in
// the worker's queue could begin. It starts anew when one of those did, or went away.
func (s *stalls) look(free taskstate.Resources, tasks []given, now time.Time, within time.Duration) (due []taskstate.TaskID) {
	slices.SortFunc(tasks, func(a, b given) int { return cmp.Or(cmp.Compare(a.index, b.index), a.task.Compare(b.task)) })
	var wait []given
	for _, g := range tasks {
		if g.begun {
			free = free.Sub(g.need)
		} else {
			wait = append(wait, g)
		}
	}
	next := map[taskstate.TaskID]stalled{}
	for i, room := 0, true; i < len(wait) && room; { // those of one entry came together
		k := i
		for ; k < len(wait) && wait[k].index == wait[i].index; k++ {
			room = room && wait[k].need.Fits(free)
		}
		for ; i < k && room; i++ {
			x, ok := s.watched[wait[i].task]
			if !ok || k < x.ahead {
				x.since = now
			}
			x.ahead = k
			next[wait[i].task] = x
			if now.Sub(x.since) >= within {
				due = append(due, wait[i].task)
			}
		}
	}
	s.watched = next
	return due
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
func (rp *replacer) reported(p *peerState) (out []given) {
	for _, h := range p.holds {
		for n, r := range h.slots {
			if !r.is(ended | deciding) {
				t := taskstate.Task(h.job.id, n, int(r.attempt))
				out = append(out, given{t, r.index, h.job.body(int(r.version)).Resources, r.state >= taskstate.Preparing})
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
		for _, r := range h.slots {
			if h.untaken(r) {
				return true
			}
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
			if cmds, size = rp.tasks.giveUpSlots(h, h.sorted(h.untaken), taskstate.ReasonStuck, cmds, size); rp.agenda.replacing {
				return cmds, size
			}
		}
	}
	return cmds, size
}
