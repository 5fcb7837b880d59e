package worker

import (
	"slices"
	"time"

	"covey/dispatch/session"
	"covey/dispatch/worker/journal"
	"covey/taskstate"
)

// heldBatch is a batch that is not acknowledged.
type heldBatch struct {
	number   uint64
	tasks    []*heldTask
	sealed   *journal.SealedBatch // until it is on disk
	envelope []byte               // the signed bytes, the same for the topic and every session
}

// tidyList is what may leave the journal because it was acknowledged. It goes with whatever is
// written next: losing it costs a repetition, nothing else.
type tidyList struct {
	frames map[uint64]*heldFrame // with positions to note as done, or wholly done
	signed []uint64
	live   map[taskstate.TaskID]*taskstate.Status // to note, nil: to remove
	tombs  []uint64
}

func (t *tidyList) size() int { return len(t.frames) + len(t.signed) + len(t.live) }

// flush sends one transaction on its way when there is something to write and none is under way.
// Statuses wait for the last publication as well, and so gather into batches.
func (c *Core) flush() {
	if c.saving != nil {
		c.wake = time.Time{} // saved looks again; until then there is nothing to be woken for
		return
	}
	if c.lost != "" {
		c.wake = time.Time{}
		return
	}
	mark, wanted := c.begunMark()
	needed := wanted || !c.fenced || len(c.newFrames) > 0 || len(c.tombs.fresh) > 0 || c.tidy.size() >= lazyTidy ||
		(c.stopping && c.tidy.size() > 0)
	t := &journal.Txn{}
	c.wake = time.Time{}
	if !c.publishing && c.gathered() && c.maySign() {
		c.cutBatches(t)
	}
	c.wakeForQueued()
	if !needed && len(t.Batches) == 0 {
		return
	}
	c.state.Begun = mark
	for _, f := range c.newFrames {
		t.Frames = append(t.Frames, f.record)
		for _, j := range f.jobs {
			if !j.onDisk {
				j.onDisk = true
				t.Jobs = append(t.Jobs, j.job)
			}
		}
	}
	c.saveFrames, c.newFrames = c.newFrames, nil
	t.Tombs = c.tombs.take()
	c.tidyInto(t)
	t.State = c.state
	c.saving = t
	c.wake = time.Time{} // nothing is due while the disk is at work: that it has done it is an event, and this is called again
	c.do(Save{t})
}

// cutBatches makes batches of the newest statuses of tasks that have news.
func (c *Core) cutBatches(t *journal.Txn) {
	for len(c.dirty) > 0 && len(t.Batches) < maxBatches {
		b := &heldBatch{number: c.state.Last + 1, sealed: &journal.SealedBatch{Number: c.state.Last + 1}}
		size, n := 0, 0
		for _, h := range c.dirty {
			s := h.status
			size += statusSize(s)
			if n == maxStatuses || size > maxBatchBytes {
				break
			}
			n++
			h.dirty = false
			b.tasks = append(b.tasks, h)
			b.sealed.Statuses = append(b.sealed.Statuses, s)
		}
		c.dirty = c.dirty[n:]
		c.state.Last++
		c.lastCut = c.now
		c.saveBatches = append(c.saveBatches, b)
		t.Batches = append(t.Batches, b.sealed)
	}
	if len(c.dirty) == 0 {
		c.dirty = nil
	}
}

// statusSize estimates an encoded status, from above.
func statusSize(s taskstate.Status) int {
	return statusOverhead + len(s.Task.Job) + len(s.Reason) + len(s.Message)
}

// saved is called when the transaction under way is on disk: only now do its assignments count as
// accepted, its statuses as said, its epoch as obeyed.
func (c *Core) saved() {
	t := c.saving
	if t == nil {
		return
	}
	c.saving = nil
	if c.lost != "" {
		return // it was on its way before that was known: nobody hears of it
	}
	c.begun, c.last = t.State.Begun, t.State.Last
	for _, f := range c.saveFrames {
		for _, h := range f.tasks {
			c.accept(h)
		}
		f.tasks = nil
	}
	c.saveFrames = nil
	c.publish()
	var dropped []taskstate.TaskID
	for _, x := range t.Tombs {
		if c.tombs.has(x.Task) {
			c.tombs.of[x.Task] = tombstone{number: x.Number, onDisk: true}
			dropped = append(dropped, x.Task)
		}
	}
	c.sendDropped(dropped)
	if !c.fenced && t.State.Fence == c.state.Fence {
		c.fenced = true
		c.takeEarly()
	}
}

// publish lets the batches that are on disk out.
func (c *Core) publish() {
	if len(c.saveBatches) == 0 {
		return
	}
	p := Publish{}
	var kept []taskstate.TaskID
	for _, b := range c.saveBatches {
		for i, h := range b.tasks {
			h.said(b.sealed.Statuses[i], b.number)
			if h.durable.State.Final() && h.job.job.Run.Process != nil {
				kept = append(kept, h.id)
			}
		}
		b.envelope, b.sealed = b.sealed.Envelope, nil
		c.unacked = append(c.unacked, b)
		if c.link.up {
			c.send(session.Up{Batch: b.envelope})
		}
		p.Envelopes = append(p.Envelopes, b.envelope)
	}
	c.saveBatches = nil
	c.publishing = true
	c.do(p)
	if len(kept) > 0 {
		c.do(Kept{kept})
	}
}

// said notes that a status is on disk, in batch number n.
func (h *heldTask) said(s taskstate.Status, n uint64) {
	h.durable, h.lastSaid = s, n
	if s.State.Final() {
		h.end = n
	}
}

// takeEarly obeys what waited for the fence.
func (c *Core) takeEarly() {
	early := c.link.early
	c.link.early = nil
	link := c.link.id
	for _, d := range early {
		if c.link.id == link {
			c.frame(d)
		}
	}
}

// acked forgets the tasks and batches up to number n.
func (c *Core) acked(n uint64) {
	n = min(n, c.last)
	if n <= c.state.Acked {
		return
	}
	c.state.Acked = n
	for len(c.unacked) > 0 && c.unacked[0].number <= n {
		b := c.unacked[0]
		c.unacked[0] = nil
		c.unacked = c.unacked[1:]
		c.tidy.signed = append(c.tidy.signed, b.number)
		for _, h := range b.tasks {
			c.ackedTask(h)
		}
	}
	if len(c.unacked) == 0 {
		c.unacked = nil
	}
}

// retireEvery is how many acknowledged batches gather before those are looked for that nobody needs
// any more.
const retireEvery = 64

// Retirable is the number up to which batches say nothing that matters still: acknowledged, and no
// task that goes on has its newest status there. Others that were away get those statuses from the
// batches above it. It is 0 when it is not worth looking yet.
func (c *Core) Retirable() uint64 {
	floor := c.state.Acked
	if floor == c.retired || len(c.tasks) > 0 && floor < c.retired+retireEvery {
		return 0
	}
	for _, h := range c.tasks {
		if h.lastSaid > 0 {
			floor = min(floor, h.lastSaid-1)
		}
	}
	c.retired = max(c.retired, floor)
	return c.retired
}

func (c *Core) ackedTask(h *heldTask) {
	switch {
	case c.tasks[h.id] != h: // forgotten with a batch before this
	case h.end > 0 && h.end <= c.state.Acked:
		c.forget(h)
	case h.end > 0: // its end is in a later batch
	default: // it goes on: the journal must remember that it was begun when the batch is gone
		s := h.durable
		h.onDisk = true
		c.tidyLive(h.id, &s)
	}
}

// forget ends our memory of a task.
func (c *Core) forget(h *heldTask) {
	delete(c.tasks, h.id)
	if h.onDisk {
		c.tidyLive(h.id, nil)
	}
	f := h.frame
	f.left--
	f.done = append(f.done, h.pos)
	if c.tidy.frames == nil {
		c.tidy.frames = map[uint64]*heldFrame{}
	}
	c.tidy.frames[f.record.Number] = f
	if f.left > 0 {
		return
	}
	delete(c.frames, f.record.Number)
	for _, j := range f.jobs {
		if j.frames--; j.frames == 0 {
			c.idle++
			c.idleBytes += j.size()
		}
	}
}

func (c *Core) tidyLive(id taskstate.TaskID, s *taskstate.Status) {
	if c.tidy.live == nil {
		c.tidy.live = map[taskstate.TaskID]*taskstate.Status{}
	}
	c.tidy.live[id] = s
}

// tidyInto adds to a transaction what may go.
func (c *Core) tidyInto(t *journal.Txn) {
	t.GoneSigned = c.tidy.signed
	t.GoneTombs = c.tidy.tombs
	for _, f := range c.tidy.frames {
		if f.left == 0 {
			t.GoneFrames = append(t.GoneFrames, journal.GoneFrame{Number: f.record.Number, Acks: f.acks})
			c.tidyJobs(t, f)
			continue
		}
		t.Done = append(t.Done, journal.Done{Frame: f.record.Number, Runs: runsOf(f.done)})
		f.acks = append(f.acks, c.state.Acked)
		f.done = nil
	}
	for id, s := range c.tidy.live {
		if s == nil {
			t.GoneLive = append(t.GoneLive, id)
			continue
		}
		t.Live = append(t.Live, *s)
	}
	c.tidy = tidyList{}
	c.dropIdleJobs(maxIdleJobs, maxIdleBytes)
}

// tidyJobs removes the bodies that only this frame needed from the disk; memory keeps them for the
// session.
func (c *Core) tidyJobs(t *journal.Txn, f *heldFrame) {
	for _, j := range f.jobs {
		if j.frames == 0 && j.onDisk {
			j.onDisk = false
			t.GoneJobs = append(t.GoneJobs, session.BodyOf(j.job))
		}
	}
}

// runsOf packs positions into pairs of first and count.
func runsOf(positions []uint32) []uint32 {
	slices.Sort(positions)
	var runs []uint32
	for _, p := range positions {
		if n := len(runs); n > 0 && runs[n-2]+runs[n-1] == p {
			runs[n-1]++
			continue
		}
		runs = append(runs, p, 1)
	}
	return runs
}
