package calls

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger/act"
	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// Config is what a Line stands on.
type Config struct {
	Self    taskstate.PeerID
	Ledger  Ledger
	Dial    func(ctx context.Context, peer, protocol string) (net.Conn, error)
	Cluster func() string // a call counts in one cluster only
	Sign    func([]byte) ([]byte, error)
	Now     func() int64                                // the time that decisions go by, in milliseconds since 1970
	Execute func(context.Context, Call) (Reply, error)  // decides a call, as coordinator
	Speaks  func(any) error                             // why not all members could read what is to be sent; nil: all of it is sent
	Removed func() bool                                 // this peer's membership has ended
	Show    func(ctx context.Context, peer string) bool // shows this peer's entry to one that does not admit it
	Note    func(peer, what string)                     // hears what no honest peer sends
	Log     *slog.Logger
}

// Ledger tells who coordinates.
type Ledger interface {
	Coordinator() (taskstate.PeerID, taskstate.Epoch, bool)
	Changed() <-chan struct{} // closed when that, or the epoch, is another
	Distance() time.Duration  // how long a decision is on its way
	SuspectLeader()           // has the voters look whether the coordinator lives
}

// Line is a peer's line to the coordinator: it brings calls there, its own and those of others,
// and lets in those that are for itself.
type Line struct {
	cfg    Config
	signer *Signer
	guard  Guard
}

// NewLine makes a Line; the node has Serve answer Protocol.
func NewLine(cfg Config) *Line {
	return &Line{cfg: cfg, signer: &Signer{Self: cfg.Self, Cluster: cfg.Cluster, Sign: cfg.Sign, Now: cfg.Now}}
}

// Signer signs in this peer's name.
func (l *Line) Signer() *Signer { return l.signer }

// Admit implements admission.Admitter: any peer may be dialled by a stranger, the coordinator
// decides.
func (l *Line) Admit(ctx context.Context, from string, req admission.JoinRequest) (admission.JoinAnswer, error) {
	r, err := l.Decide(ctx, Call{Join: &JoinCall{Peer: from, Request: req}})
	if err != nil || r.Join == nil {
		return admission.JoinAnswer{}, fmt.Errorf("no coordinator can decide about newcomers now: %w", err)
	}
	return *r.Join, nil
}

// Lets asks which peers' owners let a job in, as far as the coordinator knows.
func (l *Line) Lets(ctx context.Context, job taskstate.Job) map[taskstate.PeerID]bool {
	r, err := l.Try(ctx, Call{From: l.cfg.Self, Preview: &PreviewCall{Job: job}})
	if err != nil || r.Preview == nil {
		return nil
	}
	lets := map[taskstate.PeerID]bool{}
	for _, x := range r.Preview.Owners {
		lets[x.Peer] = x.No == ""
	}
	return lets
}

// Lead hears that this peer coordinates from now on: calls that were signed before are not taken.
func (l *Line) Lead() { l.guard.term(l.cfg.Now()) }

// Decide brings a call to the coordinator, wherever that is, and goes on trying until ctx ends.
// Errors of the decision itself are *api.Error, and so is that not every member could read the
// call, which is not sent then; without a coordinator it is ErrNobodyDecides, and where the clocks
// are too far apart ErrSkewed.
func (l *Line) Decide(ctx context.Context, c Call) (Reply, error) {
	c.From = l.cfg.Self
	if l.cfg.Speaks != nil {
		if err := l.cfg.Speaks(c); err != nil {
			return Reply{}, api.Errorf(api.Conflict, "%v", err)
		}
	}
	var last error
	for number := act.Number(); ; { // however often it is asked for, it counts once
		changed := l.cfg.Ledger.Changed()
		if err := l.signer.vouch(&c, number); err != nil {
			return Reply{}, err
		}
		r, err := l.Try(ctx, c)
		if err == nil && r.Now != 0 {
			if err := l.signer.correct(r.Now); err != nil {
				return Reply{}, err
			}
		}
		switch {
		case err == nil && !r.Lost:
			if r.Error != nil {
				return r, r.Error
			}
			return r, nil
		case c.Remove != nil && c.Remove.Peer == l.cfg.Self && l.cfg.Removed():
			return Reply{}, nil // it is done: the gates closed before the answer was through
		case err != nil:
			last = err
			c.Again = c.Submit != nil
		}
		select {
		case <-ctx.Done():
			return Reply{}, fmt.Errorf("%w (%v)", ErrNobodyDecides, last)
		case <-changed:
		case <-time.After(retry):
		}
	}
}

// Try asks once, in this peer's own name: this peer itself if it coordinates, otherwise the one it
// believes does.
func (l *Line) Try(ctx context.Context, c Call) (Reply, error) {
	if who, _, ok := l.cfg.Ledger.Coordinator(); ok && who == l.cfg.Self {
		return l.cfg.Execute(ctx, c)
	}
	q, err := l.signer.Seal(c)
	if err != nil {
		return Reply{}, err
	}
	return l.pass(ctx, q)
}

// pass brings a signed call to the peer that this one believes to coordinate.
func (l *Line) pass(ctx context.Context, q Signed) (Reply, error) {
	who, _, ok := l.cfg.Ledger.Coordinator()
	if !ok || who == l.cfg.Self {
		return Reply{Lost: true}, errors.New("no peer coordinates")
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	ctx, cancel := context.WithTimeout(ctx, l.timeout())
	defer cancel()
	watch.Go(func() { l.untilAnotherDecides(ctx, who, cancel) })
	return l.ask(ctx, who, q)
}

// untilAnotherDecides gives a call up as soon as somebody else than the one that was asked
// coordinates: that one may never answer. While it does not, the voters look whether it lives,
// again and again. It ends with ctx, the call's own.
func (l *Line) untilAnotherDecides(ctx context.Context, asked taskstate.PeerID, giveUp func()) {
	late := time.NewTimer(max(slow, 2*l.cfg.Ledger.Distance())) // from before the dial: a silent peer does not answer that either
	defer late.Stop()
	for {
		changed := l.cfg.Ledger.Changed()
		if who, _, ok := l.cfg.Ledger.Coordinator(); ok && who != asked {
			giveUp()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-late.C:
			l.cfg.Ledger.SuspectLeader()
			late.Reset(max(silent, l.cfg.Ledger.Distance()))
		case <-changed:
		}
	}
}

// ask sends one call to one peer and waits for its answer.
func (l *Line) ask(ctx context.Context, peer taskstate.PeerID, q Signed) (Reply, error) {
	conn, err := l.cfg.Dial(ctx, peer, Protocol)
	if err != nil {
		return Reply{}, fmt.Errorf("ask %s: %w", peer, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := wire.NewWriter(conn, 0).Send(q); err != nil {
		return Reply{}, fmt.Errorf("ask %s: %w", peer, err)
	}
	var r Reply
	if err := wire.NewReader(conn, 0).Read(&r); err != nil {
		if errors.Is(err, p2p.ErrNotAdmitted) {
			l.cfg.Show(ctx, peer)
		}
		return Reply{}, fmt.Errorf("ask %s: %w", peer, err)
	}
	return r, nil
}

// timeout is how long one try may take.
func (l *Line) timeout() time.Duration { return far.Allow(Timeout, l.cfg.Ledger.Distance()) }

// Serve answers a call of another peer, or passes it on.
func (l *Line) Serve(ctx context.Context, peer string, conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(l.timeout()))
	ctx, cancel := context.WithTimeout(ctx, l.timeout())
	defer cancel()
	var q Signed
	if err := wire.NewReader(conn, 0).Read(&q); err != nil {
		l.cfg.Log.Debug("unreadable call", "peer", peer, "err", err)
		return
	}
	if err := wire.NewWriter(conn, 0).Send(l.Answer(ctx, peer, q)); err != nil {
		l.cfg.Log.Debug("answer to a call not sent", "peer", peer, "err", err)
	}
}

// Answer looks at what a peer sent, and decides it or passes it on.
func (l *Line) Answer(ctx context.Context, peer taskstate.PeerID, q Signed) Reply {
	c, err := l.signer.Open(q)
	if err != nil {
		l.cfg.Note(peer, "a call in bad hands")
		return Reply{Error: api.Errorf(api.Refused, "this call does not count: %v", err)}
	}
	if bad := c.Check(); bad != nil {
		return Reply{Error: bad}
	}
	q.Hops = max(q.Hops, 0) + 1
	if q.Hops > Hops {
		return Reply{Lost: true}
	}
	var r Reply
	if who, _, ok := l.cfg.Ledger.Coordinator(); !ok || who != l.cfg.Self {
		r, err = l.pass(ctx, q)
	} else if late, ok := l.fresh(c); !ok {
		r = late
	} else {
		r, err = l.cfg.Execute(ctx, c)
	}
	if err != nil {
		return Reply{Lost: true}
	}
	return r
}

// fresh tells of a decision that somebody else asks for whether it is asked for the first time, and
// in time. What only asks may be asked as often as one likes.
func (l *Line) fresh(c Call) (Reply, bool) {
	if c.From == l.cfg.Self || c.Cluster != nil || c.Preview != nil {
		return Reply{}, true
	}
	now := l.cfg.Now()
	switch err := l.guard.admit(c.From, c.At, c.Nonce, now); {
	case errors.Is(err, errStale):
		return Reply{Lost: true, Now: now}, false
	case err != nil:
		l.cfg.Note(c.From, "a call that was made before")
		return Reply{Error: api.Errorf(api.Refused, "%v; ask again", err)}, false
	}
	return Reply{}, true
}
