package stack

import (
	"context"
	"sync"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/taskstate"
)

// check watches everything that can be seen from outside, and compares it with what was promised.
type check struct {
	w *world

	mu      sync.Mutex
	starts  map[taskstate.TaskID]*proc
	slots   map[slot][]*proc  // that ran or run
	epochs  map[string]string // who coordinates in an epoch: peer id
	last    time.Duration     // when a task was started last
	cluster string            // its id, as its founder says
	leader  string            // id of the newest coordinator anybody named
	names   map[string]string // peer id → name
	liars   map[string]bool   // peer ids of those that pretend to hold a seat
	lies    map[told]bool     // what workers were given that the ledger does not say
}

// told is a task, and the id of the peer that was told to start it.
type told struct {
	peer string
	task taskstate.TaskID
}

type slot struct {
	job taskstate.JobID
	n   int
}

func (c *check) init(w *world) {
	*c = check{w: w, starts: map[taskstate.TaskID]*proc{}, slots: map[slot][]*proc{}, epochs: map[string]string{}, names: map[string]string{}, liars: map[string]bool{}, lies: map[told]bool{}}
}

func (c *check) coordinator() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names[c.leader]
}

// ordered is I19: somebody signed what starts, for this cluster, and the machine's policy says what
// it runs under.
func (c *check) ordered(x *proc) {
	l := x.launch
	switch c.w.cfg.Break {
	case BreakChanged:
		other := *l.Job
		other.Run.Noop = &taskstate.Noop{Duration: l.Job.Run.Noop.Duration + 1}
		l.Job = &other
	case BreakLoose:
		l.Confinement = nil
	}
	o := l.Job.Order
	if o == nil {
		c.w.fail("I19", "%s starts %s, and nobody has signed it", x.p.name, l.Task)
		return
	}
	if err := l.CheckOrder(c.clusterID(), 0, p2p.Verify); err != nil {
		c.w.fail("I19", "%s starts %s: %v", x.p.name, l.Task, err)
	}
	if !c.w.signed.has(l.Job) {
		c.w.fail("I19", "%s starts %s, which nobody asked for: %+v", x.p.name, l.Task, *l.Job)
	}
	if l.Confinement == nil {
		c.w.fail("I19", "%s starts %s, and no policy says under what", x.p.name, l.Task)
	}
}

// founded notes which cluster it is.
func (c *check) founded(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cluster = cluster
}

// clusterID is "" until the founder has said it.
func (c *check) clusterID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cluster
}

// again has a peer start what it was given before.
func (c *check) again(peer string, g gift) {
	c.mu.Lock()
	p := c.w.named(c.names[peer])
	c.mu.Unlock()
	if p == nil {
		return
	}
	for t := range g.grant.Tasks() {
		if old := c.startOf(t.String()); old != nil && old.p == p {
			c.started(&proc{p: p, launch: old.launch, since: c.w.now()})
		}
	}
}

// lied notes that a worker was given what the ledger does not say.
func (c *check) lied(peer string, j taskstate.Job, t taskstate.TaskID) {
	c.mu.Lock()
	c.lies[told{peer, t}] = true
	p := c.w.named(c.names[peer])
	c.mu.Unlock()
	if p != nil && c.w.cfg.Break == BreakGullible {
		c.unasked(&proc{p: p, launch: taskstate.Launch{Task: t, Job: &j}})
	}
}

// unasked is I19: what starts is what the ledger gives that peer.
func (c *check) unasked(x *proc) {
	c.mu.Lock()
	lie := false
	for l := range c.lies {
		lie = lie || l.task == x.launch.Task && c.names[l.peer] == x.p.name
	}
	c.mu.Unlock()
	if lie {
		c.w.fail("I19", "%s starts %s, which its coordinator made up", x.p.name, x.launch.Task)
	}
}

// started is I4, I6, I10 and I19: who starts what, beside whom, with what, and on whose order.
func (c *check) started(x *proc) {
	w, p, t := c.w, x.p, x.launch.Task
	w.tellf("%s starts %s, epoch %s", p.name, t, x.launch.Epoch)
	c.ordered(x)
	c.unasked(x)
	if _, need := p.running(); !need.Fits(p.offer) {
		w.fail("I10", "%s runs tasks that need %+v, and has %+v", p.name, need, p.offer)
	}
	if x.by != nil {
		c.filled(x)
	}
	c.mu.Lock()
	old, others := c.starts[t], c.slots[slot{t.Job, t.Slot}]
	c.starts[t], c.last = x, x.since
	c.slots[slot{t.Job, t.Slot}] = append(others, x)
	c.mu.Unlock()
	if old != nil && !w.apart(old.p, p) {
		w.fail("I4", "%s starts %s, which %s started before, at %v", p.name, t, old.p.name, old.since)
	}
	w.count(func(s *Stats) {
		s.Started++
		if len(others) > 0 {
			s.Again++
		}
	})
	for _, o := range others {
		if x.launch.Job.Unreachable.Wait && !w.apart(o.p, p) {
			w.fail("I4", "%s starts %s, and %s started %s at %v: the job must not run twice", p.name, t, o.p.name, o.launch.Task, o.since)
		}
		given := o // the one that must have been given up
		if t.Attempt < o.launch.Task.Attempt {
			given = x
		}
		if since := min(o.since, x.since) - contact; !given.p.troubled(since) && !c.deaf(since) {
			w.fail("I6", "%s starts %s, and %s, started at %v, was given up on %s, to which nothing happened",
				p.name, t, given.launch.Task, given.since, given.p.name)
		}
	}
}

// deaf tells whether a cut has touched the coordinator since a moment: with the only vote it
// goes on, and finds others gone.
func (c *check) deaf(since time.Duration) bool {
	p := c.w.named(c.coordinator())
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.severed > 0 && p.severed >= since
}

// lastStart is when a task was started last: as long as there is work, and somebody takes it, all
// is well.
func (c *check) lastStart() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// contact is how long after a fault a peer may still be out of reach: sessions are picked up again
// within their backoff.
const contact = 10 * time.Second

// watch is I2: it follows what a peer tells about tasks until ctx ends. A task never goes
// backwards, in one life of one peer, and a reader that goes on with its token after a restart is
// told no event twice.
func (c *check) watch(ctx context.Context, l *life) {
	seen := map[string]taskstate.State{}
	var last *api.Event
	_ = l.node.Backend().Watch(ctx, l.p.token, func(e api.Event) error {
		if l.killed() {
			return context.Canceled
		}
		if e.Token != "" {
			l.p.token = e.Token
		}
		c.w.count(func(s *Stats) { s.Events++ })
		if c.w.cfg.Break == BreakBackwards && e.Kind == "task" {
			if last == nil {
				last = &e
				return nil
			}
			c.event(l, seen, e)
			e, last = *last, nil
		}
		c.event(l, seen, e)
		return nil
	})
}

func (c *check) event(l *life, seen map[string]taskstate.State, e api.Event) {
	if e.Kind != "task" {
		return
	}
	var s taskstate.State
	if s.UnmarshalText([]byte(e.State)) == nil { // superseded is a decision about the task, not a state of it
		if was, ok := seen[e.Task]; ok && (s < was || was.Final() && s != was) {
			c.w.fail("I2", "%s tells that %s is %s, and told before that it is %s", l.session, e.Task, s, was)
		}
		seen[e.Task] = s
	}
	if !l.p.once.First(e) || e.Snapshot {
		return
	}
	k := e.Task + " " + e.State
	if at, ok := l.p.heard[k]; ok {
		c.w.fail("I2", "%s tells %+v, and told it before, at %v", l.session, e, at)
	}
	l.p.heard[k] = c.w.now()
}

// pretends notes whether a peer, which holds no seat, acts as if it did.
func (c *check) pretends(id string, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.liars[id] = on
}

// asked is I3 as it shows: in one epoch there is one coordinator, whatever peer is asked; and I8:
// it is never one without a seat.
func (c *check) asked(l *life, ps api.Peers) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range ps.Peers {
		c.names[p.ID] = p.Name
	}
	if ps.Coordinator == "" || ps.Epoch == "" {
		return
	}
	if c.w.cfg.Break == BreakPuppet {
		for id, on := range c.liars {
			if on {
				ps.Coordinator, ps.Epoch = id, ps.Epoch+" again"
			}
		}
	}
	if _, known := c.epochs[ps.Epoch]; !known && c.liars[ps.Coordinator] {
		defer c.w.fail("I8", "%s takes %s for the coordinator, which holds no seat", l.session, c.names[ps.Coordinator])
		return
	}
	if other, ok := c.epochs[ps.Epoch]; ok && other != ps.Coordinator {
		defer c.w.fail("I3", "%s takes %s for the coordinator of epoch %s, which is %s's", l.session, c.names[ps.Coordinator], ps.Epoch, c.names[other])
	}
	if _, ok := c.epochs[ps.Epoch]; !ok {
		c.leader = ps.Coordinator
	}
	c.epochs[ps.Epoch] = ps.Coordinator
}
