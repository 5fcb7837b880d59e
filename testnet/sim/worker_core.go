package sim

import (
	"iter"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/dispatch/worker"
	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/sim/memjournal"
)

// workerCore drives a worker's core: what worker.Loop does with goroutines, a file, a network and
// processes, it does with ports of the simulation. It adds nothing to the core.
type workerCore struct {
	core  *worker.Core
	ports workerPorts
	due   time.Time // when Wake was last asked for
}

// newWorkerCore begins with what the disk holds. The tasks in begun may have been started before:
// Begin is told which of them cannot be taken up.
func newWorkerCore(self taskstate.PeerID, inc taskstate.Incarnation, offer session.Offer, disk memjournal.Journal, ports workerPorts, now time.Time) (w *workerCore, begun []taskstate.Launch, err error) {
	img, err := journal.Load(disk, simOwner(self, inc))
	if err != nil {
		return nil, nil, err
	}
	w = &workerCore{ports: ports}
	w.core, begun = worker.NewCore(self, inc, offer, img, now)
	return w, begun, nil
}

// Lost tells whether the worker has found out that its disk is older than what others saw, and
// whether nothing runs of that any more: then it ends, and another one begins on a new disk.
func (w *workerCore) Lost() (why string, over bool) { return w.core.Renounced() }

// Seen tells of a batch that others hold; differs: another than the one held here.
func (w *workerCore) Seen(inc taskstate.Incarnation, number uint64, differs bool, now time.Time) {
	if differs {
		number = worker.OtherBatch
	}
	w.step(worker.Seen{Incarnation: inc, Number: number}, now)
}

func simOwner(self taskstate.PeerID, inc taskstate.Incarnation) journal.Owner {
	return journal.Owner{Format: journal.Format, Peer: self, Incarnation: inc}
}

// The events.

// Begin comes first, once: what the runner lost of what had begun.
func (w *workerCore) Begin(lost []taskstate.Loss, now time.Time) {
	w.step(worker.Adopted{Lost: lost}, now)
}

// Opened tells of a stream to a coordinator; streams are numbered, ascending.
func (w *workerCore) Opened(stream uint64, now time.Time) { w.step(worker.Opened{Stream: stream}, now) }

// Closed tells that a stream is gone.
func (w *workerCore) Closed(stream uint64, now time.Time) { w.step(worker.Closed{Stream: stream}, now) }

// Frame hands a Welcome, Assignments or Ack over.
func (w *workerCore) Frame(stream uint64, d *session.Down, now time.Time) {
	w.step(worker.Frame{Stream: stream, Down: d}, now)
}

// Ran reports about tasks.
func (w *workerCore) Ran(now time.Time, r ...taskstate.RunReport) {
	w.step(worker.Ran{Reports: r}, now)
}

// Staged tells how far the inputs of a job are.
func (w *workerCore) Staged(r worker.StageReport, now time.Time) {
	w.step(worker.Staged{Reports: []worker.StageReport{r}}, now)
}

// Saved tells that the last transaction is on disk.
func (w *workerCore) Saved(now time.Time) { w.step(worker.Saved{}, now) }

// Sick tells that the disk refuses writes, or takes them again (nil).
func (w *workerCore) Sick(err error, now time.Time) { w.step(worker.Sick{Err: err}, now) }

// Refrain has the worker take nothing on for a reason, or take things on again (nil).
func (w *workerCore) Refrain(err error, now time.Time) { w.step(worker.Refrain{Err: err}, now) }

// Published tells that the last publication is done.
func (w *workerCore) Published(now time.Time) { w.step(worker.Published{}, now) }

// Offer changes what the peer has to give.
func (w *workerCore) Offer(o session.Offer, now time.Time) {
	w.step(worker.OfferChanged{Offer: o}, now)
}

// Stop asks the worker to give everything back.
func (w *workerCore) Stop(now time.Time) { w.step(worker.Stop{}, now) }

// Detach asks the worker to end for a while: what runs goes on.
func (w *workerCore) Detach(now time.Time) { w.step(worker.Detach{}, now) }

func (w *workerCore) step(ev worker.Event, now time.Time) {
	for _, e := range w.core.Step(ev, now) {
		switch e := e.(type) {
		case worker.Send:
			w.ports.Send(e.Frame)
		case worker.End:
			w.ports.End(e.Why, e.Again)
		case worker.Save:
			w.ports.Save(&transaction{e.Txn})
		case worker.Publish:
			w.ports.Publish(e.Envelopes)
		case worker.Start:
			w.ports.Start(e.Launch)
		case worker.Stage:
			w.ports.Stage(e.Job)
		case worker.Halt:
			w.ports.Halt(e.Stop)
		}
	}
	if n := w.core.Retirable(); n > 0 {
		w.ports.Retired(n)
	}
	if at := w.core.Wake(); !at.IsZero() && !at.Equal(w.due) {
		w.due = at
		w.ports.Wake(at)
	}
}

// Due tells that the time has come that Wake named last.
func (w *workerCore) Due(now time.Time) {
	w.due = time.Time{}
	w.step(nil, now)
}

// Quiet tells whether nothing lives here and every end is published.
func (w *workerCore) Quiet() bool { published, _ := w.core.Quiet(); return published }

// Kept counts what the core keeps about tasks that were not forgotten: what must not grow.
func (w *workerCore) Kept() int { return w.core.Kept() }

// transaction is a journal transaction.
type transaction struct{ txn *journal.Txn }

// Grants yields the tasks the transaction takes on, with the epoch they came in.
func (t *transaction) Grants() iter.Seq2[taskstate.TaskID, taskstate.Epoch] {
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

// Statuses yields the statuses that the transaction tells.
func (t *transaction) Statuses() iter.Seq[*taskstate.Status] {
	return func(yield func(*taskstate.Status) bool) {
		for _, b := range t.txn.Batches {
			for i := range b.Statuses {
				if !yield(&b.Statuses[i]) {
					return
				}
			}
		}
	}
}

// Write seals what is not sealed yet, and puts the transaction on the disk.
func (t *transaction) Write(disk memjournal.Journal, seal func(number uint64, statuses []taskstate.Status) (body, envelope []byte, err error)) (err error) {
	for _, b := range t.txn.Batches {
		if b.Envelope == nil {
			if b.Body, b.Envelope, err = seal(b.Number, b.Statuses); err != nil {
				return err
			}
		}
	}
	return t.txn.Apply(disk)
}
