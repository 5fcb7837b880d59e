package coordinator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator/freeze"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/mailbox"
	"github.com/coveyproject/covey/membership/verdict"
	"github.com/coveyproject/covey/taskstate"
)

// Loop is the coordinator's loop as a peer runs it: idle until the ledger says that this peer
// leads, then a Core, its sessions and its proposals, driven by one goroutine. Its methods
// are safe for concurrent use.
type Loop struct {
	cfg   Config
	conns atomic.Uint64

	mu       sync.Mutex
	term     *term                            // nil while not leading
	verdicts map[taskstate.PeerID]PeerVerdict // Never until another verdict than dead was heard
}

// NewLoop prepares a Loop. It starts nothing.
func NewLoop(cfg Config) *Loop {
	return &Loop{cfg: cfg.withDefaults(), verdicts: map[taskstate.PeerID]PeerVerdict{}}
}

// ErrNotLeading answers questions that only a coordinator can.
var ErrNotLeading = errors.New("this peer does not coordinate")

// Run coordinates in one epoch and returns when ctx ends: with all sessions closed, so that workers
// look for the next coordinator at once, and nothing running. The ledger calls it after the barrier
// of its term.
func (c *Loop) Run(ctx context.Context, epoch taskstate.Epoch) {
	const first, most = 100 * time.Millisecond, 5 * time.Second
	for wait := first; ctx.Err() == nil; wait = min(2*wait, most) {
		why := c.runOnce(ctx, epoch)
		if ctx.Err() != nil {
			return
		}
		c.cfg.Log.Warn("coordinator starts over from the ledger", "epoch", epoch, "why", why, "in", wait)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// runOnce is the life of one core.
func (c *Loop) runOnce(ctx context.Context, epoch taskstate.Epoch) (why string) {
	ctx, stop := context.WithCancel(ctx)
	t := &term{
		cfg: c.cfg, ctx: ctx, epoch: epoch,
		events: make(chan termEvent, 1024), asks: make(chan func(*Core)), links: map[ConnID]*workerStream{}, box: mailbox.New[Event](),
	}
	replica := c.cfg.Ledger.Replica()
	silence := replica.Observe(t.heard)
	core := c.cfg.Core
	core.Read = replica.Read
	replica.Read(func(st *ledger.State) { t.core = NewCore(core, epoch, st, time.Now()) })
	t.grace.Store(int64(t.core.cfg.Grace))
	c.enter(t)
	why = t.loop()
	stop()
	silence()
	c.leave()
	t.closeAll()
	t.work.Wait()
	return why
}

// enter opens the doors: sessions are served and verdicts heard from now on.
func (c *Loop) enter(t *term) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term = t
	for _, v := range c.verdicts {
		t.box.Put(v)
	}
}

func (c *Loop) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term = nil
}

// Verdict hears what gossip here says about a peer, and since when; whether it never was alive is
// found out here. It may be called at any time and returns at once.
func (c *Loop) Verdict(ev PeerVerdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, heard := c.verdicts[ev.Peer]
	ev.Never = ev.Verdict == verdict.Dead && (!heard || old.Never)
	c.verdicts[ev.Peer] = ev
	if c.term != nil {
		c.term.box.Put(ev)
	}
}

// Waiting tells why a job has slots that nobody runs; "" if there are none.
func (c *Loop) Waiting(ctx context.Context, job taskstate.JobID) (string, error) {
	return ask(ctx, c, func(core *Core) string { return core.Waiting(job) })
}

// Whys says why jobs wait that do; see Core.Whys.
func (c *Loop) Whys(ctx context.Context) (map[taskstate.JobID]string, error) {
	return ask(ctx, c, (*Core).Whys)
}

// Waited lists the newest times in which a job waited because no peer could take it; see
// Core.Waited.
func (c *Loop) Waited(ctx context.Context, job taskstate.JobID) ([]WaitPeriod, error) {
	return ask(ctx, c, func(core *Core) []WaitPeriod { return core.Waited(job) })
}

// Frozen tells whether and why nothing is replaced.
func (c *Loop) Frozen(ctx context.Context) (freeze.State, error) { return ask(ctx, c, (*Core).Frozen) }

// Peers tells what every member offers and carries, by id.
func (c *Loop) Peers(ctx context.Context) ([]PeerLoad, error) { return ask(ctx, c, (*Core).Peers) }

// Preview tells where the tasks of a job would go now; see Core.Preview.
func (c *Loop) Preview(ctx context.Context, job *taskstate.Job) (Preview, error) {
	return ask(ctx, c, func(core *Core) Preview { return core.Preview(job) })
}

// Thaw ends a freeze: who has vanished does not count any more until it is back. It tells what it
// ended.
func (c *Loop) Thaw(ctx context.Context) (was freeze.State, err error) {
	if was, err = c.Frozen(ctx); err != nil {
		return was, err
	}
	return was, c.tell(Thaw{})
}

// tell passes a person's word on to the core.
func (c *Loop) tell(ev Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.term == nil {
		return ErrNotLeading
	}
	c.term.box.Put(ev)
	return nil
}

// ask has the owner of the core answer a question.
func ask[T any](ctx context.Context, c *Loop, f func(*Core) T) (answer T, err error) {
	c.mu.Lock()
	t := c.term
	c.mu.Unlock()
	if t == nil {
		return answer, ErrNotLeading
	}
	done := make(chan struct{})
	select {
	case t.asks <- func(core *Core) { answer = f(core); close(done) }:
		<-done // the owner is at it
		return answer, nil
	case <-t.ctx.Done():
		return answer, ErrNotLeading
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}

// Rebalance tells which tasks of a service to move; see Core.Rebalance.
func (c *Loop) Rebalance(ctx context.Context, id taskstate.JobID) (moves []Move, busy bool, err error) {
	_, err = ask(ctx, c, func(core *Core) bool { moves, busy = core.Rebalance(id); return true })
	return moves, busy, err
}

// Balance begins to move tasks of a service as Rebalance says, no more at once than its update may.
// What is left to move when another peer comes to coordinate stays where it is.
func (c *Loop) Balance(ctx context.Context, id taskstate.JobID) (moves []Move, busy bool, err error) {
	moves, busy, err = c.Rebalance(ctx, id)
	if err != nil || busy || len(moves) == 0 {
		return moves, busy, err
	}
	return moves, false, c.tell(Balance{Job: id, Moves: len(moves)})
}
