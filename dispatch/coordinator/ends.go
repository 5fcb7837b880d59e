package coordinator

import (
	"time"

	"covey/taskstate"
)

// stoppingFor is how long a peer that gives its running tasks back gets no new ones, if its session
// does not end before.
const stoppingFor = 10 * time.Second

// onBatch takes a worker's signed statuses: ends become decisions, and the batch is acknowledged
// when they all are.
func (c *Core) onBatch(ev SessionBatch) {
	s := c.sessions.of(ev.Conn)
	if s == nil {
		return
	}
	c.peers.heardFrom(s)
	b := &ev.Batch
	if b.Author != s.p.id || b.Incarnation != s.incarnation || !s.welcomed {
		c.sessions.endSession(s, "a batch before Welcome, or of another author or incarnation")
		return
	}
	switch s.acks.begin(b.Number) {
	case ackOld:
		c.sessions.touch(s) // it missed our acknowledgement: say it again
		s.acked = min(s.acked, b.Number-1)
		return
	case ackGap: // ended, so that the worker says again all that is not acknowledged
		c.sessions.endSession(s, "a batch is missing before this one")
		return
	case ackFull:
		c.sessions.endSession(s, "too many batches wait for decisions")
		return
	}
	ends := 0
	for i := range b.Statuses {
		st := &b.Statuses[i]
		if !st.State.Final() {
			c.tasks.observe(s.p, st)
			continue
		}
		if c.tasks.onEnd(s, st, b.Number) {
			ends++
		}
	}
	c.peers.countEnds(s.p, ends)
	s.acks.received()
	c.sessions.touch(s)
}

// ackWindow knows which batches of a session have ends that are not decided yet: the contiguous
// decided ones are acknowledged. It is as long as what the worker has unacknowledged, and so
// bounded by the worker's own limit and by what it may have outstanding.
type ackWindow struct {
	base uint64 // all up to here are decided
	open []int  // ends not decided of base+1, base+2, …; the last one is being received while busy
	busy bool
}

// What begin answers.
const (
	ackNew = iota
	ackOld // received before
	ackGap // one before it is missing: a stream does not do that
	ackFull
)

// maxUnacked bounds the batches that wait for decisions: far more than what a peer's outstanding
// tasks can fill.
const maxUnacked = 1 << 16

func (w *ackWindow) begin(n uint64) int {
	switch next := w.base + uint64(len(w.open)) + 1; {
	case n < next:
		return ackOld
	case n > next:
		return ackGap
	case len(w.open) >= maxUnacked:
		return ackFull
	}
	w.open, w.busy = append(w.open, 0), true
	return ackNew
}

func (w *ackWindow) add() { w.open[len(w.open)-1]++ }

// received closes the batch begun last.
func (w *ackWindow) received() {
	w.busy = false
	w.advance()
}

// done counts one end of batch n as decided.
func (w *ackWindow) done(n uint64) {
	if n <= w.base || n-w.base > uint64(len(w.open)) {
		return
	}
	w.open[n-w.base-1]--
	w.advance()
}

func (w *ackWindow) advance() {
	k, most := 0, len(w.open)
	if w.busy {
		most--
	}
	for k < most && w.open[k] <= 0 {
		k++
	}
	w.base += uint64(k)
	w.open = w.open[k:]
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

// A task whose peer's disk did not take all of its output is no failure of the task: its slot gets
// another attempt, as with an attempt that was interrupted, and the peer gets nothing until it had
// time to say how its disk stands.

// givesBack tells whether the worker of an attempt that ended so takes nothing for the moment: it
// stops, or its disk takes nothing.
func givesBack(why taskstate.Reason) bool {
	return why == taskstate.ReasonInterrupted || why == taskstate.ReasonOutputLost || why == taskstate.ReasonStuck
}

// maxLost is how often a slot gets another attempt because its output was lost: a task that fills
// the disk of every peer it runs on must not go through all of them.
const maxLost = 3

// lostOutputs counts such attempts by slot. A new coordinator begins anew.
type lostOutputs map[int]int

// again counts one more and tells whether the slot gets another attempt.
func (l *lostOutputs) again(slot int) bool {
	if *l == nil {
		*l = lostOutputs{}
	}
	(*l)[slot]++
	return (*l)[slot] <= maxLost
}
