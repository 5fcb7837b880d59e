package worker

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/taskstate"
)

// Times of the core's owner that are not the coordinator's to say.
const (
	ackWait         = 2 * time.Second // how long a stop waits for acknowledgements after everything is published
	journalRetry    = 200 * time.Millisecond
	journalRetryMax = 5 * time.Second
)

// own is the goroutine that owns the core: everything that happens becomes an event, one at a time.
func (w *Loop) own(ctx context.Context) error {
	stop, detach := w.stop, w.detach
	var patience <-chan time.Time
	due := time.NewTimer(time.Hour)
	defer due.Stop()
	for {
		if wake := w.core.Wake(); !wake.IsZero() {
			due.Reset(time.Until(wake))
		}
		select {
		case <-due.C:
			w.step(nil)
		case <-ctx.Done():
			return nil
		case e := <-w.streams:
			w.streamChanged(e)
		case ev := <-w.events:
			w.step(ev)
		case <-w.reports.News():
			w.step(Ran{w.reports.Take()})
		case <-w.staged.News():
			w.step(Staged{w.staged.Take()})
		case ev := <-w.results:
			w.step(ev)
		case o := <-w.offers:
			w.step(OfferChanged{o})
		case <-w.refrained:
			w.step(w.refrain())
		case s := <-w.seen:
			w.step(s)
		case w.muted = <-w.mutes:
			w.step(Mute{w.muted})
		case <-stop:
			stop, detach = nil, nil
			w.step(Stop{})
		case <-detach:
			stop, detach = nil, nil
			w.step(Detach{})
		case <-patience:
			return nil
		case <-w.abort:
			return nil
		}
		if stop != nil {
			if why, over := w.core.Renounced(); over {
				return &lostJournal{why: why, fence: w.core.state.Fence}
			}
			continue
		}
		published, acked := w.core.Quiet()
		if acked {
			return nil
		}
		if published && patience == nil {
			patience = time.After(ackWait)
		}
	}
}

// step gives the core an event, or nil to look at the clock, and carries out what it answers.
func (w *Loop) step(ev Event) {
	for _, e := range w.core.Step(ev, time.Now()) {
		switch e := e.(type) {
		case Send:
			if w.stream != nil {
				w.stream.send(e.Frame)
			}
		case End:
			if w.stream != nil {
				w.stream.end(endedBy{why: e.Why, again: e.Again})
			}
		case Save:
			w.saves <- e.Txn // never waits: one is under way at most
		case Publish:
			w.publishes <- e.Envelopes // likewise
		case Start:
			w.cfg.Runner.Start(e.Launch)
		case Halt:
			w.cfg.Runner.Stop(e.Stop.Task, e.Stop.Reason)
		case Kept:
			w.cfg.Runner.Kept(e.Tasks)
		case Stage:
			if w.cfg.Stager != nil {
				w.cfg.Stager.Stage(e.Job)
			} else {
				w.Staged(StageReport{Job: e.Job.ID, Version: e.Job.Version, Here: true}) // the runner says what it thinks of it
			}
		case Exhaustion:
			if w.cfg.Exhausted != nil {
				w.cfg.Exhausted(e.Err)
			}
		case Adopt:
			w.adopt(e.Begun)
		}
	}
	if w.cfg.Retired != nil {
		if n := w.core.Retirable(); n > 0 {
			w.cfg.Retired(w.core.inc, n)
		}
	}
}

func (w *Loop) streamChanged(e streamEvent) {
	if e.up {
		w.stream = e.stream
		w.step(Opened{e.stream.id})
		return
	}
	if w.stream == e.stream {
		w.stream = nil
	}
	w.step(Closed{e.stream.id})
}

// write seals batches and writes transactions. A disk that refuses is tried again and again: the
// core waits meanwhile, so nothing is accepted, and nothing is lost.
func (w *Loop) write(ctx context.Context) {
	for {
		var t *journal.Txn
		select {
		case <-ctx.Done():
			return
		case t = <-w.saves:
		}
		delay := journalRetry
		for {
			err, back := w.saveWatched(ctx, t)
			if !back {
				return
			}
			if err == nil {
				break
			}
			if errors.Is(err, syscall.ENOSPC) && w.cfg.MakeRoom != nil && w.cfg.MakeRoom() {
				continue // once: what is given back is gone
			}
			w.setSick(ctx, fmt.Errorf("the worker's journal in %s cannot be written: %w", w.cfg.Dir, err))
			if pause.For(ctx, delay) != nil {
				return
			}
			delay = min(2*delay, journalRetryMax)
		}
		w.setSick(ctx, nil)
		w.tell(ctx, Saved{})
	}
}

// stuckAfter is how long a write may take before its disk counts as stuck. Disks of busy machines
// take a second at times.
const stuckAfter = 5 * time.Second

// saveWatched is save that says so when the disk does not answer. A write that is stuck cannot be
// taken back: it goes on until the disk answers or the program ends, also when back is false, which
// means that ctx ended first.
func (w *Loop) saveWatched(ctx context.Context, t *journal.Txn) (err error, back bool) {
	done := make(chan error, 1)
	go func() { done <- w.save(t) }()
	late := time.NewTimer(stuckAfter)
	defer late.Stop()
	over, stuck := ctx.Done(), false
	for !stuck || ctx.Err() == nil {
		select {
		case err := <-done:
			return err, true
		case <-late.C:
			stuck = true
			w.setSick(ctx, fmt.Errorf("a write to the worker's journal in %s does not come back: the disk is stuck", w.cfg.Dir))
		case <-over:
			over = nil // a write that is not stuck may come to its end
		}
	}
	w.abandoned = true
	return nil, false
}

func (w *Loop) save(t *journal.Txn) error {
	for _, b := range t.Batches {
		if b.Envelope != nil {
			continue // sealed before a failed write: the same bytes again
		}
		body, err := taskstate.EncodeBatch(taskstate.Batch{
			Author: w.cfg.Self, Incarnation: w.inc, Number: b.Number, Statuses: b.Statuses,
		})
		if err != nil {
			return err
		}
		env, err := w.cfg.Seal(w.inc, b.Number, body)
		if err != nil {
			return fmt.Errorf("sign a batch: %w", err)
		}
		b.Body, b.Envelope = body, env
	}
	began := time.Now()
	err := w.journal.Save(t)
	if err == nil && w.cfg.Synced != nil {
		w.cfg.Synced(time.Since(began))
	}
	return err
}

func (w *Loop) setSick(ctx context.Context, err error) {
	w.mu.Lock()
	was := w.sick
	w.sick = err
	w.mu.Unlock()
	switch {
	case err != nil && was == nil:
		w.cfg.Log.Error("worker stops taking on tasks", "err", err)
		w.tell(ctx, Sick{err})
	case err == nil && was != nil:
		w.cfg.Log.Info("worker takes on tasks again: its journal can be written")
		w.tell(ctx, Sick{})
	}
}

// publish hands batches to the topic.
func (w *Loop) publish(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case envelopes := <-w.publishes:
			for _, e := range envelopes {
				if err := w.cfg.Publish(ctx, e); err != nil && ctx.Err() == nil {
					w.cfg.Log.Warn("publish a batch of statuses", "err", err)
				}
			}
			w.tell(ctx, Published{})
		}
	}
}

// tell gives the owner a result.
func (w *Loop) tell(ctx context.Context, ev Event) {
	select {
	case w.results <- ev:
	case <-ctx.Done():
	}
}

// adopt has the runner look for what was running when this peer last ended: beside the owner,
// because it asks processes and files.
func (w *Loop) adopt(begun []taskstate.Launch) {
	if w.adoptions++; w.adoptions > 1 { // what ran before was started in this process, and has ended
		w.adopted <- nil
		return
	}
	w.adopting.Go(func() {
		lost := w.cfg.Runner.Adopt(begun)
		if len(begun) > 0 {
			w.cfg.Log.Info("tasks were running when this peer last ended", "tasks", len(begun), "not found again", len(lost))
		}
		w.adopted <- lost
	})
}
