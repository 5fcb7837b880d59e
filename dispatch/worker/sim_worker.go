package worker

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"time"

	"covey/dispatch/session"
	"covey/dispatch/worker/journal"
	"covey/taskstate"
)

// SimWorker is a worker's core for a simulation: what Worker does with goroutines, a file, a network and processes, whoever drives
// a SimWorker does with ports of his own. It adds nothing to the core.
type SimWorker struct {
	core  *Core
	ports SimPorts
	due   time.Time // when Wake was last asked for
}

// SimPorts is what a worker acts on. They are called within the methods of SimWorker, and must not call it back.
type SimPorts interface {
	Send(session.Up)            // on the open stream
	End(why string, again bool) // the open stream
	Save(*SimTxn)               // answered by Saved once it is on disk; never two at once
	Publish(envelopes [][]byte) // answered by Published; never two at once
	Start(taskstate.Launch)     // a task
	Halt(session.Stop)          // a started task
	Retired(number uint64)      // batches up to here are of no use to anybody
	Wake(at time.Time)          // answered by Due, then or later
}

// NewSimWorker begins with what the disk holds. The tasks in begun may have been started before: Begin is told which of them cannot be
// taken up.
func NewSimWorker(self taskstate.PeerID, inc taskstate.Incarnation, offer session.Offer, disk *SimDisk, ports SimPorts, now time.Time) (w *SimWorker, begun []taskstate.Launch, err error) {
	img, err := journal.Load(disk, simOwner(self, inc))
	if err != nil {
		return nil, nil, err
	}
	w = &SimWorker{ports: ports}
	w.core, begun = NewCore(self, inc, offer, img, now)
	return w, begun, nil
}

// Lost tells whether the worker has found out that its disk is older than what others saw, and whether nothing runs of that any more: then it
// ends, and another one begins on a new disk.
func (w *SimWorker) Lost() (why string, over bool) { return w.core.renounced() }

// Seen tells of a batch that others hold; differs: another than the one held here.
func (w *SimWorker) Seen(inc taskstate.Incarnation, number uint64, differs bool, now time.Time) {
	if differs {
		number = otherBatch
	}
	w.step(Seen{inc, number}, now)
}

func simOwner(self taskstate.PeerID, inc taskstate.Incarnation) journal.Owner {
	return journal.Owner{Format: journal.Format, Peer: self, Incarnation: inc}
}

// The events.

// Begin comes first, once: what the runner lost of what had begun.
func (w *SimWorker) Begin(lost []taskstate.Loss, now time.Time) { w.step(Adopted{lost}, now) }

// Opened tells of a stream to a coordinator; links are numbered, ascending.
func (w *SimWorker) Opened(link uint64, now time.Time) { w.step(Opened{link}, now) }

// Closed tells that a stream is gone.
func (w *SimWorker) Closed(link uint64, now time.Time) { w.step(Closed{link}, now) }

// Frame hands a Welcome, Assignments or Ack over.
func (w *SimWorker) Frame(link uint64, d *session.Down, now time.Time) { w.step(Frame{link, d}, now) }

// Ran reports about tasks.
func (w *SimWorker) Ran(now time.Time, r ...taskstate.RunReport) { w.step(Ran{r}, now) }

// Saved tells that the last transaction is on disk.
func (w *SimWorker) Saved(now time.Time) { w.step(Saved{}, now) }

// Sick tells that the disk refuses writes, or takes them again (nil).
func (w *SimWorker) Sick(err error, now time.Time) { w.step(Sick{err}, now) }

// Refrain has the worker take nothing on for a reason, or take things on again (nil).
func (w *SimWorker) Refrain(err error, now time.Time) { w.step(Refrain{err}, now) }

// Published tells that the last publication is done.
func (w *SimWorker) Published(now time.Time) { w.step(Published{}, now) }

// Offer changes what the peer has to give.
func (w *SimWorker) Offer(o session.Offer, now time.Time) { w.step(OfferChanged{o}, now) }

// Stop asks the worker to give everything back.
func (w *SimWorker) Stop(now time.Time) { w.step(Stop{}, now) }

// Detach asks the worker to end for a while: what runs goes on.
func (w *SimWorker) Detach(now time.Time) { w.step(Detach{}, now) }

func (w *SimWorker) step(ev Event, now time.Time) {
	for _, e := range w.core.Step(ev, now) {
		switch e := e.(type) {
		case Send:
			w.ports.Send(e.Frame)
		case End:
			w.ports.End(e.Why, e.Again)
		case Save:
			w.ports.Save(&SimTxn{e.Txn})
		case Publish:
			w.ports.Publish(e.Envelopes)
		case Start:
			w.ports.Start(e.Launch)
		case Halt:
			w.ports.Halt(e.Stop)
		}
	}
	if n := w.core.retirable(); n > 0 {
		w.ports.Retired(n)
	}
	if at := w.core.wake; !at.IsZero() && !at.Equal(w.due) {
		w.due = at
		w.ports.Wake(at)
	}
}

// Due tells that the time has come that Wake named last.
func (w *SimWorker) Due(now time.Time) {
	w.due = time.Time{}
	w.step(nil, now)
}

// Quiet tells whether nothing lives here and every end is published.
func (w *SimWorker) Quiet() bool { published, _ := w.core.quiet(); return published }

// Kept counts what the core keeps about tasks that were not forgotten: what must not grow.
func (w *SimWorker) Kept() int {
	c := w.core
	return len(c.tasks) + len(c.frames) + len(c.unacked) + len(c.dirty) + len(c.queue) + len(c.newFrames)
}

// Unfence makes the worker forget which epochs it obeyed: how a simulation shows that it would notice.
func (w *SimWorker) Unfence() { w.core.state.Fence = taskstate.Epoch{} }

// SimTxn is a journal transaction.
type SimTxn struct{ txn *journal.Txn }

// Grants yields the tasks the transaction takes on, with the epoch they came in.
func (t *SimTxn) Grants() iter.Seq2[taskstate.TaskID, taskstate.Epoch] {
	return func(yield func(taskstate.TaskID, taskstate.Epoch) bool) {
		for _, f := range t.txn.Frames {
			for _, g := range f.Grants {
				for id := range g.Tasks() {
					if !yield(id, f.Epoch) {
						return
					}
				}
			}
		}
	}
}

// Write seals what is not sealed yet, and puts the transaction on the disk.
func (t *SimTxn) Write(disk *SimDisk, seal func(number uint64, statuses []taskstate.Status) (body, envelope []byte, err error)) (err error) {
	for _, b := range t.txn.Batches {
		if b.Envelope == nil {
			if b.Body, b.Envelope, err = seal(b.Number, b.Statuses); err != nil {
				return err
			}
		}
	}
	return t.txn.Apply(disk)
}

// SimDisk is a journal in memory.
type SimDisk struct{ buckets map[string]map[string][]byte }

// NewSimDisk is an empty journal of one life of a peer.
func NewSimDisk(self taskstate.PeerID, inc taskstate.Incarnation) (*SimDisk, error) {
	d := &SimDisk{buckets: map[string]map[string][]byte{}}
	return d, journal.Init(d, journal.Head{Owner: simOwner(self, inc)})
}

// Clone is the disk as it is now: what a crash leaves if nothing after this was synced.
func (d *SimDisk) Clone() *SimDisk {
	c := &SimDisk{buckets: map[string]map[string][]byte{}}
	for k, b := range d.buckets {
		c.buckets[k] = maps.Clone(b) // values are never changed in place
	}
	return c
}

// Records counts what is in the journal besides its two fixed records and the tombstones, which have a bound of their own.
func (d *SimDisk) Records() int {
	n := 0
	for k, b := range d.buckets {
		if k != journal.BucketTombs && k != journal.BucketMeta {
			n += len(b)
		}
	}
	return n
}

// Put implements the journal's map.
func (d *SimDisk) Put(bucket string, key, value []byte) error {
	b := d.buckets[bucket]
	if b == nil {
		b = map[string][]byte{}
		d.buckets[bucket] = b
	}
	b[string(key)] = bytes.Clone(value)
	return nil
}

// Delete implements the journal's map.
func (d *SimDisk) Delete(bucket string, key []byte) error {
	delete(d.buckets[bucket], string(key))
	return nil
}

// Each implements the journal's map.
func (d *SimDisk) Each(bucket string, f func(key, value []byte) error) error {
	for _, k := range slices.Sorted(maps.Keys(d.buckets[bucket])) {
		if err := f([]byte(k), d.buckets[bucket][k]); err != nil {
			return err
		}
	}
	return nil
}
