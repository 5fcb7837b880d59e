package care

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// Kept is how it stands with what tasks of a job left here.
type Kept struct {
	Job    taskstate.JobID
	Order  uint64
	Home   bool               // it was submitted here
	Tasks  int                // that left something
	Bytes  int64              // of it, equal files counted as often as they are there
	Coming int                // tasks of which not all is here yet
	Copies int                // of the task that has the fewest
	Keep   int                // that there are to be
	Sole   int                // tasks of which nobody else who is here has a copy
	Busy   bool               // one of those who cannot keep it has only no time now
	Alone  bool               // fewer copies than there are to be: there is nobody else
	Not    []taskstate.PeerID // that cannot keep more
}

// Jobs says how it stands with what tasks left here, older jobs first.
func (c *Care) Jobs(ctx context.Context) (out []Kept, err error) {
	err = c.at(ctx, func() { out = jobs(c.core, c.cfg.Now()) })
	return out, err
}

func jobs(core *Core, now time.Time) (out []Kept) {
	by := map[taskstate.JobID]*Kept{}
	for r := range core.Rows(now) {
		if r.Saved == nil {
			continue
		}
		k := by[r.ID.Job]
		if k == nil {
			k = &Kept{Job: r.ID.Job, Order: r.Order, Home: r.Owner == core.self, Copies: r.Copies, Keep: r.copies()}
			by[r.ID.Job] = k
		}
		k.Tasks++
		k.Bytes += r.Saved.Bytes
		k.Copies, k.Keep = min(k.Copies, r.Copies), max(k.Keep, r.copies())
		switch {
		case r.Held == NotPinned || r.Held == Damaged:
			k.Coming++
		case r.Elsewhere == 0:
			k.Sole++
		}
		if r.Copies < r.copies() {
			k.Alone, k.Not = k.Alone || r.Alone, union(k.Not, r.Not)
		}
	}
	for _, k := range by {
		out = append(out, *k)
	}
	slices.SortFunc(out, func(a, b Kept) int { return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Job, b.Job)) })
	return out
}

func union(a, b []taskstate.PeerID) []taskstate.PeerID {
	a = append(a, b...)
	slices.Sort(a)
	return slices.Compact(a)
}

const (
	handEvery  = 100 * time.Millisecond // it is looked whether all has been handed over
	settleWait = 10 * time.Second       // for the ledger to know of what has just ended here
)

// HandOver has others keep what only this peer has, before it leaves. It returns what nobody takes;
// if that is anything, or the context ends, this peer counts as a keeper again.
func (c *Care) HandOver(ctx context.Context) (left []Kept, err error) {
	turn := func(on bool) func() {
		return func() {
			c.damaged = true // so that what is pinned is looked at now
			c.look(c.life)
			c.begin(c.life, c.core.Leave(on, c.cfg.Now()))
		}
	}
	if err := c.at(ctx, turn(true)); err != nil {
		return nil, err
	}
	defer func() {
		if len(left) > 0 || err != nil {
			_ = c.at(context.WithoutCancel(ctx), turn(false)) // it ends anyway if it cannot be told
		}
	}()
	t := time.NewTicker(handEvery)
	defer t.Stop()
	patience := c.cfg.Now().Add(settleWait)
	for {
		going := false
		if err := c.at(ctx, func() {
			left = sole(c.core, c.cfg.Now())
			going = len(left) > 0 && (!c.core.Idle(Ask) || slices.ContainsFunc(left, func(k Kept) bool { return k.Busy })) ||
				c.core.Unsettled() && c.cfg.Now().Before(patience)
		}); err != nil {
			return left, err
		}
		if !going {
			return left, nil
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return left, nil
		}
	}
}

// sole is what nobody else who is here has.
func sole(core *Core, now time.Time) (out []Kept) {
	by := map[taskstate.JobID]int{}
	for r := range core.Rows(now) {
		if r.Saved == nil || r.Held == NotPinned || r.Held == Damaged || r.Elsewhere > 0 {
			continue
		}
		i, ok := by[r.ID.Job]
		if !ok {
			i = len(out)
			by[r.ID.Job] = i
			out = append(out, Kept{Job: r.ID.Job, Order: r.Order, Alone: r.Alone})
		}
		k := &out[i]
		k.Tasks++
		k.Sole++
		k.Bytes += r.Saved.Bytes
		k.Not, k.Busy = union(k.Not, r.Not), k.Busy || r.Busy
	}
	slices.SortFunc(out, func(a, b Kept) int { return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Job, b.Job)) })
	return out
}
