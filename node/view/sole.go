package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/node/logreplica"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/taskstate"
)

// soleOutput asks peers what they alone have of what tasks printed.
type soleOutput struct {
	cfg *Config
	who *Names
}

// left finds out what tasks printed that only a peer has which is drained and has no tasks any
// more. The error is that no other peer takes it.
func (o soleOutput) left(ctx context.Context, d *draining) error {
	if d.Left > 0 || o.cfg.Copies == nil {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, soleLimit)
	defer cancel()
	s, err := o.cfg.Copies().SoleAt(asking, d.Peer, "", true)
	switch {
	case errors.Is(err, keep.ErrHungUp): // a version before 0.3 hands nothing over
		return nil
	case err != nil:
		if d.Sole = o.endedOn(d.Peer); d.Sole > 0 {
			d.Note = fmt.Sprintf("it cannot be asked whether another peer has what its tasks printed (%s)", p2p.Why(err))
		}
		return nil
	}
	d.unsure, d.Sole = s.Unsure, s.Tasks()
	for _, j := range s.Jobs {
		d.Jobs = append(d.Jobs, j.Job)
	}
	if s.Unsure || d.Sole == 0 || d.Only > 0 {
		return nil
	}
	return api.Errorf(api.Conflict, "%s is not empty: %s. Read it first (`peer logs JOB`), or let another peer join; `peer drain %s --wait --drop-output` goes on without it",
		d.Name, logreplica.SoleText(&s), d.Name)
}

// How long a peer is asked what it alone has: before it is empty, and for a look at a job.
const (
	soleLimit = 5 * time.Second
	soleSoon  = time.Second
)

// endedOn is how many tasks ended on a peer that may have printed what is to be kept twice.
func (o soleOutput) endedOn(id taskstate.PeerID) (n int) {
	o.cfg.Replica.Read(func(s *ledger.State) {
		for j := range s.Jobs() {
			if !j.Job().PrintsTwice() {
				continue
			}
			for slot := 1; slot <= j.Slots(); slot++ {
				if r := j.Slot(slot); r.Peer == id && r.Final != nil {
					n++
				}
			}
		}
	})
	return n
}

// of is what is kept once of what tasks of a job printed, as the peers say that ran some.
func (o soleOutput) of(ctx context.Context, job taskstate.JobID) (out []api.SoleOutput) {
	ran := map[taskstate.PeerID]bool{}
	o.cfg.Replica.Read(func(s *ledger.State) {
		j, ok := s.Job(job)
		if !ok || !j.Job().PrintsTwice() || o.cfg.Copies == nil {
			return
		}
		for slot := 1; slot <= j.Slots(); slot++ {
			if r := j.Slot(slot); r.Final != nil && r.Peer != "" {
				ran[r.Peer] = true
			}
		}
	})
	ctx, cancel := context.WithTimeout(ctx, soleSoon)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for peer := range ran {
		if m, met := o.cfg.Members().Get(peer); !met || m.Verdict == membership.Dead {
			continue
		}
		wg.Go(func() {
			s, err := o.cfg.Copies().SoleAt(ctx, peer, job, false)
			if err != nil || len(s.Jobs) == 0 || s.Jobs[0].Why == "" { // without a reason it is being copied
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out = append(out, api.SoleOutput{Peer: peer, PeerName: o.who.Name(peer), Tasks: s.Tasks(), Bytes: s.Jobs[0].Bytes, Why: s.Jobs[0].Why})
		})
	}
	wg.Wait()
	slices.SortFunc(out, func(a, b api.SoleOutput) int { return cmp.Compare(a.Peer, b.Peer) })
	return out
}
