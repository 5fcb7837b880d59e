package worker

import (
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/taskstate"
)

// NewCore starts from what the journal holds. Tasks in begun may have been started before: the
// runner takes them up, and Adopted says of which it cannot.
func NewCore(self taskstate.PeerID, inc taskstate.Incarnation, offer session.Offer, img *journal.Image, now time.Time) (c *Core, begun []taskstate.Launch) {
	c = &Core{
		self: self, inc: inc, offer: offer, now: now, fenced: true, signing: signing{born: now},
		held: tasks{of: map[taskstate.TaskID]*ownTask{}}, bodies: bodies{of: map[session.BodyID]*ownJob{}}, frames: frames{of: map[uint64]*ownFrame{}},
	}
	if img != nil {
		begun = c.restore(img)
	}
	return c, begun
}

// newReplayingCore starts before its journal has been read: all it knows is the state. It keeps a
// session, in which it says so and nothing else, until Restored and Adopted have come.
func newReplayingCore(self taskstate.PeerID, inc taskstate.Incarnation, offer session.Offer, state journal.State, now time.Time) *Core {
	c, _ := NewCore(self, inc, offer, nil, now)
	c.state, c.last, c.replaying = state, state.Last, true
	return c
}

// Step takes in one event and returns what is to be done.
func (c *Core) Step(ev Event, now time.Time) []Effect {
	c.now, c.out = now, nil
	c.recovers()
	switch e := ev.(type) {
	case Opened:
		c.opened(e.Stream)
	case Closed:
		c.stream.close(e.Stream)
	case Frame:
		if e.Stream == c.stream.id {
			c.frame(e.Down)
		}
	case Ran:
		c.ran(e.Reports)
	case Saved:
		c.saved()
	case Sick:
		c.setSick(e.Err)
	case Published:
		c.outbox.publishing = false
	case OfferChanged:
		c.changeOffer(e.Offer)
	case Refrain:
		c.setRefrain(e.Err)
	case Stop:
		c.windDown(false)
	case Detach:
		c.windDown(true)
	case Staged:
		c.onStaged(e.Reports)
	case Restored:
		c.do(Adopt{c.restore(e.Image)})
	case Adopted:
		c.adopted(e.Lost)
	case Seen:
		c.seen(e.Incarnation, e.Number)
	case Mute:
		c.signing.mute = e.On
	}
	c.serveQueue()
	c.flush()
	if c.saving == nil && c.lost == "" {
		c.wake = sooner(c.wake, c.exhaustion.wake(now))
	}
	return c.out
}

// Quiet tells whether nothing lives any more – or may live on alone – and every end has been
// published, and whether all is acknowledged as well and nothing is on its way here.
func (c *Core) Quiet() (published, acked bool) {
	if _, over := c.Renounced(); c.lost != "" {
		return over, over
	}
	published = (c.held.live == 0 || c.detached) && c.saving == nil && !c.outbox.publishing && (len(c.outbox.dirty) == 0 || c.signing.mute) && len(c.frames.fresh) == 0
	return published, published && len(c.outbox.unacked) == 0 && c.stream.parted()
}

// Wake is when Step must be called at the latest, with nil if nothing else happened; zero if time
// alone changes nothing.
func (c *Core) Wake() time.Time { return c.wake }

// Kept counts what is kept about tasks that were not forgotten: it goes back to zero when every end
// is acknowledged.
func (c *Core) Kept() int {
	return len(c.held.of) + len(c.frames.of) + len(c.outbox.unacked) + len(c.outbox.dirty) + len(c.queue.tasks) + len(c.frames.fresh)
}
