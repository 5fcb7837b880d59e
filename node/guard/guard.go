package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/runner"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/audit"
	"github.com/coveyproject/covey/trust/policy"
)

// BehindFor is how long a task that the policy does not let in waits for this peer's copy of the
// ledger: who asks may just have been admitted.
const BehindFor = 10 * time.Second

// ErrUnsure is of a task that this peer's copy of the ledger does not bear out. One that is behind
// what the task rests on may do so when it has come there, and is waited for as long as that takes:
// meanwhile whoever gave the task out can take it back.
var ErrUnsure = errors.New("the coordinator gives out what this peer's copy of the ledger does not bear out")

// Runner is what runs tasks.
type Runner interface {
	runner.Executor
	Lasting() bool
}

// Config is what guarding rests on.
type Config struct {
	Self   taskstate.PeerID
	Sink   func(taskstate.RunReport) // hears what becomes of tasks; must not block
	Policy func() policy.Policy      // in force
	// Asks tells whose job a task is of, and whether that key signed it. An error is that it is not
	// what its signature says.
	Asks  func(*taskstate.Launch) (by taskstate.PeerID, signed bool, err error)
	Roles func(taskstate.PeerID) []admission.Role // that people gave a key
	Void  func(taskstate.PeerID) bool             // whether a key was revoked; optional
	// Applied is how far this peer's copy of the ledger is. Optional.
	Applied func() uint64
	// Audit has what was decided about tasks. Optional.
	Audit *audit.Log
}

// Guard is a runner that starts what its machine's owner allows. Its methods may be called by
// anybody at any time.
type Guard struct {
	Runner
	cfg    Config
	judged *judgements
	ctx    context.Context // ends with Close
	end    context.CancelFunc
	all    sync.WaitGroup

	mu      sync.Mutex
	runs    map[taskstate.TaskID]running // let in, and not ended
	of      map[taskstate.PeerID]policy.Load
	waiting []taskstate.Launch // above a limit, the oldest first
	behind  []*late            // wait for this peer's copy of the ledger, the oldest first
	// catching is that catchUp runs.
	catching bool
	// moving are those that waited and are on their way to the runner, which does not know them
	// yet, each with why it was stopped meanwhile.
	moving map[taskstate.TaskID]taskstate.Reason
}

// running is a task that was let in.
type running struct {
	by     taskstate.PeerID
	signed bool
	job    *taskstate.Job
	// revoked is that it was told to end, as its key is not let in any more.
	revoked bool
}

// New wraps the runner that run makes, which is given where to report to.
func New(cfg Config, run func(sink func(taskstate.RunReport)) (Runner, error)) (*Guard, error) {
	g := &Guard{
		cfg: cfg, judged: &judgements{log: cfg.Audit}, runs: map[taskstate.TaskID]running{}, of: map[taskstate.PeerID]policy.Load{},
		moving: map[taskstate.TaskID]taskstate.Reason{},
	}
	g.ctx, g.end = context.WithCancel(context.Background())
	r, err := run(g.report)
	if err != nil {
		return nil, err
	}
	g.Runner = r
	return g, nil
}

// claim words what a task asks for.
func (g *Guard) claim(r running) policy.Claim {
	c := policy.ClaimOf(r.job)
	c.On, c.By, c.Signed, c.Roles = g.cfg.Self, r.by, r.signed, g.cfg.Roles(r.by)
	return c
}

// MaxKept is how many bytes the rule that a job comes under lets be kept of what tasks of its key
// left; 0: as many as there is room for.
func (g *Guard) MaxKept(job *taskstate.Job) int64 {
	c := policy.ClaimOf(job)
	if r := policy.Match(g.cfg.Policy(), g.claim(running{job: job, by: c.By, signed: c.Signed})); r != nil {
		return r.Limits.Disk
	}
	return 0
}

// late is a task that waits for this peer's copy of the ledger.
type late struct {
	taskstate.Launch
	since time.Time
	limit time.Duration // how long it waits; 0: as long as it takes
}

// Start implements worker.Runner.
func (g *Guard) Start(l taskstate.Launch) { g.start(l, g.isBehind(&l)) }

// isBehind tells whether what a task rests on may not have come to this peer's copy of the ledger.
func (g *Guard) isBehind(l *taskstate.Launch) bool {
	return g.cfg.Applied != nil && g.cfg.Applied() < l.Index
}

// start lets a task in, or not. One that is refused while this peer is behind is asked about again.
func (g *Guard) start(l taskstate.Launch, again bool) {
	r := running{job: l.Job}
	behind := g.isBehind(&l) // first: what comes meanwhile is not missed
	var err error
	if r.by, r.signed, err = g.cfg.Asks(&l); err != nil {
		if behind && errors.Is(err, ErrUnsure) {
			g.wait(&late{Launch: l, since: time.Now()})
			return
		}
		if g.gone(l.Task) {
			return
		}
		g.judged.note(&l, r.by, policy.Reason{Text: err.Error()})
		g.refuse(l.Task, err.Error())
		return
	}
	claim := g.claim(r)
	g.mu.Lock()
	held, why := policy.Decide(g.cfg.Policy(), claim, g.of[r.by])
	if why.Full {
		stopped := g.moving[l.Task]
		delete(g.moving, l.Task)
		if stopped == "" {
			g.waiting = append(g.waiting, l)
		}
		g.mu.Unlock()
		if stopped != "" {
			g.shutDown(l.Task, stopped)
		}
		return
	}
	if why.No() {
		g.mu.Unlock()
		switch {
		case again:
			g.wait(&late{Launch: l, since: time.Now(), limit: BehindFor})
		case g.gone(l.Task):
		default:
			g.judged.note(&l, r.by, why)
			g.refuse(l.Task, why.Text)
		}
		return
	}
	g.add(l.Task, r)
	g.mu.Unlock()
	g.judged.note(&l, r.by, why)
	l.Confinement = &held
	if t := held.MaxTime; t > 0 && (l.Job.Timeout == 0 || l.Job.Timeout > t) {
		shorter := *l.Job
		shorter.Timeout = t
		l.Job = &shorter
	}
	g.Runner.Start(l)
	if reason := g.arrived(l.Task); reason != "" {
		g.Runner.Stop(l.Task, reason)
	}
}

// arrived says that a task is on its way no more, and why it was stopped meanwhile, if it was.
func (g *Guard) arrived(t taskstate.TaskID) taskstate.Reason {
	g.mu.Lock()
	defer g.mu.Unlock()
	reason := g.moving[t]
	delete(g.moving, t)
	return reason
}

// gone reports a task that is not let in as stopped, if it was told to stop on its way.
func (g *Guard) gone(t taskstate.TaskID) bool {
	reason := g.arrived(t)
	if reason != "" {
		g.shutDown(t, reason)
	}
	return reason != ""
}

// wait has a task asked about again when this peer's copy of the ledger has come to where it was
// given.
func (g *Guard) wait(l *late) {
	g.mu.Lock()
	stopped := g.moving[l.Task]
	delete(g.moving, l.Task)
	if stopped == "" {
		g.behind = append(g.behind, l)
		if !g.catching && g.ctx.Err() == nil {
			g.catching = true
			g.all.Go(g.catchUp)
		}
	}
	g.mu.Unlock()
	if stopped != "" {
		g.shutDown(l.Task, stopped)
	}
}

// catchUp asks about what waits for this peer's copy of the ledger, until nothing does. It looks
// often for what has just come: that copy is mostly some milliseconds behind.
func (g *Guard) catchUp() {
	const shortest, longest = 2 * time.Millisecond, 100 * time.Millisecond
	for step := shortest; pause.For(g.ctx, step) == nil; {
		var due []*late
		now := time.Now()
		step = longest
		g.mu.Lock()
		g.behind = slices.DeleteFunc(g.behind, func(l *late) bool {
			waited := now.Sub(l.since)
			if g.isBehind(&l.Launch) && (l.limit == 0 || waited < l.limit) {
				step = min(step, max(waited/2, shortest))
				return false
			}
			due = append(due, l)
			g.moving[l.Task] = taskstate.ReasonNone
			return true
		})
		done := len(g.behind) == 0
		g.catching = !done
		g.mu.Unlock()
		for _, l := range due {
			g.start(l.Launch, false)
		}
		if done {
			return
		}
	}
}

// refuse reports a task that does not run.
func (g *Guard) refuse(t taskstate.TaskID, why string) {
	g.cfg.Sink(taskstate.RunReport{
		Task: t, State: taskstate.Rejected, Reason: taskstate.ReasonPolicy, Exit: taskstate.NoExit, Message: why, At: time.Now().UnixMilli(),
	})
}

// add notes what a key has here. The lock is held.
func (g *Guard) add(t taskstate.TaskID, r running) {
	if _, twice := g.runs[t]; twice {
		return
	}
	g.runs[t] = r
	load := g.of[r.by]
	load.Tasks++
	load.Resources = load.Resources.Add(r.job.Resources)
	g.of[r.by] = load
}

// over forgets a task that has ended, and gives what waited for that, in order. The lock is held.
func (g *Guard) over(t taskstate.TaskID) []taskstate.Launch {
	r, ok := g.runs[t]
	if !ok {
		return nil
	}
	delete(g.runs, t)
	load := g.of[r.by]
	load.Tasks--
	load.Resources = load.Resources.Sub(r.job.Resources)
	g.of[r.by] = load
	if load.Tasks == 0 {
		delete(g.of, r.by)
	}
	return g.takeWaiting()
}

// takeWaiting gives all that waits, to be looked at anew. The lock is held.
func (g *Guard) takeWaiting() []taskstate.Launch {
	next := g.waiting
	g.waiting = nil
	for _, l := range next {
		g.moving[l.Task] = taskstate.ReasonNone
	}
	return next
}

// report takes in what the runner says.
func (g *Guard) report(r taskstate.RunReport) {
	if !r.State.Final() {
		g.cfg.Sink(r)
		return
	}
	g.mu.Lock()
	next := g.over(r.Task)
	g.mu.Unlock()
	g.cfg.Sink(r)
	for _, l := range next {
		g.start(l, false)
	}
}

// Stop implements worker.Runner.
func (g *Guard) Stop(id taskstate.TaskID, reason taskstate.Reason) {
	g.mu.Lock()
	n := len(g.waiting) + len(g.behind)
	g.waiting = slices.DeleteFunc(g.waiting, func(l taskstate.Launch) bool { return l.Task == id })
	g.behind = slices.DeleteFunc(g.behind, func(l *late) bool { return l.Task == id })
	here := len(g.waiting)+len(g.behind) < n
	_, moving := g.moving[id]
	if moving && g.moving[id] == "" {
		g.moving[id] = reason
	}
	g.mu.Unlock()
	switch {
	case moving: // whoever moves it sees to it
	case here:
		g.shutDown(id, reason)
	default:
		g.Runner.Stop(id, reason)
	}
}

// shutDown reports a task that was stopped before the runner had it.
func (g *Guard) shutDown(id taskstate.TaskID, reason taskstate.Reason) {
	g.cfg.Sink(taskstate.RunReport{Task: id, State: taskstate.Shutdown, Reason: reason, Exit: taskstate.NoExit, Message: "stopped before it started", At: time.Now().UnixMilli()})
}

// Adopt implements worker.Runner. What runs was let in by an earlier life; Review looks at it
// again.
func (g *Guard) Adopt(tasks []taskstate.Launch) []taskstate.Loss {
	g.mu.Lock()
	for i := range tasks {
		l := &tasks[i]
		r := running{job: l.Job}
		r.by, r.signed, _ = g.cfg.Asks(l)
		g.add(l.Task, r)
	}
	g.mu.Unlock()
	lost := g.Runner.Adopt(tasks)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range lost {
		g.over(l.Task)
	}
	return lost
}

// By is who signed what a task runs, as it was found when it was let in: what the ledger has of its
// job by now may be of somebody else. An error is that it has ended, or that nobody did.
func (g *Guard) By(t taskstate.TaskID) (taskstate.PeerID, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch r, runs := g.runs[t]; {
	case !runs:
		return "", fmt.Errorf("%s has ended", t)
	case !r.signed:
		return "", errors.New("nobody signed its job")
	default:
		return r.by, nil
	}
}

// Review stops what runs here and is no longer let in, and looks anew at what waits. It is called
// when the policy has changed, or what keys may do.
func (g *Guard) Review() {
	g.mu.Lock()
	next := g.takeWaiting()
	g.mu.Unlock()
	for _, l := range next {
		g.start(l, false)
	}
	p := g.cfg.Policy()
	if p.Finish {
		return
	}
	g.mu.Lock()
	claims := make(map[taskstate.TaskID]running, len(g.runs))
	for t, r := range g.runs {
		claims[t] = r
	}
	g.mu.Unlock()
	for t, r := range claims {
		why := r.ends(p, g.claim(r))
		if g.cfg.Void != nil && g.cfg.Void(r.by) {
			why = policy.Reason{Text: "the key that ordered it was revoked"}
		}
		if why.No() {
			g.revoke(t, r, why)
			g.Runner.Stop(t, taskstate.ReasonPolicy)
		}
	}
}

// revoke writes down, once, that what runs is told to end.
func (g *Guard) revoke(t taskstate.TaskID, r running, why policy.Reason) {
	g.mu.Lock()
	now, runs := g.runs[t]
	if runs {
		again := now.revoked
		now.revoked = true
		g.runs[t] = now
		runs = !again
	}
	g.mu.Unlock()
	if runs {
		g.cfg.Audit.Write(audit.Record{What: audit.OrderStopped, By: r.by, Job: string(t.Job), Task: t.String(), Detail: why.Text})
	}
}

// ends is why what runs may not go on: nobody lets its key in for this. What it was held to when it
// started cannot change any more.
func (r *running) ends(p policy.Policy, c policy.Claim) policy.Reason {
	p.Rules = slices.Clone(p.Rules)
	for i := range p.Rules {
		p.Rules[i].Limits = policy.Limits{}
	}
	_, why := policy.Decide(p, c, policy.Load{})
	return why
}

// Has tells what tasks of a key hold here.
func (g *Guard) Has(by taskstate.PeerID) policy.Load {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.of[by]
}

// Close implements runner.Executor.
func (g *Guard) Close() error {
	g.mu.Lock() // nothing is begun from here on that could not be waited for
	g.end()
	g.mu.Unlock()
	err := g.Runner.Close()
	g.all.Wait()
	return err
}
