package coordinator

import (
	"time"

	"covey/dispatch/ledger"
	"covey/dispatch/session"
)

// pace is how often a worker gives a sign of life, and after what silence its session is over.
type pace struct{ beat, grace time.Duration }

// setPace keeps to the settings of the cluster from now on.
func (c *Core) setPace(s ledger.Settings) {
	c.settings = s
	p := c.base
	if s.Beat > 0 {
		p.beat = session.Millis(s.Beat)
		p.grace = ledger.GraceBeats * p.beat
	}
	if s.Grace > 0 {
		p.grace = session.Millis(s.Grace)
	}
	c.cfg.Beat, c.cfg.Grace = p.beat, p.grace
	if !c.settledDone {
		c.settledAt = c.started.Add(2 * p.grace)
	}
}

// appliedSet tells every session of another beat and grace at once. A longer grace counts from now on; a shorter one for each session from
// the first beat after, with which its worker shows that it knows, or could know.
func (c *Core) appliedSet(set *ledger.Set) {
	c.setPace(c.settings.With(*set))
	for _, p := range c.order {
		s := p.session
		if s == nil {
			continue
		}
		s.grace = max(s.grace, c.cfg.Grace)
		if s.welcomed {
			c.effects = append(c.effects, SendDown{Conn: s.conn, Frame: session.Down{Beat: &session.BeatAnswer{
				Held: true, Beat: c.cfg.Beat.Milliseconds(), Grace: c.cfg.Grace.Milliseconds(),
			}}})
		}
	}
	c.wakeAt(c.now)
}

// keepPace lets a shorter grace count for a session whose worker beats.
func (c *Core) keepPace(s *workerSession) {
	if s.grace != c.cfg.Grace {
		s.grace = c.cfg.Grace
		c.wakeAt(c.now.Add(s.grace))
	}
}
