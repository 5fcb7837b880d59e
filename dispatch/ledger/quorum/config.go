package quorum

import (
	"log/slog"
	"sync"
	"time"

	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// Config of a Node. Net, Self and Dir are required.
type Config struct {
	Net         p2p.Net
	Self        taskstate.PeerID
	Incarnation taskstate.Incarnation // of the seat in a folder whose memo, written by version 0.1, does not say
	Dir         string                // belongs to the Node alone; created if absent
	Mark        string                // file of the own mark (see package mark), best not in Dir, which may be turned back as a whole; "" is in Dir
	Root        Root                  // what the data folder remembers of the seat outside Dir; nil remembers nothing
	Vouched     bool                  // a person says that the data folder was moved, and is its only and newest copy
	// Candidates lists every admitted peer, dead ones too, for the voters' rules: a peer that is
	// not listed loses its vote. nil means that nobody but this peer ever votes. It is called about
	// once a second while this peer leads, and must be quick.
	Candidates func() []Candidate
	// MayVote tells of peers that the own copy of the ledger does not know yet whether they are
	// admitted with the role voter, for a peer that was away while others took over; nil knows
	// none.
	MayVote func(taskstate.PeerID) bool
	// Seats is who holds a seat, and the proof; it outlives restarts. nil keeps it in memory,
	// unsigned.
	Seats *admission.SeatChain
	// Sign signs for Self, and Verify proves what another peer signed; without them the voters keep
	// no marks of each other (see seen).
	Sign      func([]byte) ([]byte, error)
	Verify    func(peer string, data, sig []byte) error
	Refused   *Refusals // counts what no honest member says; nil counts nothing
	Log       *slog.Logger
	Now       func() time.Time // stamps entries; nil is time.Now
	RingBytes int              // recent entries kept for followers; 0 is 4 MiB
	// Draw draws the incarnation of a seat (see identity); nil draws at random.
	Draw func() taskstate.Incarnation
	// Committed hears how long each proposal took that was decided; optional.
	Committed func(time.Duration)
	Hurt      func() error // for tests: asked before every write to the log, which fails with what it answers, or waits for it; nil never does
}

// How long things take: elections, the voters' rules, following.
const (
	heartbeat     = 300 * time.Millisecond // a coordinator that is suspected and does not answer for so long is gone
	tendEvery     = time.Second            // the voters' rules are looked at so often
	replaceAfter  = 30 * time.Second       // a voter dead for so long is replaced
	shrinkAfter   = 10 * time.Minute       // five voters, one dead for so long: three
	bookmarkEvery = 2 * time.Second        // followers hear at least so often
	bookmarkSoon  = 250 * time.Millisecond // and after entries so soon, with how far the voters had acknowledged
	saveEvery     = 5 * time.Minute        // the copy for questions without a quorum is written so often, if there was news
)

// Refusals counts what members said that no honest member says: it was dropped. The first of each
// kind from each peer is logged, the others are counted. Safe for concurrent use; a nil one counts
// nothing.
type Refusals struct {
	log   *slog.Logger
	mu    sync.Mutex
	seen  map[refusal]bool
	total int64
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

// NewRefusals begins to count.
func NewRefusals(log *slog.Logger) *Refusals {
	return &Refusals{log: log, seen: map[refusal]bool{}}
}

// maxRefusedPeers bounds of how many peers it is remembered that they were logged.
const maxRefusedPeers = 1 << 14

type refusal struct {
	peer taskstate.PeerID
	what string
}
