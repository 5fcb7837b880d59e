package worker

import (
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/taskstate"
)

// While a worker is busy, every task that ends would be a journal transaction, a signature and a
// publication of its own, and for short tasks that costs more than the tasks. So statuses gather a
// little as long as nobody can be waiting for them: while other tasks live here. The end of the
// last one goes at once, and so does a whole batch. Where many end, they gather for longer: every
// batch is signed once and verified by all others, and the coordinator keeps enough queued here
// that no slot waits for it (CoreConfig.AheadWindow).
const (
	gatherEnds = 20 * time.Millisecond // an end waits at most so long, counted from the last batch
	gatherMany = 5 * gatherEnds / 2    // or so long, if there are several
	several    = 4
	gatherRuns = 5 * time.Millisecond   // that a task runs is said after so long, if it still does
	gatherTurn = 100 * time.Millisecond // that a task waits for its turn is said after so long, if it still does: it is queued ahead of need, and soon has more to say
	gatherFull = 256                    // statuses that go without waiting
)

// outbox owns the statuses on their way out: it gathers tasks with news, makes batches of their
// newest statuses, and keeps each batch until it is acknowledged. Only the core calls it.
type outbox struct {
	gather     time.Duration // how long ends may gather while other tasks live; 0: not at all
	dirty      []*ownTask    // newest status not in a batch yet
	dirtySince time.Time     // dirty was empty before
	lastBatch  time.Time     // when it was made
	saving     []*ownBatch   // in the transaction under way
	unacked    []*ownBatch   // on disk
	publishing bool
	retired    uint64 // batches up to here nobody needs
}

// touch marks a task's newest status as not published.
func (o *outbox) touch(h *ownTask, now time.Time) {
	if !h.dirty {
		h.dirty = true
		if len(o.dirty) == 0 {
			o.dirtySince = now
		}
		o.dirty = append(o.dirty, h)
	}
}

// due tells whether the statuses that wait shall go now. If not, it says when.
func (o *outbox) due(now time.Time, live int) (at time.Time, ok bool) {
	if o.gather == 0 || len(o.dirty) == 0 || len(o.dirty) >= gatherFull {
		return at, true
	}
	at = o.dirtySince.Add(gatherRuns)
	switch n := o.endsWaiting(); {
	case n > 0 && live == 0:
		return time.Time{}, true
	case n >= several:
		at = o.lastBatch.Add(o.gather * gatherMany / gatherEnds)
	case n > 0:
		at = o.lastBatch.Add(o.gather)
	}
	if !now.Before(at) {
		return time.Time{}, true
	}
	return at, false
}

// endsWaiting counts the ends that wait to be said, up to several.
func (o *outbox) endsWaiting() (n int) {
	for _, h := range o.dirty {
		if h.status.State.Final() {
			if n++; n == several {
				break
			}
		}
	}
	return n
}

// batch adds batches of the newest statuses of tasks that have news to a transaction, numbered
// from the one after last, and returns the last number used.
func (o *outbox) batch(t *journal.Txn, last uint64, now time.Time) uint64 {
	for len(o.dirty) > 0 && len(t.Batches) < maxBatches {
		last++
		b := &ownBatch{number: last, sealed: &journal.SealedBatch{Number: last}}
		size, n := 0, 0
		for _, h := range o.dirty {
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
		o.dirty = o.dirty[n:]
		o.lastBatch = now
		o.saving = append(o.saving, b)
		t.Batches = append(t.Batches, b.sealed)
	}
	if len(o.dirty) == 0 {
		o.dirty = nil
	}
	return last
}

// statusSize estimates an encoded status, from above.
func statusSize(s taskstate.Status) int {
	return statusOverhead + len(s.Task.Job) + len(s.Reason) + len(s.Message) + s.Saved.Size()
}

// saved hands out the batches that are on disk now, to be told, and the tasks whose ends they tell,
// but for no-ops, of which nothing is left anywhere.
func (o *outbox) saved() (envelopes [][]byte, ended []taskstate.TaskID) {
	for _, b := range o.saving {
		for i, h := range b.tasks {
			h.said(b.sealed.Statuses[i], b.number)
			if h.durable.State.Final() && h.job.job.Run.Noop == nil {
				ended = append(ended, h.id)
			}
		}
		b.envelope, b.sealed = b.sealed.Envelope, nil
		o.unacked = append(o.unacked, b)
		envelopes = append(envelopes, b.envelope)
	}
	o.saving = nil
	o.publishing = o.publishing || len(envelopes) > 0
	return envelopes, ended
}

// acked hands out the batches up to a number, which nobody needs to be told any more.
func (o *outbox) acked(number uint64) (batches []*ownBatch) {
	n := 0
	for n < len(o.unacked) && o.unacked[n].number <= number {
		n++
	}
	batches = slices.Clone(o.unacked[:n])
	clear(o.unacked[:n])
	if o.unacked = o.unacked[n:]; len(o.unacked) == 0 {
		o.unacked = nil
	}
	return batches
}

// retireEvery is how many acknowledged batches gather before those are looked for that nobody needs
// any more.
const retireEvery = 64

// retirable is the number up to which batches say nothing that matters to the tasks still held; 0
// when it is not worth looking yet.
func (o *outbox) retirable(acked uint64, held map[taskstate.TaskID]*ownTask) uint64 {
	floor := acked
	if floor == o.retired || len(held) > 0 && floor < o.retired+retireEvery {
		return 0
	}
	for _, h := range held {
		if h.lastSaid > 0 {
			floor = min(floor, h.lastSaid-1)
		}
	}
	o.retired = max(o.retired, floor)
	return o.retired
}
