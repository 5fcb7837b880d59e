package logreplica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
)

// at has the loop do something with the core.
func (r *Replicator) at(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case r.asked <- func() { f(); close(done) }:
		<-done
		return nil
	case <-r.over:
		return errors.New("this peer is about to end")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Sole implements keep.PrintedKeeper.
func (r *Replicator) Sole(ctx context.Context, job taskstate.JobID, leaving bool) (s keep.Sole, err error) {
	err = r.at(ctx, func() {
		s = r.core.Sole(job)
		s.Unsure = !r.scanned || leaving && (!r.gone || !r.core.Settled())
	})
	return s, err
}

// HandOver has other peers keep what only this one has, before it leaves. The error names the jobs
// of which none takes the output; this peer stays then.
func (r *Replicator) HandOver(ctx context.Context, self string) error {
	t := time.NewTicker(handEvery)
	defer t.Stop()
	if err := r.at(ctx, func() { r.leaves = true }); err != nil {
		return err
	}
	for {
		s, err := r.Sole(ctx, "", true)
		switch {
		case err != nil:
		case !s.Unsure && len(s.Jobs) == 0:
			return nil
		case !s.Unsure:
			err = errSole(&s, self)
		}
		if err != nil {
			r.Stay(ctx)
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

// Stay notes that this peer does not leave after all.
func (r *Replicator) Stay(ctx context.Context) {
	_ = r.at(context.WithoutCancel(ctx), func() { r.leaves = false }) // it ends anyway if it cannot be told
}

// SoleAt is Sole of any peer.
func (r *Replicator) SoleAt(ctx context.Context, peer taskstate.PeerID, job taskstate.JobID, leaving bool) (keep.Sole, error) {
	if peer == r.cfg.Self {
		return r.Sole(ctx, job, leaving)
	}
	return keep.AskSole(ctx, r.cfg.Net, peer, job, leaving)
}

func errSole(s *keep.Sole, self string) error {
	return api.Errorf(api.Conflict, "this peer did not leave: %s. Read it first (`peer logs JOB`), or let another peer join; "+
		"to lose it, type `peer down` here and `peer remove %s` at another peer", SoleText(s), self)
}

// SoleText says what a peer alone has, and why.
func SoleText(s *keep.Sole) string {
	const few = 5
	var jobs []string
	tasks, more, why := 0, s.More, "it is being copied"
	for _, j := range s.Jobs {
		why = cmp.Or(j.Why, why)
		if tasks += j.Tasks; len(jobs) < few {
			jobs = append(jobs, j.Job)
		} else {
			more++
		}
	}
	if more > 0 {
		jobs = append(jobs, fmt.Sprintf("%d more jobs", more))
	}
	what := "a task"
	if tasks > 1 {
		what = fmt.Sprintf("%d tasks", tasks)
	}
	return fmt.Sprintf("it has the only copy of what %s of %s printed (%s)", what, spell.Enumerate(jobs), why)
}
