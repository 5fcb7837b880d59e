package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/coveyproject/covey/node/runner/sandbox"
)

var errNoGroup = errors.New("it must not run without a control group of its own, and none can be made here")

// proc is one process that is not over. mu guards what may change.
type proc struct {
	spec    Spec
	mu      sync.Mutex
	p       process // nil: not started yet
	out     *output
	in      *input // nil: its stdin is empty
	slot    int
	at      int64
	held    sandbox.Confined
	group   *sandbox.Group // nil: it is in none
	began   time.Time      // with the monotonic clock's reading
	stop    string
	timeout bool
	ended   bool
	waiting *time.Timer // timeout or grace
}

// Start runs a process. One that is here already is left alone, and after Close none starts.
func (e *Engine) Start(s Spec) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t, over := e.taken[s.Task]
	switch {
	case over && e.sink != nil: // not twice: its end is told again
		e.sink(t.event)
	case over:
	default:
		e.begin(s)
	}
}

// begin is called with e.mu held.
func (e *Engine) begin(s Spec) {
	if _, here := e.procs[s.Task]; here || e.shut {
		return
	}
	e.sweeper.again(s.Task)
	x := &proc{spec: s, slot: -1}
	e.procs[s.Task] = x
	e.queue = append(e.queue, x)
	e.queued.Signal()
}

// forker starts processes, one after the other. There are a few, so that a program on a disk that
// hangs does not hold up all others.
func (e *Engine) forker() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		for len(e.queue) == 0 {
			if e.shut {
				return
			}
			e.queued.Wait()
		}
		x := e.queue[0]
		e.queue[0] = nil
		e.queue = e.queue[1:]
		e.mu.Unlock()
		e.fork(x)
		e.mu.Lock()
	}
}

// fork starts the process, or reports why it could not.
func (e *Engine) fork(x *proc) {
	x.mu.Lock()
	stop := x.stop
	x.mu.Unlock()
	if stop != "" {
		e.over(x, Event{Kind: Ended, Task: x.spec.Task, At: now(), Reason: stop, Unbegun: true})
		return
	}
	if err := e.refusedLately(); err != nil {
		e.over(x, refused(x.spec.Task, err))
		return
	}
	c := e.capOf(x.spec)
	out, err := openOutput(x.spec.Home, c)
	if err != nil {
		e.over(x, refused(x.spec.Task, err))
		return
	}
	if err := out.give(x.spec.Box); err != nil {
		out.close()
		e.over(x, refused(x.spec.Task, err))
		return
	}
	rec, err := e.records.begin(x.spec.Task, c)
	if err != nil { // it could not be told from one that never started, should this process be killed
		out.close()
		e.over(x, refused(x.spec.Task, fmt.Errorf("it cannot be noted that it runs: %w", err)))
		return
	}
	x.slot = rec.slot
	in, stdin, err := e.input(x.spec)
	if err != nil {
		out.close()
		e.over(x, refused(x.spec.Task, err))
		return
	}
	if wants, must := x.spec.Box.Grouped(); wants {
		if x.group = e.cfg.Groups.Acquire(); x.group == nil && must {
			out.close()
			in.passedOn(stdin)
			in.close()
			e.over(x, refused(x.spec.Task, errNoGroup))
			return
		}
	}
	out.refuse = x.spec.Box.FileSize()
	began := time.Now()
	p, err := spawn(spec{
		task: x.spec.Task, path: x.spec.Path, argv: x.spec.Argv, env: x.spec.Env, dir: x.spec.Dir, stdin: stdin, stdout: out.files[0].f, stderr: out.files[1].f,
		box: x.spec.Box, group: x.group,
	})
	in.passedOn(stdin)
	if err != nil {
		x.group.Kill()
		out.close()
		in.close()
		if _, own := x.spec.Box.Limit(sandbox.LimitProcesses); !own { // by which it may be refused on a healthy machine
			e.noteRefusal(err)
		}
		e.over(x, refused(x.spec.Task, err))
		return
	}
	x.in = in // before anybody sees its end
	e.forked(x, p, out, rec, began)
	e.feed(x)
	e.follow(x, p)
}

// refusal is the newest error by which the system refused a process. What is to be started within
// refusalAge is not tried: a Go program that is refused a thread ends, and every try may need one.
type refusal struct {
	err error
	at  time.Time
}

const refusalAge = 250 * time.Millisecond

func (e *Engine) noteRefusal(err error) {
	if Exhausted(err) {
		e.mu.Lock()
		e.spent = refusal{err, time.Now()}
		e.mu.Unlock()
	}
}

func (e *Engine) refusedLately() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.spent.err != nil && time.Since(e.spent.at) < refusalAge {
		return e.spent.err
	}
	return nil
}

// spareThreads is how many threads a supervisor makes when it begins, before its tasks take all
// that it may have.
const spareThreads = 8

// makeThreads has the runtime make n threads, which it keeps.
func makeThreads(n int) {
	var all sync.WaitGroup
	all.Add(n)
	for range n {
		go func() { // ends when all n have a thread
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			all.Done()
			all.Wait()
		}()
	}
	all.Wait()
}

func (e *Engine) capOf(s Spec) outputCap {
	limit, _ := e.limits()
	if s.Cap > 0 {
		limit = s.Cap
	}
	return outputCap{limit: limit, newest: s.Newest}
}

// forked takes note of a process on disk and in x. A stop that came meanwhile is obeyed here.
func (e *Engine) forked(x *proc, c *child, out *output, rec record, began time.Time) {
	var deadline int64
	if d := x.spec.Timeout; d > 0 {
		deadline = sinceBoot() + d.Milliseconds()
	}
	if rec.held = c.held; rec.held&sandbox.ConfinedGroup != 0 {
		rec.group = x.group.N
	}
	e.records.started(rec, c.pid, deadline)
	_, grace := e.limits() // before x.mu: Attach takes the locks in that order
	x.mu.Lock()
	x.p, x.out, x.held, x.began = c, out, c.held, began
	x.at = began.UnixMilli()
	if x.stop != "" {
		c.signal(sigTerm)
		e.kill(x, grace)
	} else if x.spec.Timeout > 0 {
		x.waiting = time.AfterFunc(x.spec.Timeout, func() { e.timeUp(x) })
	}
	x.mu.Unlock()
	e.tell(Event{Kind: Started, Task: x.spec.Task, At: x.at, Held: x.held})
}

func (e *Engine) follow(x *proc, c *child) {
	e.all.Add(1)
	if e.reaper.follow(c, func() { e.ended(x, c.reap(nil)); e.all.Done() }) {
		e.wake.Set()
		return
	}
	e.all.Done()
	e.await(x)
}

// await sees a process to its end that nobody can follow without waiting for it.
func (e *Engine) await(x *proc) {
	e.wake.Set()
	e.all.Go(func() { e.ended(x, x.p.wait()) })
}

func (e *Engine) ended(x *proc, how ending) {
	ev := Event{Kind: Ended, Task: x.spec.Task, At: now(), Exit: how.exit, Signal: how.signal, Alone: how.alone}
	x.group.Kill()
	short := e.shortage() // before x.mu: Attach takes the locks in that order
	x.mu.Lock()
	x.ended = true
	ev.Took = took(x.began)
	if x.waiting != nil {
		x.waiting.Stop()
	}
	ev.Reason, ev.Timeout, ev.Held = x.stop, x.timeout, x.held
	x.in.close()
	if x.out != nil {
		x.out.secure(short)
		if how.signal == sigFileSize { // the task was not let go on as if all had been written
			x.out.refuse = 0
		}
	}
	if how.err != nil {
		ev.Unseen, ev.Err = true, how.err.Error()
	}
	if x.out != nil {
		end, err := x.out.finish(x.spec.Task)
		ev.Sizes, ev.Cut = end.sizes, end.cut
		if err != nil {
			e.warn("output of task " + x.spec.Task + " could not be completed: " + err.Error())
			ev.Errno = int(lossOf(err))
		}
	}
	x.mu.Unlock()
	e.over(x, ev)
}

// took is how long ago something began, in milliseconds: at least one, as 0 says that it is not
// known.
func took(began time.Time) int64 {
	if began.IsZero() {
		return 0
	}
	return max(1, time.Since(began).Milliseconds())
}

// over hands out the end of a task. Nobody may be there to hear of it, so its secrets go here.
func (e *Engine) over(x *proc, ev Event) {
	if err := removeSecrets(x.spec.Secrets); err != nil {
		e.warn("secrets of task " + x.spec.Task + " could not be removed: " + err.Error())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.procs, x.spec.Task)
	if !ev.Unbegun && ev.Kind == Ended {
		e.sweeper.over(x.spec.Task)
	}
	e.taken[x.spec.Task] = unackedEnd{event: ev, slot: x.slot}
	if e.sink != nil {
		e.sink(ev)
	} else {
		e.keep()
	}
}

// removeSecrets removes a folder of secrets, which nobody may write to; none is none.
func removeSecrets(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.Chmod(dir, 0o700); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.RemoveAll(dir)
}

func (e *Engine) tell(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sink != nil {
		e.sink(ev)
	}
}
