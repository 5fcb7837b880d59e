package quorum

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/coveyproject/covey/taskstate"
)

const (
	backoffMin = 100 * time.Millisecond
	backoffMax = 8 * time.Second
)

// Reasons why a stream ends; they are for logs.
var (
	errTooSlow   = errors.New("fell behind what is kept")
	errElsewhere = errors.New("somebody else is the one to follow now")
	errAimless   = errors.New("it knows of no coordinator")
	errStale     = errors.New("it is behind what is known here")
	errSnapshot  = errors.New("a snapshot is too large or malformed")
)

// follower keeps the replica current from others. It owns whom it follows, and how current the
// replica is.
type follower struct {
	log    *slog.Logger
	dir    *directory
	terms  *terms
	wakes  *wakes
	stream func(ctx context.Context, peer taskstate.PeerID) (caughtUp bool, err error) // takes entries until it breaks

	mu   sync.Mutex
	from taskstate.PeerID // whom it is followed from now, "" = nobody
	ok   bool             // the stream has caught up
	at   time.Time        // when the last frame came
}

func (f *follower) inSync() (ok bool, at time.Time) {
	if f.terms.lead.Load() != nil {
		return true, time.Now()
	}
	_, _, led := f.dir.coordinator()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ok && f.from != "" && led && time.Since(f.at) < 3*bookmarkEvery, f.at
}

// touch notes that a frame came.
func (f *follower) touch(from taskstate.PeerID, caughtUp bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.from, f.ok, f.at = from, caughtUp, time.Now()
}

// ended notes that nobody is followed now.
func (f *follower) ended() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.from, f.ok = "", false
}

// run keeps the replica current until ctx ends: from the coordinator if it can be reached,
// otherwise from any voter. A voter follows the coordinator too – raft tells it late what has been
// committed – and the one that coordinates follows nobody.
func (f *follower) run(ctx context.Context) {
	avoid := map[taskstate.PeerID]time.Time{}
	backoff := backoffMin
	for ctx.Err() == nil {
		asked, err := f.followAny(ctx, avoid)
		switch {
		case errors.Is(err, errElsewhere):
			backoff = backoffMin
			continue
		case err == nil && asked > 1: // it worked until it broke, and there are others to ask at once
			backoff = backoffMin
			continue
		case err == nil:
			backoff = backoffMin
		case asked > 0 && f.terms.lead.Load() == nil:
			f.dir.forgetCoordinator()
		}
		wait := backoffMax
		if asked > 0 {
			wait = backoff/2 + rand.N(backoff)
			backoff = min(2*backoff, backoffMax)
		}
		select {
		case <-ctx.Done():
		case <-f.wakes.follow:
			backoff = backoffMin
		case <-time.After(wait):
		}
	}
}

// followAny follows the best of the targets that answers, until that ends. err is nil if the
// replica was current meanwhile, errElsewhere if it ended because there is somebody better, and
// otherwise that of the last one tried.
func (f *follower) followAny(ctx context.Context, avoid map[taskstate.PeerID]time.Time) (asked int, err error) {
	targets := f.dir.targets(f.terms.lead.Load() != nil, avoid)
	err = errAimless
	for _, peer := range targets {
		var ok bool
		ok, err = f.follow(ctx, peer, avoid)
		f.log.Debug("stopped following", "peer", peer, "why", err)
		if errors.Is(err, errElsewhere) || ctx.Err() != nil {
			return len(targets), err
		}
		avoid[peer] = time.Now().Add(avoidFor)
		f.dir.forgetNewer(peer)
		if ok && !errors.Is(err, errStale) {
			return len(targets), nil
		}
	}
	return len(targets), err
}

// follow takes entries from one peer until the stream breaks or there is somebody better. ok tells
// whether it caught up.
func (f *follower) follow(ctx context.Context, peer taskstate.PeerID, avoid map[taskstate.PeerID]time.Time) (ok bool, err error) {
	sctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() { // ends the stream, or the wait for one, when it is time
		defer close(watched)
		for {
			select {
			case <-sctx.Done():
				return
			case <-f.wakes.follow:
				if f.dir.better(peer, f.terms.lead.Load() != nil, avoid) {
					cancel(errElsewhere)
				}
			}
		}
	}()
	ok, err = f.stream(sctx, peer)
	cancel(err)
	<-watched
	if cause := context.Cause(sctx); errors.Is(cause, errElsewhere) {
		err = cause
	}
	return ok, err
}

// A snapshot is the whole state, encoded anew for each who needs one. An honest peer needs one when
// it is new, or was away for long, or cannot keep up; one that asks again and again would keep this
// peer busy with nothing else.
const (
	snapshotBurst = 8               // to one peer, before
	snapshotEvery = 2 * time.Second // one more in so long
)

// snapshotLimits is how many more snapshots each peer may have now.
type snapshotLimits struct {
	mu sync.Mutex
	of map[taskstate.PeerID]*rate.Limiter // a peer that has its whole allowance again is not in it
}

// allow tells whether peer may have one more now, and counts it.
func (c *snapshotLimits) allow(peer taskstate.PeerID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p, l := range c.of {
		if l.Tokens() >= snapshotBurst {
			delete(c.of, p)
		}
	}
	l := c.of[peer]
	if l == nil {
		if c.of == nil {
			c.of = map[taskstate.PeerID]*rate.Limiter{}
		}
		l = rate.NewLimiter(rate.Every(snapshotEvery), snapshotBurst)
		c.of[peer] = l
	}
	return l.Allow()
}
