package dispatch

import (
	"time"

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

// workerEvent is an input of the worker's core.
type workerEvent interface{ isWorkerEvent() }

// workerEffect is what the core wants done. Effects of one step are carried out in order.
type workerEffect interface{ isWorkerEffect() }

type (
	// wOpened: a stream to a coordinator is up; link numbers it, ascending.
	wOpened struct{ link uint64 }
	// wClosed: that stream is gone.
	wClosed struct{ link uint64 }
	// wFrame: a frame came down that stream. Refuse and Beat stay with the session client.
	wFrame struct {
		link uint64
		down *Down
	}
	// wRan: the runner reported.
	wRan struct{ reports []taskstate.RunReport }
	// wSaved: the transaction of wSave is on disk.
	wSaved struct{}
	// wSick: the journal cannot be written (it is tried again); nil: it can, again.
	wSick struct{ err error }
	// wPublished: the batches of wPublish were handed to the topic, or were refused by it.
	wPublished struct{}
	// wOffer: what this peer has to give changed.
	wOffer struct{ offer Offer }
	// wStop: the peer leaves; everything it runs is stopped.
	wStop struct{}
	// wDetach: the peer ends and comes back: nothing is taken on or started any more, what runs goes on without it.
	wDetach struct{}
	// wSeen: others hold a batch of this number of an incarnation of this peer.
	wSeen struct {
		inc    taskstate.Incarnation
		number uint64
	}
	// wMute: nothing is to be signed, or it is again.
	wMute struct{ on bool }
	// wTurnedBack: this peer's folder is older than what others saw of it.
	wTurnedBack struct{ why string }
	// wRestored: the journal has been read. Comes once, to a core that began without; answered by wAdopt.
	wRestored struct{ img *journalImage }
	// wAdopted: the runner has taken up what was begun before a restart, except these. Comes once, before anything but streams and
	// their frames.
	wAdopted struct{ lost []taskstate.Loss }
)

type (
	// wSend puts a frame on the open stream.
	wSend struct{ up Up }
	// wEnd ends the open stream; again says that a new one may be tried without delay.
	wEnd struct {
		why   string
		again bool
	}
	// wSave asks for one journal transaction; answered by wSaved. There is never more than one under way.
	wSave struct{ txn *workerTxn }
	// wPublish hands sealed batches to the topic; answered by wPublished. There is never more than one under way.
	wPublish struct{ envelopes [][]byte }
	// wStart starts a task.
	wStart struct{ launch taskstate.Launch }
	// wHalt stops a started task.
	wHalt struct{ stop Stop }
	// wKept: the ends of these processes are in the journal.
	wKept struct{ tasks []taskstate.TaskID }
	// wAdopt has the runner look for what may have been started before; answered by wAdopted.
	wAdopt struct{ begun []taskstate.Launch }
)

func (wOpened) isWorkerEvent()     {}
func (wClosed) isWorkerEvent()     {}
func (wFrame) isWorkerEvent()      {}
func (wRan) isWorkerEvent()        {}
func (wSaved) isWorkerEvent()      {}
func (wSick) isWorkerEvent()       {}
func (wPublished) isWorkerEvent()  {}
func (wOffer) isWorkerEvent()      {}
func (wStop) isWorkerEvent()       {}
func (wDetach) isWorkerEvent()     {}
func (wAdopted) isWorkerEvent()    {}
func (wRestored) isWorkerEvent()   {}
func (wMute) isWorkerEvent()       {}
func (wTurnedBack) isWorkerEvent() {}
func (wSeen) isWorkerEvent()       {}
func (wSend) isWorkerEffect()      {}
func (wEnd) isWorkerEffect()       {}
func (wSave) isWorkerEffect()      {}
func (wPublish) isWorkerEffect()   {}
func (wStart) isWorkerEffect()     {}
func (wHalt) isWorkerEffect()      {}
func (wKept) isWorkerEffect()      {}
func (wAdopt) isWorkerEffect()     {}

// workerCore is the worker without disk, network, processes and clock. It is not safe for concurrent use.
//
// A task's life here: granted (its frame is on its way into the journal) → queued → started → over (its end waits for a batch,
// for the journal, for the acknowledgement) → forgotten. Tasks whose resources are nothing skip the queue.
type workerCore struct {
	self    taskstate.PeerID
	inc     taskstate.Incarnation
	offer   Offer
	started starts.Start
	// replaces is the incarnation before, if this start began with it.
	replaces taskstate.Incarnation
	born     time.Time
	now      time.Time
	out      []workerEffect

	state     journalState // as it is, or will be with the transaction under way, on disk
	replaying bool         // the journal is not read yet: nothing is known of what this worker holds
	fenced    bool         // state.Fence is on disk
	begun     uint64       // state.Begun as it is on disk
	last      uint64       // state.Last as it is on disk
	saving    *workerTxn
	sick      error
	refrain   error     // why nothing is taken on although the journal could take it
	stopping  bool      // nothing is taken on or started any more
	detached  bool      // stopping, but what runs goes on
	vouched   time.Time // until then batches are not numbered: see hearGrace
	known     bool      // a coordinator has named what is known of this incarnation, and it is not more than the journal has
	mute      bool      // nothing is signed, see Worker.Mute
	lost      string    // why this incarnation is over, see lose

	tasks     map[taskstate.TaskID]*heldTask
	jobs      map[bodyID]*heldJob
	idle      int // jobs without a frame
	idleBytes int
	queue     []*heldTask
	fresh     []freshTask // accepted, in order: shown as Accepted if they do not start soon
	order     uint64      // of the newest task
	used      taskstate.Resources
	runs      int // started tasks
	live      int // tasks that are not over

	link  workerLink
	tombs tombstones

	frames     map[uint64]*heldFrame
	frameNo    uint64
	newFrames  []*heldFrame // granted, not yet in a transaction
	saveFrames []*heldFrame // in the transaction under way

	dirty       []*heldTask // newest status not in a batch yet
	saveBatches []*heldBatch
	unacked     []*heldBatch
	retired     uint64 // batches up to here nobody needs

	gather     time.Duration // how long ends may gather while other tasks live; 0: not at all
	dirtySince time.Time     // dirty was empty before
	lastCut    time.Time     // of a batch
	wake       time.Time     // when statuses that gather are due; zero: nothing gathers
	publishing bool

	tidy tidyList
}

// workerLink is the core's end of the open stream.
type workerLink struct {
	id      uint64 // 0: none
	up      bool   // welcomed
	session string // id of the last session, also when it is over
	epoch   taskstate.Epoch
	synced  bool // a Complete set was taken in
	asked   bool // for one
	have    uint64
	early   []*Down // in order: an acknowledgement must not overtake the set before it
	stale   bool    // the offer changed after Hello
	// released: after a Goodbye, nothing more will be granted
	released bool
	pass     uint64 // marks what the Complete set being received lists
	inSet    bool   // its first part has come
}

// newWorkerCore starts from what the journal holds. Tasks in begun may have been started before: the runner takes them up, and wAdopted
// says of which it cannot.
func newWorkerCore(self taskstate.PeerID, inc taskstate.Incarnation, offer Offer, img *journalImage, now time.Time) (c *workerCore, begun []taskstate.Launch) {
	c = &workerCore{
		self: self, inc: inc, offer: offer, born: now, now: now, fenced: true,
		tasks: map[taskstate.TaskID]*heldTask{}, jobs: map[bodyID]*heldJob{}, frames: map[uint64]*heldFrame{},
	}
	if img != nil {
		begun = c.restore(img)
	}
	return c, begun
}

// Step takes in one event and returns what is to be done.
func (c *workerCore) Step(ev workerEvent, now time.Time) []workerEffect {
	c.now, c.out = now, nil
	switch e := ev.(type) {
	case wOpened:
		c.opened(e.link)
	case wClosed:
		c.closed(e.link)
	case wFrame:
		if e.link == c.link.id {
			c.frame(e.down)
		}
	case wRan:
		c.ran(e.reports)
	case wSaved:
		c.saved()
	case wSick:
		c.setSick(e.err)
	case wPublished:
		c.publishing = false
	case wOffer:
		c.changeOffer(e.offer)
	case wRefrain:
		c.setRefrain(e.err)
	case wStop:
		c.stopAll()
	case wDetach:
		c.detach()
	case wRestored:
		c.do(wAdopt{c.restore(e.img)})
	case wAdopted:
		c.adopted(e.lost)
	case wSeen:
		c.seen(e.inc, e.number)
	case wMute:
		c.mute = e.on
	case wTurnedBack:
		c.lose(e.why)
	}
	c.startQueued()
	c.showQueued()
	c.flush()
	return c.out
}

func (c *workerCore) do(e workerEffect) { c.out = append(c.out, e) }

func (c *workerCore) send(u Up) {
	if c.link.id != 0 {
		c.do(wSend{u})
	}
}

// end gives up the open stream.
func (c *workerCore) end(why string, again bool) {
	if c.link.id == 0 {
		return
	}
	c.do(wEnd{why: why, again: again})
	c.closed(c.link.id)
}

func (c *workerCore) setSick(err error) {
	was := c.sick
	c.sick = err
	if (was == nil) != (err == nil) || was != nil && was.Error() != err.Error() {
		c.sendOffer()
	}
	for _, d := range c.link.early {
		c.early(d)
	}
	c.giveBackAtWord()
}

// sendOffer tells the coordinator what there is to give.
func (c *workerCore) sendOffer() {
	if !c.link.up {
		c.link.stale = true
		return
	}
	o := c.offered()
	c.send(Up{Offer: &o})
}

// offered is nothing while nothing can be accepted.
func (c *workerCore) offered() Offer {
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

// quiet tells whether nothing lives any more – or may live on alone – and every end has been published, and whether all is acknowledged as well
// and nothing is on its way here.
func (c *workerCore) quiet() (published, acked bool) {
	if _, over := c.renounced(); c.lost != "" {
		return over, over
	}
	published = (c.live == 0 || c.detached) && c.saving == nil && !c.publishing && (len(c.dirty) == 0 || c.mute) && len(c.newFrames) == 0
	return published, published && len(c.unacked) == 0 && c.parted()
}
