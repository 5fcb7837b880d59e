package coordinator

import (
	"github.com/coveyproject/covey/taskstate"
)

// keepGivenUp bounds the attempts whose late end is still passed on to the ledger. The end of one
// that was pushed out is acknowledged and not looked at.
const keepGivenUp = 1 << 16

// givenUps are attempts that were given up and whose end was not heard of: when their peer comes
// back it may be. The ledger decides what such an end means.
type givenUps struct {
	have  map[taskstate.TaskID]struct{}
	order []taskstate.TaskID // the oldest first; some are not in have any more
}

func (g *givenUps) add(t taskstate.TaskID) {
	if g.have == nil {
		g.have = map[taskstate.TaskID]struct{}{}
	}
	if _, ok := g.have[t]; ok {
		return
	}
	for len(g.order) >= keepGivenUp {
		delete(g.have, g.order[0])
		g.order = g.order[1:]
	}
	g.have[t] = struct{}{}
	g.order = append(g.order, t)
}

func (g *givenUps) has(t taskstate.TaskID) bool { _, ok := g.have[t]; return ok }

func (g *givenUps) drop(t taskstate.TaskID) { delete(g.have, t) }

// onLate takes the end of a task that is not open. If its attempt was given up, and the end says
// how far its run got, the ledger hears of it: a success may count, anything else is part of the
// story.
func (ts *tasks) onLate(s *workerSession, st *taskstate.Status, batch uint64) {
	p := s.p
	if old, ok := p.late[st.Task]; ok {
		if old == 0 { // on its way to the ledger since the session before
			p.late[st.Task] = batch
			s.acks.add()
		}
		return
	}
	if !ts.given.has(st.Task) || !tellsOfARun(st) {
		return
	}
	ts.sendLate(s, st, batch)
}

// justGivenUp takes the success of a task whose giving up is on its way to the ledger: it follows
// there, and may still count.
func (ts *tasks) justGivenUp(s *workerSession, h *holding, r rec, st *taskstate.Status, batch uint64) {
	ts.release(s.p, h, &r)
	r.state = st.State
	h.slots[st.Task.Slot] = r
	ts.sendLate(s, st, batch)
}

// sendLate has the ledger hear of an end that may be too late.
func (ts *tasks) sendLate(s *workerSession, st *taskstate.Status, batch uint64) {
	if s.p.late == nil {
		s.p.late = map[taskstate.TaskID]uint64{}
	}
	s.p.late[st.Task] = batch
	s.acks.add()
	ts.settle(s.p, st)
}

// tellsOfARun tells whether an end is more than the word that there was nothing.
func tellsOfARun(st *taskstate.Status) bool {
	switch st.Reason {
	case taskstate.ReasonRecalled, taskstate.ReasonInterrupted, taskstate.ReasonDropped:
		return st.State == taskstate.Complete
	}
	return st.State != taskstate.Rejected
}

// lateDecided ends the waiting for a late end, if t is one.
func (ts *tasks) lateDecided(p *peerState, t taskstate.TaskID) {
	if p == nil {
		ts.given.drop(t)
		return
	}
	batch, ok := p.late[t]
	if !ok {
		return
	}
	delete(p.late, t)
	ts.given.drop(t)
	ts.sessions.batchDone(p.session, batch)
}

// keepTold takes the ends that p told and nobody proposed yet out of the hands of this life of p,
// which is over: what tells of a run goes to the ledger as a late end, and is acknowledged when
// that is decided.
func (ts *tasks) keepTold(p *peerState) {
	q := p.ends
	if p.ends = nil; q == nil {
		return
	}
	kept := q.list[:0]
	for _, st := range q.list {
		h, r, open := p.find(st.Task)
		switch {
		case !open: // late already
			kept = append(kept, st)
		case tellsOfARun(&st):
			kept = append(kept, st)
			if p.late == nil {
				p.late = map[taskstate.TaskID]uint64{}
			}
			p.late[st.Task], r.batch = r.batch, 0
			h.slots[st.Task.Slot] = r
		}
	}
	q.list = kept
}
