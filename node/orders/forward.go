package orders

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/held"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
)

// skewedAgain is when held jobs are tried again that nobody takes because of this machine's clock.
const skewedAgain = 30 * time.Second

// Forward brings held jobs to a coordinator, oldest first, until ctx ends.
func (o *Orders) Forward(ctx context.Context) error {
	f := forwarder{orders: o, accepted: map[taskstate.JobID]uint64{}}
	for {
		later := f.send(ctx)
		f.forget(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-o.poke:
		case <-later:
		}
	}
}

// forwarder brings held jobs to a coordinator. One that was accepted stays held until it is known
// here: in between, nobody would know it.
type forwarder struct {
	orders   *Orders
	accepted map[taskstate.JobID]uint64 // by a coordinator, with the entry's index
}

// send brings those to a coordinator that are not accepted. later is when to try again, if time
// alone may help.
func (f *forwarder) send(ctx context.Context) (later <-chan time.Time) {
	for _, h := range f.orders.cfg.Held.List() {
		if _, ok := f.accepted[h.Job.ID]; ok {
			continue
		}
		try, cancel := context.WithTimeout(ctx, f.orders.acceptTimeout())
		r, err := f.submit(try, h.Job)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			f.accepted[h.Job.ID] = r.Index
		case errors.Is(err, calls.ErrNobodyDecides):
			f.orders.Wake() // begin again with those that are still held
			return nil
		case errors.Is(err, calls.ErrSkewed):
			f.orders.cfg.Log.Warn("held jobs wait for a clock to be set", "err", err)
			return time.After(skewedAgain)
		default:
			why := err.Error()
			if by := h.Job.Order; by != nil && by.Until < f.orders.cfg.LedgerTime() { // none is left that could be renewed
				why = "its order ended at " + spell.Minute(by.Until) + ", before a coordinator took it"
			}
			f.orders.cfg.Log.Warn("a held job was refused", "job", h.Job.ID, "why", why)
			f.orders.cfg.View.Refused(&h.Job, why)
			f.drop(h.Job.ID)
		}
	}
	return nil
}

// submit brings one to a coordinator. What was held before jobs were signed, or before this peer
// knew its cluster again, is signed now: that it is this peer's own is looked at when it is read.
func (f *forwarder) submit(ctx context.Context, job taskstate.Job) (calls.Reply, error) {
	if job.Order == nil || job.Order.Cluster != f.orders.cfg.Roster.Cluster() {
		if err := f.orders.sign(&job, nil); err != nil {
			return calls.Reply{}, err
		}
	}
	return f.orders.cfg.Line.Decide(ctx, calls.Call{Submit: &job, Again: true})
}

// forget drops what was accepted and is known here.
func (f *forwarder) forget(ctx context.Context) {
	list := f.orders.cfg.Held.List()
	maps.DeleteFunc(f.accepted, func(id taskstate.JobID, _ uint64) bool { // those that were cancelled meanwhile
		return !slices.ContainsFunc(list, func(h held.Job) bool { return h.Job.ID == id })
	})
	for _, h := range list {
		index, ok := f.accepted[h.Job.ID]
		if !ok {
			continue
		}
		try, cancel := context.WithTimeout(ctx, f.orders.acceptTimeout())
		err := f.orders.cfg.View.Reach(try, index)
		cancel()
		if err != nil { // and nothing that was accepted after it is known, either
			f.orders.Wake()
			return
		}
		f.drop(h.Job.ID)
		delete(f.accepted, h.Job.ID)
	}
}

// drop forgets a job that is held no longer.
func (f *forwarder) drop(id taskstate.JobID) {
	if _, err := f.orders.cfg.Held.Drop(id, false); err != nil {
		f.orders.cfg.Log.Warn("held job went out and could not be forgotten; sending it again does no harm", "err", err)
	}
}
