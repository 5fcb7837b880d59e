package saver

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/node/runner"
	"github.com/coveyproject/covey/taskstate"
)

// Bounds of what goes on at once.
const (
	MaxCollecting = 2
	MaxCopying    = 64
)

// Runner is what runs tasks.
type Runner interface {
	runner.Executor
	Lasting() bool
}

// Config is what saving rests on.
type Config struct {
	Self   taskstate.PeerID
	Dir    string                                              // the tasks folder
	Sink   func(r taskstate.RunReport)                         // hears what becomes of tasks; must not block
	Store  func() *store.Store                                 // is asked when the first task is saved
	Others func(submitter taskstate.PeerID) []taskstate.PeerID // members that are here and may read what its tasks left, without this one
	Name   func(taskstate.PeerID) string                       // for people; optional
	Inputs Inputs                                              // optional
	Net    keep.Dialer
	// MayKeep is why so many bytes more of what tasks of a job left may not be kept here; optional.
	MayKeep func(job *taskstate.Job, bytes int64) error
	Log     *slog.Logger // optional
}

// Inputs says what a task was given below its work folder.
type Inputs func(context.Context, taskstate.Launch) ([]tree.Placed, error)

// Saver is a runner whose tasks end when what they left is safe. Its methods may be called by
// anybody at any time.
type Saver struct {
	Runner
	cfg  Config
	shy  declined
	ctx  context.Context // ends with Close
	end  context.CancelFunc
	all  sync.WaitGroup // goroutines
	copy chan struct{}  // places of those that are copied

	mu         sync.Mutex
	tasks      map[taskstate.TaskID]*task // of jobs that save, until their end is told
	queue      []*task                    // to be collected
	collectors int
	shut       bool
}

// task is one of a job that saves. The Saver's lock guards it, but for launch, and for what says
// otherwise.
type task struct {
	launch  taskstate.Launch
	ended   *taskstate.RunReport // how its process ended; nil: it has not. Not changed once it is set
	waits   bool                 // in the queue
	ctx     context.Context      // of saving it; does not change
	give    context.CancelFunc   // ends that
	stopped taskstate.Reason     // why it is to end early; "" if it is not
}

// New wraps the runner that run makes, which is given where to report to.
func New(cfg Config, run func(sink func(taskstate.RunReport)) (Runner, error)) (*Saver, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Name == nil {
		cfg.Name = func(id taskstate.PeerID) string { return id }
	}
	s := &Saver{cfg: cfg, tasks: map[taskstate.TaskID]*task{}, copy: make(chan struct{}, MaxCopying)}
	s.ctx, s.end = context.WithCancel(context.Background())
	r, err := run(s.report)
	if err != nil {
		return nil, err
	}
	s.Runner = r
	return s, nil
}

// know notes a task whose files are to be kept.
func (s *Saver) know(l taskstate.Launch) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tasks[l.Task]
	if t == nil { // otherwise it is started a second time, which changes nothing
		t = &task{launch: l}
		t.ctx, t.give = context.WithCancel(s.ctx)
		s.tasks[l.Task] = t
	}
	return t
}

// Start implements worker.Runner.
func (s *Saver) Start(l taskstate.Launch) {
	if l.Job != nil && l.Job.Saves() {
		s.know(l)
	}
	s.Runner.Start(l)
}

// Stop implements worker.Runner. Saving a task is broken off, unless it is that of one that was
// stopped for this reason before.
func (s *Saver) Stop(id taskstate.TaskID, reason taskstate.Reason) {
	s.mu.Lock()
	t := s.tasks[id]
	again := t != nil && t.stopped == reason
	if t != nil && t.stopped == "" {
		t.stopped = reason
	}
	saving, waits := t != nil && t.ended != nil, t != nil && t.waits
	s.mu.Unlock()
	switch {
	case !saving:
		s.Runner.Stop(id, reason)
	case again:
	case waits:
		s.over(t, stopped(*t.ended, t.stopped, nil))
	default:
		t.give()
	}
}

// Adopt implements worker.Runner: what an earlier life was saving is saved again.
func (s *Saver) Adopt(tasks []taskstate.Launch) []taskstate.Loss {
	var run []taskstate.Launch
	var over []*task
	for _, l := range tasks {
		switch {
		case l.Ended != nil:
			over = append(over, s.know(l))
			continue
		case l.Job.Saves():
			s.know(l)
		}
		run = append(run, l)
	}
	lost := s.Runner.Adopt(run)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range lost {
		if t := s.tasks[l.Task]; t != nil {
			t.give()
			delete(s.tasks, l.Task)
		}
	}
	for _, t := range over {
		end := endOf(*t.launch.Ended)
		s.save(t, &end)
	}
	return lost
}

// report takes in what the runner says.
func (s *Saver) report(r taskstate.RunReport) {
	if !r.State.Final() {
		s.cfg.Sink(r)
		return
	}
	s.mu.Lock()
	t := s.tasks[r.Task]
	if t == nil {
		s.mu.Unlock()
		s.cfg.Sink(r)
		return
	}
	if r.State == taskstate.Shutdown && t.stopped == "" {
		t.stopped = r.Reason // an earlier life was asked for that
	}
	ran := r.State == taskstate.Complete || r.State == taskstate.Failed
	if t.stopped == taskstate.ReasonCancelled && (ran || r.State == taskstate.Shutdown) {
		s.save(t, &r)
		s.mu.Unlock()
		return
	}
	if !ran || t.stopped != "" {
		delete(s.tasks, r.Task)
		s.mu.Unlock()
		t.give()
		if r.State == taskstate.Complete { // by itself, before it heard of the stop
			r = stopped(r, t.stopped, nil)
		}
		s.cfg.Sink(r)
		return
	}
	s.mu.Unlock()
	saving := r
	saving.State = taskstate.Saving
	s.cfg.Sink(saving)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.save(t, &r)
}

// save has what a task left be collected. The lock is held.
func (s *Saver) save(t *task, end *taskstate.RunReport) {
	t.ended = end
	if s.shut {
		return
	}
	t.waits = true
	s.queue = append(s.queue, t)
	if s.collectors < MaxCollecting {
		s.collectors++
		s.all.Go(s.collector)
	}
}

// next takes a task from the queue. nil: there is none, and if it is the end, the collector has
// ended.
func (s *Saver) next(end bool) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 {
		t := s.queue[0]
		s.queue[0], s.queue = nil, s.queue[1:]
		if t.waits && s.tasks[t.launch.Task] == t {
			t.waits = false
			return t
		}
	}
	if end {
		s.collectors--
	}
	return nil
}

// over reports the end of a task that was saved, unless Close broke that off, or it was reported.
func (s *Saver) over(t *task, r taskstate.RunReport) {
	s.mu.Lock()
	tell := !s.shut && s.tasks[t.launch.Task] == t
	if tell {
		delete(s.tasks, t.launch.Task)
	}
	s.mu.Unlock()
	t.give()
	if tell {
		r.At = time.Now().UnixMilli()
		s.cfg.Sink(r)
	}
}

// stopping is why a task is to end early, if it is.
func (s *Saver) stopping(t *task) taskstate.Reason {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.stopped
}

// Close implements runner.Executor. What is being saved is broken off.
func (s *Saver) Close() error {
	s.mu.Lock()
	s.shut = true
	s.queue = nil
	s.mu.Unlock()
	s.end()
	err := s.Runner.Close()
	s.all.Wait()
	return err
}
