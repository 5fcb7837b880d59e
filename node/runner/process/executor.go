package process

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

// Executor runs processes. All methods may be called by anybody at any time; none waits for a task,
// but Close does where there is no supervisor.
type Executor struct {
	cfg     Config
	base    []string // environment passed on from the daemon
	keeper  processOwner
	lasting bool // processes outlive this one
	boxes   *confiner
	vault   vault // of tasks' secrets
	spare   spare
	late    lateOutput

	mu      sync.Mutex
	tasks   map[taskstate.TaskID]*task // not yet ended
	queue   []*task                    // processes waiting for a starter, first in first out; the worker bounds it
	left    map[taskstate.TaskID]supervise.Event
	strange *dismissed      // what Adopt stops
	life    context.Context // ends with Close
	die     func()
	work    sync.Cond // on mu: queue or shut changed
	shut    bool
	all     sync.WaitGroup // starters, and tasks with inputs on their way to the keeper
	places  chan struct{}  // a token for each task whose inputs are placed now
	feeds   sync.WaitGroup
}

// task is one task that has not ended. Its fields are guarded by mu; launch never changes.
type task struct {
	launch  taskstate.Launch
	over    chan struct{} // closed when its output is complete
	mu      sync.Mutex
	sent    bool   // the keeper has it, and hears of a stop
	shown   bool   // reported as running
	home    string // its folder, once it is made
	kind    kind   // of that
	ended   bool
	stop    taskstate.Reason // why it was asked to stop, "" if it was not
	feed    *feed            // nil: its stdin is empty
	starved string           // why its stdin had no end, for people; "" if it was not stopped for that

	life   context.Context // of a task with inputs: ends with its stop
	cancel func()
}

// New makes the tasks folder and starts the executor's goroutines; Close ends them. What an earlier
// life left running waits for Adopt.
func New(cfg Config) (*Executor, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("the tasks folder cannot be made: %w", err)
	}
	if cfg.Copied {
		if err := supervise.Forget(cfg.Dir); err != nil {
			return nil, fmt.Errorf("notes about processes of another folder cannot be removed: %w", err)
		}
	}
	v := openVault(cfg.Dir)
	if box := cfg.Sandbox; box != nil && v.root != "" {
		b := *box
		b.Hide, cfg.Sandbox = append(slices.Clone(b.Hide), v.root), &b
	}
	r := &Executor{
		cfg: cfg, vault: v, spare: spare{dir: cfg.Dir}, base: passed(cfg.Environ),
		late: lateOutput{log: cfg.Log}, tasks: make(map[taskstate.TaskID]*task), left: make(map[taskstate.TaskID]supervise.Event),
		places: make(chan struct{}, cfg.Starters),
	}
	r.work.L = &r.mu
	r.life, r.die = context.WithCancel(context.Background())
	if r.boxes, err = newConfiner(cfg); err != nil {
		return nil, err
	}
	if r.keeper, r.lasting, err = openKeeper(cfg, r.happened); err != nil {
		return nil, fmt.Errorf("what this peer left running cannot be found out: %w", err)
	}
	r.takeNote()
	for range cfg.Starters {
		r.all.Go(r.starter)
	}
	return r, nil
}

// Lasting tells whether processes go on when this peer ends, and its next start takes them up
// again.
func (r *Executor) Lasting() bool { return r.lasting }

// Start runs a task. It returns at once; what becomes of it is reported. A task that is running
// already is left alone, and after Close nothing starts.
func (r *Executor) Start(l taskstate.Launch) {
	t := &task{launch: l, over: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.tasks[l.Task]; known || r.shut {
		return
	}
	r.tasks[l.Task] = t
	if len(l.Job.Inputs) > 0 {
		t.life, t.cancel = context.WithCancel(r.life)
		r.all.Go(func() { r.launchWithInputs(t) })
		return
	}
	r.queue = append(r.queue, t)
	r.work.Signal()
}

// Stop ends a task: SIGTERM to its group, after the grace SIGKILL. It ends as Shutdown with this
// reason, unless it had ended by itself. The first reason stands. A task that is not here is
// ignored: its end was reported already.
func (r *Executor) Stop(id taskstate.TaskID, reason taskstate.Reason) {
	r.mu.Lock()
	t := r.tasks[id]
	r.mu.Unlock()
	if t != nil {
		r.halt(t, reason)
	}
}

func (r *Executor) halt(t *task, reason taskstate.Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.stop != "" {
		return
	}
	t.stop = reason
	if t.sent { // otherwise it waits for a starter or its stdin, or is being prepared: who starts it looks
		r.keeper.Stop(t.launch.Task.String(), string(reason))
		return
	}
	if t.cancel != nil {
		t.cancel()
	}
	if t.feed != nil {
		t.feed.cancel()
	}
}

// Live tells whether a process of this task may still write, and gives a channel that is closed
// when its output is complete. What is beyond limit may be cut away yet; 0: nothing will be.
func (r *Executor) Live(id taskstate.TaskID) (over <-chan struct{}, limit int64, live bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tasks[id]
	if t == nil {
		return nil, 0, false
	}
	if t.launch.Job.Type.Lasts() {
		return t.over, 0, true
	}
	return t.over, cmp.Or(t.launch.Job.MaxOutput, r.cfg.LogCap), true
}

// Close ends the executor's goroutines. Processes of a supervisor go on, and what was not begun is
// forgotten; otherwise every task is stopped as interrupted and its end reported, which takes up to
// the grace.
func (r *Executor) Close() error {
	r.mu.Lock()
	if r.shut {
		r.mu.Unlock()
		return nil
	}
	r.shut = true
	if r.lasting {
		r.queue = nil
	}
	left := make([]*task, 0, len(r.tasks))
	for _, t := range r.tasks {
		left = append(left, t)
	}
	r.mu.Unlock()
	r.work.Broadcast()
	if !r.lasting {
		for _, t := range left {
			r.halt(t, taskstate.ReasonInterrupted)
		}
	}
	r.die() // who brings something for a task that is being prepared
	r.all.Wait()
	err := r.keeper.Close()
	r.feeds.Wait()
	r.late.close()
	r.vault.close()
	return err
}

func (r *Executor) forget(id taskstate.TaskID) {
	r.mu.Lock()
	delete(r.tasks, id)
	r.mu.Unlock()
}
