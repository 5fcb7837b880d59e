package worker

import (
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/p2p/starts"
	"github.com/coveyproject/covey/taskstate"
)

// Core is the worker without disk, network, processes and clock. It is not safe for concurrent use.
//
// A task's life here: granted (its frame is on its way into the journal) → queued → started →
// saving, if files of it are kept → over (its end waits for a batch, for the journal, for the
// acknowledgement) → forgotten. Tasks whose resources are nothing skip the queue.
type Core struct {
	self    taskstate.PeerID
	inc     taskstate.Incarnation
	offer   session.Offer
	started starts.Start
	// replaces is the incarnation before, if this start began with it.
	replaces taskstate.Incarnation
	now      time.Time
	out      []Effect

	state      journal.State // as it is, or will be with the transaction under way, on disk
	replaying  bool          // the journal is not read yet: nothing is known of what this worker holds
	fenced     bool          // state.Fence is on disk
	begun      uint64        // state.Begun as it is on disk
	last       uint64        // state.Last as it is on disk
	saving     *journal.Txn
	sick       error
	refrain    error // why nothing is taken on although the journal could take it
	exhaustion exhaustion
	stopping   bool   // nothing is taken on or started any more
	detached   bool   // stopping, but what runs goes on
	lost       string // why this incarnation is over, see lose
	signing    signing

	held   tasks
	bodies bodies
	queue  queue
	stream openStream
	tombs  tombstones
	ends   ends
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
