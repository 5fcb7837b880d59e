package secrets

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/seal"
)

// Pauses between two requests for the same secrets.
const (
	pauseFirst = 200 * time.Millisecond
	pauseMost  = 10 * time.Second
)

// fewTries is how often it is asked again before it is told that the other peer is not ready.
const fewTries = 4

// Stage has the secrets of a job brought here, and then what else it needs, and returns at once.
// How far they are is told to Config.Tell.
func (s *Secrets) Stage(job *taskstate.Job) {
	if job.Secrets == nil {
		s.cfg.Next(job)
		return
	}
	s.mu.Lock()
	s.todo = append(s.todo, job)
	s.mu.Unlock()
	s.wake.Set()
}

// Run brings what Stage asks for, until ctx ends.
func (s *Secrets) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			s.mu.Lock()
			todo := s.todo
			s.todo = nil
			s.mu.Unlock()
			for _, job := range todo {
				all.Go(func() { s.bring(ctx, job) })
			}
		}
	}
}

// bring has the secrets of one job come here, however often that has to be tried. What is wrong
// with those that are here is told by its tasks.
func (s *Secrets) bring(ctx context.Context, job *taskstate.Job) {
	said, tries := "", 0
	for wait := pauseFirst; ; wait = min(2*wait, pauseMost) {
		_, err := s.open(job)
		if errors.Is(err, seal.ErrNotForMe) {
			err = s.askFor(ctx, job)
		} else {
			err = nil
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if len(job.Inputs) > 0 {
				s.cfg.Next(job)
			} else {
				s.cfg.Tell(Report{Job: job.ID, Version: job.Version, Here: true})
			}
			return
		}
		if over, known := s.cfg.Over(job.ID); known && over {
			return
		}
		if told, ok := errors.AsType[*Error](err); ok && told.Code == CodeBusy && tries < fewTries {
			tries++ // the ledger is on its way
		} else if text := s.waits(job, err); text != said {
			said = text
			s.cfg.Log.Info("secrets did not come", "job", job.ID, "err", err)
			s.cfg.Tell(Report{Job: job.ID, Version: job.Version, Message: text})
		}
		if pause.For(ctx, wait) != nil {
			return
		}
	}
}

// waits says what a task waits for.
func (s *Secrets) waits(job *taskstate.Job, err error) string {
	by := s.cfg.Name(job.Secrets.By)
	text := fmt.Sprintf("waits for its secrets: %s, where they were given, has to seal them for this peer, and ", by)
	if told, ok := errors.AsType[*Error](err); ok {
		return text + "does not: " + told.Message
	}
	return text + "cannot be reached"
}

func (s *Secrets) askFor(ctx context.Context, job *taskstate.Job) error {
	task, index, ok := s.cfg.Given(job.ID)
	if !ok {
		return &Error{Code: CodeBusy, Message: "this peer does not know yet which task it was given"}
	}
	return s.ask(ctx, job, task, index)
}

// askWithin bounds one request.
const askWithin = 10 * time.Second

// ask has the peer that sealed a job's secrets seal them to this one.
func (s *Secrets) ask(ctx context.Context, job *taskstate.Job, task taskstate.TaskID, index uint64) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	c, err := s.cfg.Net.Dial(ctx, job.Secrets.By, Protocol)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_ = c.SetDeadline(time.Now().Add(limit.RequestTimeout))
	if err := wire.NewWriter(c, maxRequest).Send(Request{Task: task, Index: index, Version: job.Version, Recipient: s.cfg.Key.Recipient()}); err != nil {
		return err
	}
	var a answer
	if err := wire.NewReader(c, maxAnswer).Read(&a); err != nil {
		return err
	}
	if a.Error != nil {
		return a.Error
	}
	b, digest, err := s.cfg.Key.Open(a.Sealed)
	if err == nil {
		err = fits(job, s.cfg.Cluster(), b, digest)
	}
	if err != nil {
		return fmt.Errorf("what came is not what was asked for: %w", err)
	}
	s.remember(job, a.Sealed)
	return nil
}
