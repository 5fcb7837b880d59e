package quorum

import (
	"log/slog"
	"sync"

	"covey/taskstate"
)

// maxRefusedPeers bounds of how many peers it is remembered that they were logged.
const maxRefusedPeers = 1 << 14

// Refusals counts what members said that no honest member says: it was dropped. The first of each kind from each peer is logged, the
// others are counted. Safe for concurrent use; a nil one counts nothing.
type Refusals struct {
	log   *slog.Logger
	mu    sync.Mutex
	seen  map[refusal]bool
	total int64
}

type refusal struct {
	peer taskstate.PeerID
	what string
}

// NewRefusals begins to count.
func NewRefusals(log *slog.Logger) *Refusals {
	return &Refusals{log: log, seen: map[refusal]bool{}}
}

// Note counts one. what is one of few constant texts.
func (r *Refusals) Note(peer taskstate.PeerID, what string) {
	if r == nil {
		return
	}
	k := refusal{peer, what}
	r.mu.Lock()
	r.total++
	first := !r.seen[k] && len(r.seen) < maxRefusedPeers
	if first {
		r.seen[k] = true
	}
	r.mu.Unlock()
	if first {
		r.log.Warn("a member said what no honest member says; it was dropped", "peer", peer, "what", what)
	}
}

// Total is how many there were.
func (r *Refusals) Total() int64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}
