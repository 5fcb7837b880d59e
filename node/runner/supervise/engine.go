package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
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
}

// process is a started process: a child, or an orphan of an earlier supervisor.
type process interface {
	signal(syscall.Signal) bool // to its group; false: it has ended
	wait() ending               // returns when it has ended and what was left of its group is killed
}

// Engine starts processes and sees them to their end: the supervisor's inside, and all of it where there is no supervisor. Methods may be
// called by anybody; none waits for a process except Close.
type Engine struct {
	cfg     EngineConfig
	null    *os.File
	records *records
	ends    *endsFile
	forks   chan struct{} // bounds how many processes are being started at once
	wake    chan struct{} // something runs: the output must be looked at
	quit    chan struct{}
	all     sync.WaitGroup

	mu    sync.Mutex
	procs map[string]*proc // not over
	taken map[string]end   // over, not acknowledged
	sink  func(Event)      // nil: nobody is there
	flush func()           // called after sink, without a lock
	shut  bool
}

// end is an end that is not acknowledged, and the slot of its record.
type end struct {
	event Event
	slot  int
}

// proc is one process that is not over. mu guards what may change.
type proc struct {
	spec    Spec
	mu      sync.Mutex
	p       process // nil: not started yet
	out     *output
	slot    int
	at      int64
	stop    string
	timeout bool
	ended   bool
	waiting *time.Timer // timeout or grace
}

// NewEngine takes up what an earlier one left: processes that still run, and ends that nobody has acknowledged.
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
	e := &Engine{
		cfg: cfg, null: null, procs: map[string]*proc{}, taken: map[string]end{}, wake: make(chan struct{}, 1), quit: make(chan struct{}),
		forks: make(chan struct{}, 2*runtime.GOMAXPROCS(0)),
	}
	if e.records, err = openRecords(cfg.Dir); err != nil {
		return nil, fmt.Errorf("the list of running processes cannot be opened: %w", err)
	}
	var left []Event
	if e.ends, left, err = openEnds(cfg.Dir); err != nil {
		return nil, fmt.Errorf("the list of ended processes cannot be opened: %w", err)
	}
	for _, ev := range left {
		e.taken[ev.Task] = end{event: ev, slot: -1}
	}
	e.adopt()
	e.all.Go(e.watch)
	return e, nil
}

// adopt takes up the processes of .running.
func (e *Engine) adopt() {
	for _, rec := range e.records.left {
		if t, over := e.taken[rec.task]; over {
			t.slot = rec.slot
			e.taken[rec.task] = t
			continue
		}
		p, ok := findOrphan(rec)
		if !ok {
			e.taken[rec.task] = end{slot: rec.slot, event: Event{
				Kind: Lost, Task: rec.task, At: now(), Unseen: true, Rebooted: rec.boot != e.records.boot,
			}}
			continue
		}
		x := &proc{spec: Spec{Task: rec.task, Home: filepath.Join(e.cfg.Dir, strings.Replace(rec.task, ".", "/", 1))}, p: p, slot: rec.slot, at: now()}
		x.out, _ = openOutput(x.spec.Home, e.cfg.LogCap) // without, its output is not capped
		if rec.deadline > 0 {
			x.waiting = time.AfterFunc(time.Duration(max(0, rec.deadline-sinceBoot()))*time.Millisecond, func() { e.timeUp(x) })
		}
		e.procs[rec.task] = x
		e.all.Go(func() { e.await(x) })
	}
	e.records.left = nil
}

// Attach makes sink the one that hears: first of everything that runs or is over and not acknowledged, then of what happens. It is called under a lock and
// must be quick; flush is called after it, without one, and may take its time. It may be nil.
func (e *Engine) Attach(sink func(Event), flush func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.procs {
		x.mu.Lock()
		if x.p != nil {
			sink(Event{Kind: Started, Task: x.spec.Task, At: x.at})
		}
		x.mu.Unlock()
	}
	for _, t := range e.taken {
		sink(t.event)
	}
	sink(Event{Kind: synced})
	e.sink, e.flush = sink, flush
}

// Detach: nobody hears any more. What is not acknowledged is on disk when it returns.
func (e *Engine) Detach() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sink, e.flush = nil, nil
	for _, t := range e.taken {
		e.ends.add(t.event)
	}
	e.sync()
}

func (e *Engine) sync() {
	if err := e.ends.sync(); err != nil {
		e.warn("an end could not be kept on disk: " + err.Error())
	}
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

// Idle tells whether nothing runs.
func (e *Engine) Idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.procs) == 0
}

// Start runs a process. One that is here already is left alone, and after Close none starts.
func (e *Engine) Start(s Spec) {
	e.mu.Lock()
	t, over := e.taken[s.Task]
	flush := e.flush
	switch {
	case over && e.sink != nil: // not twice: its end is told again
		e.sink(t.event)
	case over:
	default:
		e.begin(s)
	}
	e.mu.Unlock()
	if over && flush != nil {
		flush()
	}
}

// begin is called with e.mu held.
func (e *Engine) begin(s Spec) {
	if _, here := e.procs[s.Task]; here || e.shut {
		return
	}
	x := &proc{spec: s, slot: -1}
	e.procs[s.Task] = x
	e.all.Go(func() { e.run(x) })
}

// run sees a process from its start to its end.
func (e *Engine) run(x *proc) {
	e.forks <- struct{}{}
	ok := e.fork(x)
	<-e.forks
	if ok {
		e.await(x)
	}
}

// fork starts the process, or reports why it could not.
func (e *Engine) fork(x *proc) bool {
	x.mu.Lock()
	stop := x.stop
	x.mu.Unlock()
	if stop != "" {
		e.over(x, Event{Kind: Ended, Task: x.spec.Task, At: now(), Reason: stop, Unbegun: true})
		return false
	}
	logCap, _ := e.limits()
	out, err := openOutput(x.spec.Home, logCap)
	if err != nil {
		e.over(x, refused(x.spec.Task, err))
		return false
	}
	rec := e.records.begin(x.spec.Task)
	x.slot = rec.slot
	c, err := spawn(spec{
		path: x.spec.Path, argv: x.spec.Argv, env: x.spec.Env, dir: x.spec.Dir, stdin: e.null, stdout: out.files[0].f, stderr: out.files[1].f,
	})
	if err != nil {
		out.close()
		e.over(x, refused(x.spec.Task, err))
		return false
	}
	e.forked(x, c, out, rec)
	return true
}

// forked takes note of a process on disk and in x. A stop that came meanwhile is obeyed here.
func (e *Engine) forked(x *proc, c *child, out *output, rec record) {
	var deadline int64
	if d := x.spec.Timeout; d > 0 {
		deadline = sinceBoot() + d.Milliseconds()
	}
	e.records.started(rec, c.pid, deadline)
	_, grace := e.limits() // before x.mu: Attach takes the locks in that order
	x.mu.Lock()
	x.p, x.out, x.at = c, out, now()
	if x.stop != "" {
		c.signal(sigTerm)
		e.kill(x, grace)
	} else if x.spec.Timeout > 0 {
		x.waiting = time.AfterFunc(x.spec.Timeout, func() { e.timeUp(x) })
	}
	x.mu.Unlock()
	e.tell(Event{Kind: Started, Task: x.spec.Task, At: x.at})
}

// await sees a process to its end.
func (e *Engine) await(x *proc) {
	select {
	case e.wake <- struct{}{}:
	default:
	}
	how := x.p.wait()
	ev := Event{Kind: Ended, Task: x.spec.Task, At: now(), Exit: how.exit, Signal: how.signal, Alone: how.alone}
	x.mu.Lock()
	x.ended = true
	if x.waiting != nil {
		x.waiting.Stop()
	}
	ev.Reason, ev.Timeout = x.stop, x.timeout
	if how.err != nil {
		ev.Unseen, ev.Err = true, how.err.Error()
	}
	if x.out != nil {
		var err error
		if ev.Sizes, err = x.out.finish(x.spec.Task); err != nil {
			e.warn("output of task " + x.spec.Task + " could not be completed: " + err.Error())
		}
	}
	x.mu.Unlock()
	e.over(x, ev)
}

// over hands out the end of a task.
func (e *Engine) over(x *proc, ev Event) {
	e.mu.Lock()
	delete(e.procs, x.spec.Task)
	e.taken[x.spec.Task] = end{event: ev, slot: x.slot}
	flush := e.flush
	if e.sink != nil {
		e.sink(ev)
	} else {
		e.ends.add(ev)
		e.sync()
	}
	e.mu.Unlock()
	if flush != nil {
		flush()
	}
}

func (e *Engine) tell(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sink != nil {
		e.sink(ev)
	}
}

// Ack: whoever hears has the ends of these tasks on disk.
func (e *Engine) Ack(tasks []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range tasks {
		if t, ok := e.taken[id]; ok {
			delete(e.taken, id)
			e.records.remove(t.slot)
		}
	}
	if len(e.taken) == 0 {
		e.ends.clear()
	}
}

// Stop ends a process: SIGTERM to its group, after the grace SIGKILL. The first reason stands.
func (e *Engine) Stop(task, reason string) {
	e.mu.Lock()
	x := e.procs[task]
	e.mu.Unlock()
	if x != nil {
		e.halt(x, reason)
	}
}

func (e *Engine) halt(x *proc, reason string) {
	_, grace := e.limits()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended || x.stop != "" || x.timeout {
		return
	}
	switch {
	case x.p == nil: // being started: fork looks
		x.stop = reason
	case x.p.signal(sigTerm):
		x.stop = reason
		e.kill(x, grace)
	}
}

// kill is called with x.mu held, after SIGTERM.
func (e *Engine) kill(x *proc, after time.Duration) {
	if x.waiting != nil {
		x.waiting.Stop()
	}
	p := x.p
	x.waiting = time.AfterFunc(after, func() { p.signal(sigKill) })
}

func (e *Engine) timeUp(x *proc) {
	_, grace := e.limits()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended || x.stop != "" || x.timeout || !x.p.signal(sigTerm) {
		return
	}
	x.timeout = true
	e.kill(x, grace)
}

// How often the size of running tasks' output is looked at: normally, and once one was over the cap.
const (
	lookEvery     = 100 * time.Millisecond
	lookEveryOver = 10 * time.Millisecond
)

// watch keeps the output of what runs within its cap. It sleeps while nothing runs.
func (e *Engine) watch() {
	clock := time.NewTimer(time.Hour)
	defer clock.Stop()
	every := time.Hour
	for {
		select {
		case <-e.quit:
			return
		case <-e.wake:
			if every > lookEvery {
				every = lookEvery
				clock.Reset(every)
			}
			continue
		case <-clock.C:
		}
		every = e.look()
		clock.Reset(every)
	}
}

// look cuts what is over the cap and says when to look again.
func (e *Engine) look() time.Duration {
	e.mu.Lock()
	procs := make([]*proc, 0, len(e.procs))
	for _, x := range e.procs {
		procs = append(procs, x)
	}
	e.mu.Unlock()
	if len(procs) == 0 {
		return time.Hour
	}
	every := lookEvery
	for _, x := range procs {
		x.mu.Lock()
		if x.out != nil && !x.ended && x.out.look() {
			every = lookEveryOver
		}
		x.mu.Unlock()
	}
	return every
}

// StopAll ends everything that runs.
func (e *Engine) StopAll(reason string) {
	e.mu.Lock()
	procs := make([]*proc, 0, len(e.procs))
	for _, x := range e.procs {
		procs = append(procs, x)
	}
	e.mu.Unlock()
	for _, x := range procs {
		e.halt(x, reason)
	}
}

// KillAll ends everything that runs, at once.
func (e *Engine) KillAll(reason string) {
	e.Configure(0, time.Nanosecond)
	e.StopAll(reason)
}

// Close lets nothing start any more, stops what runs and waits until all has ended.
func (e *Engine) Close(reason string) error {
	e.mu.Lock()
	if e.shut {
		e.mu.Unlock()
		return nil
	}
	e.shut = true
	e.mu.Unlock()
	e.StopAll(reason)
	close(e.quit)
	e.all.Wait()
	e.Detach()
	_ = e.null.Close()
	e.ends.close()
	return e.records.close()
}
