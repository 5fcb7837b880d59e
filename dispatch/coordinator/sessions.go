package coordinator

import (
	"fmt"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator/clock"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/taskstate"
)

// Registrations of one peer within RegistrationPeriod; one more is refused and told when to try
// again. A refused one does not count, so a peer that restarts quickly is let in as soon as its
// oldest registration has aged.
const (
	RegistrationLimit  = 3
	RegistrationPeriod = 8 * time.Second
)

// sessions are the streams of workers, and what is gathered for each until the step ends.
type sessions struct {
	cfg    *CoreConfig
	epoch  taskstate.Epoch
	clock  *clock.Clock
	agenda *agenda
	peers  *peers

	open     map[ConnID]*workerSession
	touched  []*workerSession // have something to send when the step ends
	base     pace             // beat and grace where the ledger does not say otherwise
	settings ledger.Settings  // of the cluster
}

func (ss *sessions) add(s *workerSession) { ss.open[s.conn] = s }

func (ss *sessions) of(conn ConnID) *workerSession { return ss.open[conn] }

// objection tells why a session cannot be, or nil.
func (ss *sessions) objection(p *peerState, h session.Hello) *session.Refuse {
	switch {
	case p == nil:
		return &session.Refuse{Code: session.RefuseNotAdmitted, Message: "this peer is not admitted", RetryAfter: ss.cfg.Beat.Milliseconds()}
	case ss.epoch.Less(h.Fence):
		return &session.Refuse{Code: session.RefuseNotCoordinator, Message: "this worker has obeyed epoch " + h.Fence.String() + ", which is newer than " + ss.epoch.String()}
	case h.Incarnation == "" || !session.ShortText(string(h.Incarnation)):
		return &session.Refuse{Code: session.RefuseMalformed, Message: "hello without a proper incarnation", RetryAfter: RegistrationPeriod.Milliseconds()}
	case h.Offer.Check() != nil:
		return &session.Refuse{Code: session.RefuseMalformed, Message: h.Offer.Check().Error(), RetryAfter: RegistrationPeriod.Milliseconds()}
	case slices.Contains(p.fenced, h.Incarnation) && p.member.Incarnation != h.Incarnation:
		return &session.Refuse{Code: session.RefuseFenced, Message: "this data folder was replaced by another one of the same peer; remove it, or stop the other"}
	}
	p.registered = slices.DeleteFunc(p.registered, func(t time.Time) bool { return ss.clock.Now().Sub(t) >= RegistrationPeriod })
	resumes := p.session != nil && p.session.id == h.Session && p.session.incarnation == h.Incarnation
	if len(p.registered) < RegistrationLimit || resumes {
		return nil
	}
	wait := RegistrationPeriod - ss.clock.Now().Sub(p.registered[0])
	return &session.Refuse{Code: session.RefuseTooMany, Message: fmt.Sprintf("too many registrations: %d in %s", RegistrationLimit, RegistrationPeriod), RetryAfter: wait.Milliseconds() + 1}
}

// forgetSession makes the open tasks fit for a new session: nothing was said in it yet.
func (p *peerState) forgetSession() {
	p.recalling = 0
	for t := range p.late {
		p.late[t] = 0
	}
	for _, h := range p.holds {
		for n, r := range h.slots {
			if r.batch != 0 || r.is(stopped|recalled) {
				r.batch, r.marks = 0, r.marks&^(stopped|recalled)
				h.slots[n] = r
			}
		}
	}
}

func (ss *sessions) refuse(s *workerSession, no session.Refuse) {
	ss.agenda.do(SendDown{Conn: s.conn, Frame: session.Down{Refuse: &no}})
	ss.endSession(s, no.Code)
}

func (ss *sessions) endSession(s *workerSession, why string) {
	ss.agenda.do(EndSession{Conn: s.conn, Why: why})
	ss.forget(s)
}

func (ss *sessions) forget(s *workerSession) {
	delete(ss.open, s.conn)
	s.touched, s.synced = true, false // nothing is gathered for it any more
	if s.p != nil && s.p.session == s {
		s.p.session = nil
		s.p.parted = s.p.parted || s.released
		ss.peers.review(s.p)
		if s.p.standing == Unreachable {
			ss.clock.WakeAt(ss.clock.Now()) // it was a sign of life for a while
		}
	}
}

func (ss *sessions) onClosed(conn ConnID) {
	if s := ss.open[conn]; s != nil {
		ss.forget(s)
	}
}

// dueSessions ends sessions that have been silent for longer than the grace.
func (ss *sessions) dueSessions() {
	for _, p := range ss.peers.list() {
		if !p.stopping.IsZero() {
			if ss.clock.Now().Before(p.stopping) {
				ss.clock.WakeAt(p.stopping)
			} else {
				p.stopping = time.Time{}
				ss.agenda.place()
			}
		}
		s := p.session
		if s == nil {
			continue
		}
		if over := s.heard.Add(s.grace); ss.clock.Now().Before(over) {
			ss.clock.WakeAt(over)
			continue
		}
		ss.endSession(s, "no beat for "+s.grace.String())
	}
}

// maxHeard bounds the attempts that a Welcome names. Their batches say the same, so that leaving
// some out does no harm.
const maxHeard = 1024

// heardOf lists open attempts of which the worker itself has spoken in this term.
func (p *peerState) heardOf() (out []session.Grant) {
	left := maxHeard
	for _, h := range p.byAge() {
		g := session.Grant{Job: h.job.id}
		for _, n := range h.sorted(func(r rec) bool {
			return r.state >= taskstate.Accepted && !r.state.Final() && !r.is(ended|deciding|inherited)
		}) {
			if left--; left < 0 {
				break
			}
			g.Slots = append(g.Slots, ledger.Slots{First: n, N: 1, Attempt: int(h.slots[n].attempt)})
		}
		if len(g.Slots) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// graceOf is the grace of a session: that of the cluster, or some round trips if the worker is far
// away.
func (ss *sessions) graceOf(s *workerSession) time.Duration {
	return far.Allow(ss.cfg.Grace, s.away)
}

// pace is how often a worker gives a sign of life, and after what silence its session is over.
type pace struct{ beat, grace time.Duration }

// setPace keeps to the settings of the cluster from now on.
func (ss *sessions) setPace(s ledger.Settings) {
	ss.settings = s
	p := ss.base
	if s.Beat > 0 {
		p.beat = session.Millis(s.Beat)
		p.grace = ledger.GraceBeats * p.beat
	}
	if s.Grace > 0 {
		p.grace = session.Millis(s.Grace)
	}
	ss.cfg.Beat, ss.cfg.Grace = p.beat, p.grace
	ss.peers.settleAfter(2 * p.grace)
}

// appliedSet tells every session of another beat and grace at once. A longer grace counts from now
// on; a shorter one for each session from the first beat after, with which its worker shows that it
// knows, or could know.
func (ss *sessions) appliedSet(set *ledger.Set) {
	ss.setPace(ss.settings.With(*set))
	for _, p := range ss.peers.list() {
		s := p.session
		if s == nil {
			continue
		}
		s.grace = max(s.grace, ss.graceOf(s))
		if s.welcomed {
			ss.agenda.do(SendDown{Conn: s.conn, Frame: session.Down{Beat: &session.BeatAnswer{
				Held: true, Beat: ss.cfg.Beat.Milliseconds(), Grace: ss.cfg.Grace.Milliseconds(),
			}}})
		}
	}
	ss.clock.WakeAt(ss.clock.Now())
}

// keepPace lets a shorter grace count for a session whose worker beats.
func (ss *sessions) keepPace(s *workerSession) {
	if grace := ss.graceOf(s); s.grace != grace {
		s.grace = grace
		ss.clock.WakeAt(ss.clock.Now().Add(s.grace))
	}
}

// batchDone counts one end of a batch as decided.
func (ss *sessions) batchDone(s *workerSession, n uint64) {
	if s == nil || n == 0 {
		return
	}
	s.acks.done(n)
	if s.acks.base > s.acked {
		ss.touch(s)
	}
}

// touch remembers that a session has something to send when the step ends.
func (ss *sessions) touch(s *workerSession) {
	if !s.touched {
		s.touched = true
		ss.touched = append(ss.touched, s)
	}
}
