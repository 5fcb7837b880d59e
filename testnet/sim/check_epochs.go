package sim

import (
	"covey/dispatch/session"
	"covey/taskstate"
)

// epochs is I3: whose commands are obeyed, and that epochs never fall. The client's end of a
// session and the journal tell it.
type epochs struct {
	w      *world
	of     map[taskstate.Epoch]taskstate.PeerID      // whose commands were obeyed
	obeyed map[taskstate.Incarnation]taskstate.Epoch // newest epoch whose grants are on that disk
	newest map[taskstate.Incarnation]taskstate.Epoch // newest epoch it was welcomed in, for a Break
}

// say is a frame as the worker sends it: as it was made, or without a word about the epochs it has
// obeyed, for a Break.
func (f *epochs) say(u session.Up) session.Up {
	if h := u.Hello; h != nil && f.w.cfg.Break == BreakUnfence {
		as := *h
		as.Fence, u.Hello = taskstate.Epoch{}, &as
	}
	return u
}

// heed is a frame as the worker takes it: as it was sent, or as if it came in the newest epoch, for
// a Break.
func (f *epochs) heed(l *life, d session.Down) *session.Down {
	if f.w.cfg.Break != BreakUnfence {
		return &d
	}
	newest := f.newest[l.p.inc]
	if w := d.Welcome; w != nil && newest.Less(w.Epoch) {
		f.newest[l.p.inc] = w.Epoch
	} else if w != nil {
		as := *w
		as.Epoch, d.Welcome = newest, &as
	}
	if a := d.Assignments; a != nil && a.Epoch.Less(newest) {
		as := *a
		as.Epoch, d.Assignments = newest, &as
	}
	return &d
}

// welcomed is I3: in one epoch one coordinator is obeyed, and none of an older one.
func (f *epochs) welcomed(l *life, at *peer, d *session.Down, refused bool) {
	if refused {
		return
	}
	e := d.Welcome.Epoch
	if other, ok := f.of[e]; ok && other != at.id {
		f.w.fail("I3", "%s obeys %s in epoch %s, which is %s's", l.p.id, at.id, e, other)
	}
	f.of[e] = at.id
	if e.Less(f.obeyed[l.p.inc]) {
		f.w.fail("I3", "%s obeys %s in epoch %s, and has obeyed epoch %s before", l.p.id, at.id, e, f.obeyed[l.p.inc])
	}
}

// journaled is I3 again: what is accepted comes in epochs that never fall.
func (f *epochs) journaled(l *life, t *transaction) {
	for id, e := range t.Grants() {
		if e.Less(f.obeyed[l.p.inc]) {
			f.w.fail("I3", "%s accepts %s in epoch %s, and has obeyed epoch %s before", l.p.id, id, e, f.obeyed[l.p.inc])
		}
		f.obeyed[l.p.inc] = e
	}
}
