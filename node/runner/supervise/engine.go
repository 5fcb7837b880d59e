package supervise

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/node/runner/sandbox"
)

// Defaults of EngineConfig.
const (
	DefaultLogCap = 64 << 20
	DefaultGrace  = 5 * time.Second
)

// EngineConfig is what an Engine needs.
type EngineConfig struct {
	Dir    string        // the tasks folder
	LogCap int64         // bytes kept of each output file
	Grace  time.Duration // from SIGTERM to SIGKILL
	Warn   func(string)  // what should be known and stops nothing; must not block

	Groups *sandbox.Groups // for tasks; nil: there are none

	room func() (Room, error) // how the disk stands; nil: look
}

// process is a started process: a child, or an orphan of an earlier supervisor.
type process interface {
	signal(syscall.Signal) bool // to its group; false: it has ended
	group() int
	wait() ending // returns when it has ended and what was left of its group is killed
}

// Engine starts processes and sees them to their end: the supervisor's inside, and all of it where
// there is no supervisor. Methods may be called by anybody; none waits for a process except Close.
type Engine struct {
	cfg     EngineConfig
	null    *os.File
	records *records
	ends    *endsFile
	reaper  *reaper
	sweeper *sweeper
	wake    wake.Signal // something runs: the output must be looked at
	quit    chan struct{}
	all     sync.WaitGroup

	mu     sync.Mutex
	procs  map[string]*proc      // not over
	queue  []*proc               // of these, those to be started
	queued sync.Cond             // on mu: queue or shut changed
	taken  map[string]unackedEnd // over, not acknowledged
	sink   func(Event)           // nil: nobody is there
	shut   bool
	sick   bool // ends could not be kept on disk
	room   roomWatch
	spent  refusal
}

type unackedEnd struct {
	event Event
	slot  int
}

// NewEngine takes up what an earlier one left: processes that still run, and ends that nobody has
// acknowledged.
func NewEngine(cfg EngineConfig) (*Engine, error) {
	if cfg.LogCap <= 0 {
		cfg.LogCap = DefaultLogCap
	}
	if cfg.Grace <= 0 {
		cfg.Grace = DefaultGrace
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	keepDescriptors()
	e := &Engine{
		cfg: cfg, null: null, procs: map[string]*proc{}, taken: map[string]unackedEnd{}, wake: wake.New(), quit: make(chan struct{}),
	}
	e.queued.L = &e.mu
	if e.room.look = cfg.room; e.room.look == nil {
		e.room.look = func() (Room, error) { return RoomOf(cfg.Dir) }
	}
	if e.records, err = openRecords(cfg.Dir); err != nil {
		return nil, fmt.Errorf("the list of running processes cannot be opened: %w", err)
	}
	e.room.probe = e.records.probe
	var left []Event
	if e.ends, left, err = openEnds(cfg.Dir); err != nil {
		return nil, fmt.Errorf("the list of ended processes cannot be opened: %w", err)
	}
	for _, ev := range left {
		e.taken[ev.Task] = unackedEnd{event: ev, slot: -1}
	}
	if e.reaper, err = newReaper(); err != nil {
		return nil, err
	}
	e.sweeper = newSweeper(killTagged, termTagged)
	e.adopt()
	e.all.Go(e.watch)
	for range 2 * runtime.GOMAXPROCS(0) {
		e.all.Go(e.forker)
	}
	return e, nil
}

// Attach makes sink the one that hears: first of everything that runs or is over and not
// acknowledged, then of what happens. It is called under a lock and must be quick.
func (e *Engine) Attach(sink func(Event)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.procs {
		x.mu.Lock()
		if x.p != nil {
			sink(Event{Kind: Started, Task: x.spec.Task, At: x.at, Held: x.held})
		}
		x.mu.Unlock()
	}
	for _, t := range e.taken {
		sink(t.event)
	}
	sink(Event{Kind: synced})
	e.sink = sink
}

// Detach: nobody hears any more. What is not acknowledged is on disk when it returns.
func (e *Engine) Detach() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sink = nil
	e.keep()
}

// keep brings every end that nobody has acknowledged to disk, and tells whether that succeeded.
// Called with e.mu held.
func (e *Engine) keep() bool {
	var err error
	for _, t := range e.taken {
		if err = e.ends.add(t.event); err != nil {
			break
		}
	}
	err = errors.Join(err, e.ends.sync())
	if err != nil && !e.sick {
		e.warn("ends of tasks cannot be kept on disk, this is tried again: " + err.Error())
	}
	e.sick = err != nil
	return !e.sick
}

func (e *Engine) warn(s string) {
	if e.cfg.Warn != nil {
		e.cfg.Warn(s)
	}
}

// Configure sets the cap of output and the grace of stops, for what comes.
func (e *Engine) Configure(logCap int64, grace time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if logCap > 0 {
		e.cfg.LogCap = logCap
	}
	if grace > 0 {
		e.cfg.Grace = grace
	}
}

func (e *Engine) limits() (logCap int64, grace time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cfg.LogCap, e.cfg.Grace
}

// running are the tasks that are not over.
func (e *Engine) running() map[string]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make(map[string]bool, len(e.procs))
	for task := range e.procs {
		all[task] = true
	}
	return all
}

// Idle tells whether nothing runs and, if nobody hears, all there is to say is on disk.
func (e *Engine) Idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.procs) == 0 && (e.sink != nil || e.keep())
}

// Ack: the listener has the ends of these tasks on disk.
func (e *Engine) Ack(tasks []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range tasks {
		if t, ok := e.taken[id]; ok {
			delete(e.taken, id)
			e.records.remove(t.slot)
			e.ends.gone(id)
		}
	}
}
