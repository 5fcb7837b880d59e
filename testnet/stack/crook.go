package stack

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node"
	"github.com/coveyproject/covey/taskstate"
)

// crook is what a peer becomes as coordinator for a while, when it is in bad hands: it holds a
// seat, leads, and has the ledger decide and workers run what nobody asked for, or what somebody
// asked for once; or it keeps what people ask for from the ledger.
type crook struct {
	l         *life
	lies      atomic.Bool
	withholds atomic.Bool

	mu    sync.Mutex
	next  node.Propose
	rng   *rand.Rand
	given []gift // to workers, so far
}

// gift is a grant with its job, as it went to a worker.
type gift struct {
	peer  string
	job   taskstate.Job
	grant session.Grant
}

// crooked lets the coordinator be in bad hands for a while.
func (w *world) crooked() {
	p := w.named(w.check.coordinator())
	if p == nil || p.usable() == nil {
		return
	}
	x := p.usable().crook
	heal := w.hurt(p)
	w.count(func(s *Stats) { s.Crooks++ })
	x.mu.Lock()
	x.rng = rand.New(rand.NewPCG(w.rng.Uint64(), 0x63726f6f6b))
	x.mu.Unlock()
	if w.chance(0.25) {
		w.tellf("%s withholds", p.name)
		x.withholds.Store(true)
		w.until(w.spell(), func() { x.withholds.Store(false); heal() })
		return
	}
	w.tellf("%s lies as coordinator", p.name)
	ctx, cancel := context.WithCancel(context.Background())
	x.lies.Store(true)
	w.all.Go(func() { x.lie(ctx) })
	w.until(w.spell(), func() { x.lies.Store(false); cancel(); heal() })
}

// wrap stands before the ledger, as node.Machine.Propose.
func (x *crook) wrap(next node.Propose) node.Propose {
	x.mu.Lock()
	x.next = next
	x.mu.Unlock()
	return func(ctx context.Context, cmds []ledger.Command) (uint64, []ledger.Result, error) {
		if x.withholds.Load() && forPeople(cmds) {
			x.l.p.w.count(func(s *Stats) { s.Withheld++ })
			_ = pause.For(ctx, callLimit)
			return 0, nil, context.DeadlineExceeded
		}
		index, results, err := next(ctx, cmds)
		if err == nil {
			for i := range results {
				x.l.p.w.signed.counts(x.l.p.w, cmds[i], results[i])
			}
		}
		return index, results, err
	}
}

// forPeople tells whether somebody has asked for one of these.
func forPeople(cmds []ledger.Command) bool {
	for _, c := range cmds {
		if c.Submit != nil || c.Act != nil {
			return true
		}
	}
	return false
}

// lie has the ledger decide lies until ctx ends.
func (x *crook) lie(ctx context.Context) {
	w := x.l.p.w
	for pause.For(ctx, 150*time.Millisecond) == nil && !x.l.gone() {
		cmd, again, ok := x.invent()
		if !ok {
			continue
		}
		within, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, results, err := x.next(within, []ledger.Command{cmd})
		cancel()
		if err != nil {
			continue // it leads no more
		}
		w.count(func(s *Stats) { s.Lies++ })
		if again && w.cfg.Break == BreakReplayed {
			results[0] = ledger.Result{}
		}
		w.signed.counts(w, cmd, results[0])
	}
}

// sessions stands before what serves workers, as node.Machine.Sessions.
func (x *crook) sessions(serve func(peer string, c net.Conn)) func(peer string, c net.Conn) {
	return func(peer string, c net.Conn) { serve(peer, &bent{Conn: c, x: x, peer: peer}) }
}

// bent is a session's stream, to which lies are added. It is its writer's.
type bent struct {
	net.Conn
	x    *crook
	peer string
	rest []byte // of a frame that is not whole yet
}

// Write writes whole frames.
func (b *bent) Write(p []byte) (int, error) {
	b.rest = append(b.rest, p...)
	var out []byte
	for len(b.rest) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(b.rest))
		if len(b.rest) < n {
			break
		}
		out = append(out, b.x.twist(b.peer, b.rest[:n])...)
		b.rest = b.rest[n:]
	}
	if len(out) > 0 {
		if _, err := b.Conn.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// verify is how every peer tells whether somebody signed something; nil: as peers do.
func (w *world) verify() func(by taskstate.PeerID, data, sig []byte) error {
	if w.cfg.Break == BreakForged {
		return func(taskstate.PeerID, []byte, []byte) error { return nil }
	}
	return nil
}
