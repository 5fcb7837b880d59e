package sim

import (
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// proc is a running task: a process of its own, or, inside, a part of the peer's.
type proc struct {
	p      *peer
	launch taskstate.Launch
	life   *life // who hears of its end
	inside bool
	halted bool
	why    taskstate.Reason // it was
	since  time.Duration
}

// running lists the tasks that run on the machine.
func (p *peer) running() []taskstate.TaskID {
	ids := make([]taskstate.TaskID, 0, len(p.procs))
	for id := range p.procs {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, taskstate.TaskID.Compare)
	return ids
}

// start is the runner's Start.
func (l *life) start(launch taskstate.Launch) {
	w, p := l.w, l.p
	if !l.guard(&launch) {
		return
	}
	r := &proc{p: p, launch: launch, life: l, inside: launch.Job.Resources == (taskstate.Resources{}), since: w.now()}
	if w.tracing() {
		w.tracef("%s starts %s of epoch %s", p.id, launch.Task, launch.Epoch)
	}
	w.check.started(l, r)
	if p.filled > 0 {
		w.fail("I9", "%s starts %s, and its disk is full", p.id, launch.Task)
	}
	p.procs[launch.Task] = r
	p.begun[launch.Task] = true
	w.stats.Tasks++
	p.started = w.now()
	need := w.load.runs(&launch)
	if w.saysItRuns(need) {
		l.after(w.ms(0, 40), func() {
			if p.procs[launch.Task] == r && r.life == l {
				l.ran(taskstate.RunReport{Task: launch.Task, State: taskstate.Running, Exit: taskstate.NoExit})
			}
		})
	}
	if need.ever {
		return
	}
	if need.long {
		w.load.long = append(w.load.long, func() { w.after(w.ms(0, 2000), func() { p.finish(r, need.exit) }) })
		if !w.load.released {
			return
		}
	}
	w.after(need.time+w.ms(0, 20), func() { p.finish(r, need.exit) })
}

// truncatedEvery: of so many tasks that end by themselves one has written more than is kept.
const truncatedEvery = 5

// brief is how long a task may go on without saying that it runs: news of a start may be held back
// until the end is known, too.
const brief = 50 * time.Millisecond

// saysItRuns tells whether anybody hears that a task runs before it has ended.
func (w *world) saysItRuns(n need) bool {
	return n.long || n.ever || n.time > brief || n.time > 0 && w.chance(0.8)
}

// finish is a process that ends by itself.
func (p *peer) finish(r *proc, exit int) {
	if p.procs[r.launch.Task] != r {
		return
	}
	delete(p.procs, r.launch.Task)
	rep := taskstate.RunReport{Task: r.launch.Task, State: taskstate.Complete, Exit: exit, Took: r.ran(p.w)}
	if exit != 0 {
		rep.State, rep.Reason = taskstate.Failed, taskstate.ReasonExit
	}
	rep.Held = taskstate.ConfinedKnown | taskstate.Confined(r.launch.Task.Slot%3)<<1
	rep.Truncated = (r.launch.Task.Slot+r.launch.Task.Attempt)%truncatedEvery == 0
	switch {
	case !r.launch.Job.Saves():
		p.output(r.launch.Task, &rep)
		p.w.check.ended(r, rep)
	case r.halted: // by itself, before it was stopped
		rep.State, rep.Reason = taskstate.Shutdown, r.why
		p.w.check.ended(r, rep)
	default:
		p.w.check.files.done[r.launch.Task] = true
		p.leaves(r.launch.Task, r.launch.Job)
	}
	p.tell(r, rep)
}

// ran is how long a process has run, in milliseconds.
func (r *proc) ran(w *world) int64 { return (w.now() - r.since).Milliseconds() }

// tell keeps an end and brings it to the worker that started the task or has taken it up, if there
// is one.
func (p *peer) tell(r *proc, rep taskstate.RunReport) {
	p.reports[rep.Task] = rep
	if l := r.life; l != nil && !l.dead {
		rep.At = p.wall().UnixMilli()
		l.after(0, func() { l.ended(r.launch, rep) })
	}
}

func (l *life) ran(rep taskstate.RunReport) {
	if l.w.tracing() {
		l.w.tracef("%s: %s is %s %s", l.p.id, rep.Task, rep.State, rep.Reason)
	}
	l.worker.Ran(l.p.wall(), rep)
	l.renew()
}

// halt is the runner's Stop.
func (l *life) halt(s session.Stop) {
	w, p := l.w, l.p
	if x := l.saving[s.Task]; x != nil {
		x.stop(s.Reason)
	}
	r := p.procs[s.Task]
	if r == nil || r.halted {
		return
	}
	r.halted, r.why = true, s.Reason
	if w.tracing() {
		w.tracef("%s stops %s: %s", p.id, s.Task, s.Reason)
	}
	if w.cfg.Break == BreakDeaf {
		return
	}
	w.after(w.ms(0, 300), func() {
		if p.procs[s.Task] != r {
			return
		}
		delete(p.procs, s.Task)
		rep := taskstate.RunReport{Task: s.Task, State: taskstate.Shutdown, Exit: taskstate.NoExit, Reason: s.Reason, Took: r.ran(w)}
		w.check.ended(r, rep)
		p.tell(r, rep)
	})
}

// lose ends a process whose end nobody will hear of.
func (p *peer) lose(r *proc) {
	delete(p.procs, r.launch.Task)
	p.w.check.ended(r, taskstate.RunReport{Task: r.launch.Task, State: taskstate.Orphaned, Exit: taskstate.NoExit})
}

// adopt is the runner's Adopt: what runs goes on, what ended meanwhile is told. After that nothing
// may run that the worker does not know of.
func (l *life) adopt(tasks []taskstate.Launch) (lost []taskstate.Loss) {
	p := l.p
	for _, t := range tasks {
		r, runs := p.procs[t.Task]
		rep, over := p.reports[t.Task]
		p.w.check.files.takesUp(l, &t)
		switch {
		case t.Ended != nil && p.w.cfg.Break == BreakRunAgain:
			l.after(0, func() { l.start(t) })
		case t.Ended != nil && p.w.cfg.Break == BreakDropSaving:
			lost = append(lost, taskstate.Loss{Task: t.Task})
		case t.Ended != nil:
			l.save(t, endOf(*t.Ended))
		case runs:
			r.life, r.halted = l, false
			l.after(0, func() { l.ran(taskstate.RunReport{Task: t.Task, State: taskstate.Running, Exit: taskstate.NoExit}) })
		case over:
			rep.At = p.wall().UnixMilli()
			l.after(0, func() { l.ended(t, rep) })
		default:
			lost = append(lost, taskstate.Loss{Task: t.Task, Never: !l.rebooted && !p.begun[t.Task]})
		}
	}
	p.endUnknown()
	for _, id := range p.running() {
		if p.procs[id].life != l {
			p.w.fail("I4", "%s starts again and does not know that %v runs", p.id, id)
		}
	}
	return lost
}
