package stack

import (
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// runner is what runs tasks on one machine: it lets time pass. Its tasks outlive a killed process,
// as real ones do, until the next one takes them up, or the power goes.
type runner struct {
	l    *life
	sink func(taskstate.RunReport)

	mu   sync.Mutex
	more sync.Cond
	next []taskstate.RunReport
	shut bool
	done chan struct{}
}

type proc struct {
	p      *peer
	launch taskstate.Launch
	since  time.Duration
	timer  *time.Timer
	by     *runner
}

func newRunner(l *life, sink func(taskstate.RunReport)) *runner {
	r := &runner{l: l, sink: sink, done: make(chan struct{})}
	r.more.L = &r.mu
	go r.deliver() // ends with Close
	return r
}

// deliver hands over reports, in order.
func (r *runner) deliver() {
	defer close(r.done)
	for {
		r.mu.Lock()
		for len(r.next) == 0 && !r.shut {
			r.more.Wait()
		}
		if len(r.next) == 0 {
			r.mu.Unlock()
			return
		}
		batch := r.next
		r.next = nil
		r.mu.Unlock()
		for _, rep := range batch {
			if !r.l.killed() {
				r.sink(rep)
			}
		}
	}
}

func (r *runner) report(rep taskstate.RunReport) {
	rep.At = time.Now().UnixMilli()
	r.mu.Lock()
	r.next = append(r.next, rep)
	r.mu.Unlock()
	r.more.Signal()
}

// Start implements node.Runner.
func (r *runner) Start(l taskstate.Launch) {
	if r.l.killed() {
		return
	}
	p := r.l.p
	x := &proc{p: p, launch: l, since: p.w.now(), by: r}
	if l.Job.Saves() {
		if err := r.l.writes(l.Task); err != nil {
			p.w.tellf("%s cannot write its files: %v", l.Task, err)
		}
	}
	p.mu.Lock()
	p.procs[l.Task] = x
	p.begun[l.Task] = true
	x.timer = time.AfterFunc(time.Duration(l.Job.Run.Noop.Duration)*time.Millisecond, func() { p.ends(x, exitOf(l.Task)) })
	p.mu.Unlock()
	p.w.check.started(x)
	if p.w.cfg.Break == BreakTwice && l.Job.Unreachable.Wait && l.Task.Slot == 2 {
		again := *x
		again.launch.Task.Attempt++
		p.w.check.started(&again)
	}
	r.report(taskstate.RunReport{Task: l.Task, State: taskstate.Running, Exit: taskstate.NoExit})
}

// exitOf says how a task ends: one slot in ten fails, on whatever peer it runs.
func exitOf(t taskstate.TaskID) int {
	h := fnv.New32a()
	h.Write([]byte(t.Job))
	h.Write([]byte{byte(t.Slot)})
	if h.Sum32()%10 == 0 {
		return 3
	}
	return 0
}

func (p *peer) ends(x *proc, exit int) {
	if !p.take(x) {
		return
	}
	state := taskstate.Complete
	if exit != 0 {
		state = taskstate.Failed
	}
	p.told(x, taskstate.RunReport{Task: x.launch.Task, State: state, Exit: exit})
}

// told keeps the end of a task and reports it to the life that has it.
func (p *peer) told(x *proc, rep taskstate.RunReport) {
	p.mu.Lock()
	p.said[rep.Task] = rep
	by := x.by
	p.mu.Unlock()
	by.report(rep)
}

// take makes the caller the one that ends x.
func (p *peer) take(x *proc) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.procs[x.launch.Task] != x {
		return false
	}
	delete(p.procs, x.launch.Task)
	x.timer.Stop()
	return true
}

// Stop implements node.Runner.
func (r *runner) Stop(t taskstate.TaskID, reason taskstate.Reason) {
	p := r.l.p
	p.mu.Lock()
	x := p.procs[t]
	p.mu.Unlock()
	if p.w.cfg.Break == BreakDeaf && x != nil {
		x.timer.Reset(2 * restWithin)
		return
	}
	if x != nil && x.by == r && !r.l.killed() && p.take(x) {
		p.told(x, taskstate.RunReport{Task: t, State: taskstate.Shutdown, Exit: taskstate.NoExit, Reason: reason, Message: "stopped: " + string(reason)})
	}
}

// Adopt implements node.Runner: what runs on goes on for this life, what ended meanwhile is told,
// the rest never ran or is lost.
func (r *runner) Adopt(tasks []taskstate.Launch) (lost []taskstate.Loss) {
	p := r.l.p
	p.mu.Lock()
	var told []taskstate.RunReport
	wanted := map[taskstate.TaskID]bool{}
	for _, l := range tasks {
		wanted[l.Task] = true
		x, end := p.procs[l.Task], p.said[l.Task]
		switch {
		case x != nil:
			x.by = r
			told = append(told, taskstate.RunReport{Task: l.Task, State: taskstate.Running, Exit: taskstate.NoExit})
		case end.State != 0:
			told = append(told, end)
		default:
			lost = append(lost, taskstate.Loss{Task: l.Task, Never: !p.begun[l.Task] && !p.rebooted})
		}
	}
	p.rebooted = false
	for id, x := range p.procs { // of a journal that is lost
		if x.by != r && !wanted[id] {
			x.timer.Stop()
			delete(p.procs, id)
		}
	}
	p.mu.Unlock()
	for _, rep := range told {
		r.report(rep)
	}
	return lost
}

// Kept implements node.Runner.
func (r *runner) Kept(tasks []taskstate.TaskID) {
	p := r.l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range tasks {
		delete(p.said, t)
	}
}

// Clean implements node.Runner: nothing is left behind.
func (r *runner) Clean(taskstate.JobID) error { return nil }

// Lasting implements node.Runner.
func (r *runner) Lasting() bool { return true }

// Live implements node.Runner: nothing here writes.
func (r *runner) Live(taskstate.TaskID) (<-chan struct{}, int64, bool) {
	return nil, 0, false
}

// Close implements node.Runner: what runs goes on.
func (r *runner) Close() error {
	r.mu.Lock()
	r.shut = true
	r.mu.Unlock()
	r.more.Broadcast()
	<-r.done
	return nil
}

// endAll ends whatever runs: the power is gone.
func (p *peer) endAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, x := range p.procs {
		x.timer.Stop()
		delete(p.procs, id)
	}
	clear(p.said)
	clear(p.begun)
	p.rebooted = true
}

func (p *peer) running() (tasks []taskstate.TaskID, need taskstate.Resources) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, x := range p.procs {
		tasks = append(tasks, id)
		need = need.Add(x.launch.Job.Resources)
	}
	slices.SortFunc(tasks, taskstate.TaskID.Compare)
	return tasks, need
}
