package worker

import (
	"fmt"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// A machine that refuses its peer another process or open file refuses the next one as well. The
// task that met the refusal is given back. The worker then rests: it takes nothing on. After the
// rest it offers no more processors than its tasks used at the refusal, and then half as many again
// every widenEvery, until it offers all it has.
const (
	restFirst  = 5 * time.Second
	restMost   = time.Minute // the rest doubles when the next refusal comes soon
	widenEvery = 30 * time.Second
	leastShare = 1000 // thousandths of a processor
)

// Exhausted is why a worker takes nothing on, or less: its machine refused it a process or a file.
type Exhausted struct{ Why string }

// Code is api.TroubleExhausted.
func (*Exhausted) Code() string { return "exhausted" }

func (e *Exhausted) Error() string {
	return fmt.Sprintf("this peer's machine refuses it another process or open file (%s), so it gives tasks back and takes fewer: raise `ulimit -u` and `ulimit -n` of its user, or the pids limit of its container, and start it again", e.Why)
}

// exhaustion is what a worker does about refusals of its machine. It is pure.
type exhaustion struct {
	why   *Exhausted // nil: nothing was refused lately
	rest  time.Duration
	until time.Time // the rest ends
	widen time.Time // the share grows
	share int64     // thousandths of a processor
	told  bool      // the newest offer was made during the rest
}

func (x *exhaustion) resting(now time.Time) bool { return x.why != nil && now.Before(x.until) }

// refused notes a refusal, while the other tasks use so many processors.
func (x *exhaustion) refused(why string, used taskstate.Resources, now time.Time) {
	soon := x.why != nil && now.Before(x.until.Add(widenEvery))
	switch {
	case x.resting(now): // one of those that were started together
	case soon:
		x.rest = min(2*x.rest, restMost)
	default:
		x.rest = restFirst
	}
	if !x.resting(now) {
		x.until = now.Add(x.rest)
		x.widen = x.until.Add(widenEvery)
	}
	x.why = &Exhausted{why}
	x.share = max(leastShare, used.MilliCPU)
}

// passed lets the share grow when it is time, up to what there is.
func (x *exhaustion) passed(now time.Time, all taskstate.Resources) {
	for x.why != nil && !now.Before(x.widen) {
		x.share += max(leastShare, x.share/2)
		x.widen = x.widen.Add(widenEvery)
		if x.share >= all.MilliCPU {
			*x = exhaustion{}
		}
	}
}

// limit reduces what a worker may use to its share.
func (x *exhaustion) limit(r taskstate.Resources) taskstate.Resources {
	if x.why != nil {
		r.MilliCPU = min(r.MilliCPU, x.share)
	}
	return r
}

// wake is when time alone changes something; zero: never.
func (x *exhaustion) wake(now time.Time) time.Time {
	switch {
	case x.why == nil:
		return time.Time{}
	case x.resting(now):
		return x.until
	}
	return x.widen
}

// exhausted takes in that the machine refused what a task needed.
func (c *Core) exhausted(why string) {
	was := c.refuses()
	c.exhaustion.refused(why, c.held.used, c.now)
	c.exhaustion.told = true
	c.do(Exhaustion{c.exhaustion.why})
	c.refusalChanged(was)
}

// recovers follows the clock after refusals of the machine.
func (c *Core) recovers() {
	x := &c.exhaustion
	if x.why == nil {
		return
	}
	share := x.share
	if x.passed(c.now, c.offer.Resources); x.why == nil {
		c.do(Exhaustion{})
	}
	if x.share != share || x.told && !x.resting(c.now) {
		x.told = false
		c.sendOffer()
	}
}

// given is what this worker may use of its offer now.
func (c *Core) given() session.Offer {
	o := c.offer
	o.Resources = c.exhaustion.limit(o.Resources)
	return o
}
