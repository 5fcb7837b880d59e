package worker

import (
	"time"

	"covey/dispatch/session"
	"covey/dispatch/worker/journal"
	"covey/p2p/starts"
	"covey/taskstate"
)

// Bounds of the worker's core. None is reached while a coordinator keeps to its own limits.
const (
	maxTombstones  = 8192                           // oldest first out
	maxEarly       = 256                            // frames that wait for the fence to be on disk
	maxStatuses    = taskstate.MaxBatchStatuses     // statuses in one batch
	maxBatchBytes  = taskstate.MaxBatchBytes - 1024 // estimated, from above
	maxBatches     = 8                              // batches in one journal transaction
	maxReportBytes = 400_000                        // estimated, of one Report frame
	maxIdleJobs    = 1024                           // job bodies kept for a session without a task of theirs
	maxIdleBytes   = 16 << 20
	lazyTidy       = 256 // what was acknowledged is removed with the next transaction, at the latest when so much has gathered
	minBegunAhead  = 64  // queued tasks marked as begun ahead of their turn
	statusOverhead = 112 // bytes of an encoded status besides its texts
)

// Event is an input of the worker's core.
type Event interface{ isEvent() }

// Effect is what the core wants done. Effects of one step are carried out in order.
type Effect interface{ isEffect() }

type (
	// Opened: a stream to a coordinator is up; Stream numbers it, ascending.
	Opened struct{ Stream uint64 }
	// Closed: that stream is gone.
	Closed struct{ Stream uint64 }
	// Frame: a frame came down that stream. Refuse and Beat stay with the session client.
	Frame struct {
		Stream uint64
		Down   *session.Down
	}
	// Ran: the runner reported.
	Ran struct{ Reports []taskstate.RunReport }
	// Saved: the transaction of Save is on disk.
	Saved struct{}
	// Sick: the journal cannot be written (it is tried again); nil: it can, again.
	Sick struct{ Err error }
	// Published: the batches of Publish were handed to the topic, or were refused by it.
	Published struct{}
	// OfferChanged: what this peer has to give changed.
	OfferChanged struct{ Offer session.Offer }
	// Stop: the peer leaves; everything it runs is stopped.
	Stop struct{}
	// Detach: the peer ends and comes back: nothing is taken on or started any more, what runs goes
	// on without it.
	Detach struct{}
	// Seen: others hold a batch of this number of an incarnation of this peer.
	Seen struct {
		Incarnation taskstate.Incarnation
		Number      uint64
	}
	// Mute: nothing is to be signed, or it is again.
	Mute struct{ On bool }
	// TurnedBack: this peer's folder is older than what others saw of it.
	TurnedBack struct{ Why string }
	// Restored: the journal has been read. Comes once, to a core that began without; answered by
	// Adopt.
	Restored struct{ Image *journal.Image }
	// Adopted: the runner has taken up what was begun before a restart, except these. Comes once,
	// before anything but streams and their frames.
	Adopted struct{ Lost []taskstate.Loss }
)

type (
	// Send puts a frame on the open stream.
	Send struct{ Frame session.Up }
	// End ends the open stream; again says that a new one may be tried without delay.
	End struct {
		Why   string
		Again bool
	}
	// Save asks for one journal transaction; answered by Saved. There is never more than one under
	// way.
	Save struct{ Txn *journal.Txn }
	// Publish hands sealed batches to the topic; answered by Published. There is never more than
	// one under way.
	Publish struct{ Envelopes [][]byte }
	// Start starts a task.
	Start struct{ Launch taskstate.Launch }
	// Halt stops a started task.
	Halt struct{ Stop session.Stop }
	// Kept: the ends of these processes are in the journal.
	Kept struct{ Tasks []taskstate.TaskID }
	// Adopt has the runner look for what may have been started before; answered by Adopted.
	Adopt struct{ Begun []taskstate.Launch }
)

func (Opened) isEvent()       {}
func (Closed) isEvent()       {}
func (Frame) isEvent()        {}
func (Ran) isEvent()          {}
func (Saved) isEvent()        {}
func (Sick) isEvent()         {}
func (Published) isEvent()    {}
func (OfferChanged) isEvent() {}
func (Stop) isEvent()         {}
func (Detach) isEvent()       {}
func (Adopted) isEvent()      {}
func (Restored) isEvent()     {}
func (Mute) isEvent()         {}
func (TurnedBack) isEvent()   {}
func (Seen) isEvent()         {}
func (Send) isEffect()        {}
func (End) isEffect()         {}
func (Save) isEffect()        {}
func (Publish) isEffect()     {}
func (Start) isEffect()       {}
func (Halt) isEffect()        {}
func (Kept) isEffect()        {}
func (Adopt) isEffect()       {}

// Core is the worker without disk, network, processes and clock. It is not safe for concurrent use.
//
// A task's life here: granted (its frame is on its way into the journal) → queued → started → over
// (its end waits for a batch, for the journal, for the acknowledgement) → forgotten. Tasks whose
// resources are nothing skip the queue.
type Core struct {
	self    taskstate.PeerID
	inc     taskstate.Incarnation
	offer   session.Offer
	started starts.Start
	// replaces is the incarnation before, if this start began with it.
	replaces taskstate.Incarnation
	now      time.Time
	out      []Effect

	state     journal.State // as it is, or will be with the transaction under way, on disk
	replaying bool          // the journal is not read yet: nothing is known of what this worker holds
	fenced    bool          // state.Fence is on disk
	begun     uint64        // state.Begun as it is on disk
	last      uint64        // state.Last as it is on disk
	saving    *journal.Txn
	sick      error
	refrain   error  // why nothing is taken on although the journal could take it
	stopping  bool   // nothing is taken on or started any more
	detached  bool   // stopping, but what runs goes on
	lost      string // why this incarnation is over, see lose
	signing   signing

	held   tasks
	bodies bodies
	queue  queue
	stream openStream
	tombs  tombstones
	frames frames
	outbox outbox
	tidy   tidyList

	wake time.Time // when time alone changes something; zero: never
}

// openStream owns what the core knows of the stream that is open. Only the core calls it.
type openStream struct {
	id      uint64 // 0: none
	up      bool   // welcomed
	session string // id of the last session, also when it is over
	epoch   taskstate.Epoch
	synced  bool // a Complete set was taken in
	asked   bool // for one
	have    uint64
	early   []*session.Down // in order: an acknowledgement must not overtake the set before it
	stale   bool            // the offer changed after Hello
	// released: after a Goodbye, nothing more will be granted
	released bool
	pass     uint64 // marks what the Complete set being received lists
	inSet    bool   // its first part has come
}

// close forgets a stream: what has not arrived is sent again on the next.
func (l *openStream) close(id uint64) {
	if id == l.id {
		*l = openStream{session: l.session, pass: l.pass}
	}
}

// keep holds a frame back until it may be obeyed; false: there are too many.
func (l *openStream) keep(d *session.Down) bool {
	if len(l.early) == maxEarly {
		return false
	}
	l.early = append(l.early, d)
	return true
}

// parted tells whether nothing can be on its way to this worker any more, as far as it can find
// out: without a stream it cannot.
func (l *openStream) parted() bool { return l.id == 0 || l.released }

// NewCore starts from what the journal holds. Tasks in begun may have been started before: the
// runner takes them up, and Adopted says of which it cannot.
func NewCore(self taskstate.PeerID, inc taskstate.Incarnation, offer session.Offer, img *journal.Image, now time.Time) (c *Core, begun []taskstate.Launch) {
	c = &Core{
		self: self, inc: inc, offer: offer, now: now, fenced: true, signing: signing{born: now},
		held: tasks{of: map[taskstate.TaskID]*heldTask{}}, bodies: bodies{of: map[session.BodyID]*heldJob{}}, frames: frames{of: map[uint64]*heldFrame{}},
	}
	if img != nil {
		begun = c.restore(img)
	}
	return c, begun
}

// Step takes in one event and returns what is to be done.
func (c *Core) Step(ev Event, now time.Time) []Effect {
	c.now, c.out = now, nil
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
	case Restored:
		c.do(Adopt{c.restore(e.Image)})
	case Adopted:
		c.adopted(e.Lost)
	case Seen:
		c.seen(e.Incarnation, e.Number)
	case Mute:
		c.signing.mute = e.On
	case TurnedBack:
		c.lose(e.Why)
	}
	c.serveQueue()
	c.flush()
	return c.out
}

func (c *Core) do(e Effect) { c.out = append(c.out, e) }

func (c *Core) send(u session.Up) {
	if c.stream.id != 0 {
		c.do(Send{u})
	}
}

// hangUp gives up the open stream.
func (c *Core) hangUp(why string, again bool) {
	if c.stream.id == 0 {
		return
	}
	c.do(End{Why: why, Again: again})
	c.stream.close(c.stream.id)
}

func (c *Core) setSick(err error) {
	was := c.sick
	c.sick = err
	if (was == nil) != (err == nil) || was != nil && was.Error() != err.Error() {
		c.sendOffer()
	}
	for _, d := range c.stream.early {
		c.early(d)
	}
	c.giveBackAtWord()
}

// sendOffer tells the coordinator what there is to give.
func (c *Core) sendOffer() {
	if !c.stream.up {
		c.stream.stale = true
		return
	}
	o := c.offered()
	c.send(session.Up{Offer: &o})
}

// offered is nothing while nothing can be accepted.
func (c *Core) offered() session.Offer {
	o := c.offer
	if c.sick != nil || c.refrain != nil || c.stopping || c.replaying {
		o.Resources = taskstate.Resources{}
	}
	switch {
	case c.replaying:
		o.Trouble = troubled(ErrReplaying)
	case c.sick != nil:
		o.Trouble, o.TroubleCode = troubled(c.sick), codeOf(c.sick)
	case c.refrain != nil:
		o.Trouble, o.TroubleCode = troubled(c.refrain), codeOf(c.refrain)
	}
	return o
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
