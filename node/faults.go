package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/troubles"
	"github.com/coveyproject/covey/taskstate"
)

// A peer numbers its batches and signs each number once. One that signs two different batches with
// one number lets others believe different things of its tasks until they are settled: honest
// software does not, except from a copied data folder. A peer that sees both keeps the first, and
// holds it against the author.

// faults counts what members did that honest software does not.
type faults struct {
	log   *slog.Logger
	mu    sync.Mutex
	of    map[taskstate.PeerID]int64 // bounded: only admitted authors get so far
	count int64

	floods int64     // envelopes that were too many
	spoken time.Time // when the log last spoke of them
	unsaid int64     // of them since
}

// floodLog is how often the log speaks of envelopes that are too many.
const floodLog = time.Minute

// flooded notes an envelope that was dropped unread because its author, as it says, brings in too
// much.
func (f *faults) flooded(author taskstate.PeerID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.floods++
	f.unsaid++
	if now := time.Now(); now.Sub(f.spoken) >= floodLog {
		f.log.Warn("a peer reports more than one may: the rest is dropped, and fetched later at a bounded pace", "peer", author, "messages", f.unsaid)
		f.spoken, f.unsaid = now, 0
	}
}

func (f *faults) flooding() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.floods
}

// twice notes that an author signed a second batch with a number. The first of each author is
// logged, the others are counted.
func (f *faults) twice(k batchKey) {
	f.mu.Lock()
	f.of[k.author]++
	f.count++
	first := f.of[k.author] == 1
	f.mu.Unlock()
	if first {
		f.log.Warn("a peer signed two different batches with one number: the first counts. Does a copy of its data folder run somewhere?",
			"peer", k.author, "incarnation", k.inc, "number", k.number)
	}
}

func (f *faults) total() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

const (
	liarsEvery = 5 * time.Second  // members that lie are looked for
	liarsFor   = 10 * time.Minute // after the last lie it is not said any more
)

// watchLiars says of members what they send that honest software never sends, until ctx ends: in
// `peers`, with how often.
func watchLiars(ctx context.Context, liars func() map[string]int64, name func(taskstate.PeerID) string, say *troubles.Troubles) error {
	t := time.NewTicker(liarsEvery)
	defer t.Stop()
	type lies struct {
		n    int64
		last time.Time
	}
	known := map[taskstate.PeerID]lies{} // of admitted peers
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		for peer, count := range liars() {
			was := known[peer]
			switch {
			case count > was.n:
				known[peer] = lies{count, time.Now()}
				say.Set(peer, api.TroubleLies, fmt.Sprintf("it sent this peer gossip that no peer of this version sends (%d times); nothing of it was believed. If that machine is not in the hands you think, type `peer remove %s`", count, name(peer)))
			case !was.last.IsZero() && time.Since(was.last) > liarsFor:
				known[peer] = lies{n: count}
				say.Clear(peer, api.TroubleLies)
			}
		}
	}
}

type batchKey struct {
	author string
	inc    string
	number uint64
}
