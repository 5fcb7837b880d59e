package quorum

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"covey/dispatch/ledger"
	"covey/p2p/admission"
	"covey/taskstate"
)

// Who holds a seat decides, whatever roles others were given. A seat is a vote in the committed
// configuration, as far as it is known here: from the own log, or from a chain of records each
// signed by who held a seat by the one before (admission.SeatChain). Raft's streams, the voters'
// questions, the stream that is followed, signatures in the roster and hints about who coordinates
// are believed from seats only.

// authority is what this peer knows of seats. now is read through seats; leaderless is guarded by
// Node.mu.
type authority struct {
	seats      *admission.SeatChain
	refused    *Refusals
	leaderless time.Time // since when nobody is known to coordinate; zero while somebody is
}

const (
	// orphanAfter is how long nobody must be known to decide before a ledger is believed that a
	// peer without a seat began again.
	orphanAfter = 5 * time.Second
	// maxIndex is above every index an honest peer can have reached.
	maxIndex = 1 << 62
)

// errUnseated ends a stream of a peer that cannot prove that it holds a seat.
var errUnseated = errors.New("it holds no seat in the ledger, as far as is known here")

func (n *Node) openAuthority() error {
	n.authority = authority{seats: n.cfg.Seats, refused: n.cfg.Refused, leaderless: time.Now()}
	if n.authority.seats != nil {
		return nil
	}
	signer, _ := n.cfg.Net.(admission.Signer)
	seats, err := admission.OpenSeats("", signer, nil)
	n.authority.seats = seats
	return err
}

// Seated tells whether a peer holds a seat in the ledger, as far as this peer knows.
func (n *Node) Seated(peer taskstate.PeerID) bool {
	now := n.authority.seats.Now()
	if now.Holds(peer) {
		return true
	}
	// What raft itself goes by counts, too, where this voter's log has not been overtaken: only who
	// holds a seat can have put it there.
	s := n.currentSeat()
	if s == nil || s.generation < now.Generation || s.generation == now.Generation && s.raft.LastIndex() < now.Index {
		return false
	}
	vs, err := s.servers()
	return err == nil && votesIn(vs, peer)
}

func votesIn(vs []Voter, peer taskstate.PeerID) bool {
	for _, v := range vs {
		if v.Voting && v.Peer == peer {
			return true
		}
	}
	return false
}

// holdSeats keeps the newest committed configuration known here, signed if this peer may.
func (n *Node) holdSeats() {
	cluster, generation := n.cluster(), n.Generation()
	n.mu.Lock()
	index, vs := n.votersIndex, n.voters
	n.mu.Unlock()
	if index > 0 && cluster != "" {
		n.authority.seats.Hold(cluster, generation, index, seatsOf(vs))
	}
}

// seatsOf lists the peers that vote.
func seatsOf(vs []Voter) (peers []string) {
	for _, v := range vs {
		if v.Voting {
			peers = append(peers, v.Peer)
		}
	}
	return peers
}

// confirmVoters is called when a term is established: its barrier has committed what was in the log
// before, the configuration included, which raft does not say again if it was read from disk.
func (n *Node) confirmVoters(s *seat) {
	n.mu.Lock()
	index := n.votersFloor
	known := n.votersIndex > 0
	n.mu.Unlock()
	if vs, err := s.servers(); err == nil && !known && index > 0 {
		n.setVoters(index, vs)
	}
	n.holdSeats()
}

// proves takes a peer's proof that it holds a seat, and tells whether it does.
func (n *Node) proves(peer taskstate.PeerID, records []admission.Seats) bool {
	if len(records) > 0 {
		begin := map[string]bool{} // asked beforehand: the chain is locked while it asks
		for _, s := range records {
			begin[s.By] = n.mayBegin(s.By)
		}
		if err := n.authority.seats.Offer(func(by string) bool { return begin[by] }, records...); errors.Is(err, admission.ErrBadSeats) {
			n.authority.refused.Note(peer, "a record of seats that no honest peer makes")
		}
	}
	return n.Seated(peer)
}

// askForProof has a peer followed, when nobody better answers, that may have got a seat since this
// one heard of seats: its stream begins with the proof.
func (n *Node) askForProof(peer taskstate.PeerID) {
	if n.mayVote(peer) {
		n.addContacts([]taskstate.PeerID{peer})
		n.kick()
	}
}

// mayBegin tells whether a peer that holds no seat may have begun the ledger again: nobody has been
// known to decide for a while, and it has the role.
func (n *Node) mayBegin(peer taskstate.PeerID) bool {
	n.mu.Lock()
	since := n.authority.leaderless
	n.mu.Unlock()
	return !since.IsZero() && time.Since(since) >= orphanAfter && n.mayVote(peer)
}

// leaderKnown notes whether somebody is known to coordinate. The caller holds mu.
func (a *authority) leaderKnown(known bool, now time.Time) {
	switch {
	case known:
		a.leaderless = time.Time{}
	case a.leaderless.IsZero():
		a.leaderless = now
	}
}

// epochBeyond tells of an epoch that no honest peer can name, by what is known here, and counts it.
// Where nothing is known yet nothing bounds it but the generation.
func (n *Node) epochBeyond(peer taskstate.PeerID, e taskstate.Epoch) bool {
	known := n.newestEpoch()
	far := e.Generation > known.Generation+admission.MaxLeap ||
		known.Term > 0 && e.Generation == known.Generation && e.Term > known.Term+admission.MaxLeap || e.Term > maxIndex
	if far {
		n.authority.refused.Note(peer, "an epoch that no honest peer can name")
	}
	return far
}

// newestEpoch is the newest epoch known here.
func (n *Node) newestEpoch() (e taskstate.Epoch) {
	n.rep.Read(func(s *ledger.State) { e = s.Epoch() })
	n.mu.Lock()
	defer n.mu.Unlock()
	if e.Less(n.epoch) {
		return n.epoch
	}
	return e
}

// generationBeyond is epochBeyond for a generation alone.
func (n *Node) generationBeyond(peer taskstate.PeerID, generation uint64) bool {
	if own := n.Generation(); generation > own+admission.MaxLeap && own > 0 {
		n.authority.refused.Note(peer, "a generation of the ledger that no honest peer can name")
		return true
	}
	return false
}

// indexBeyond tells of an index of an entry, or of what is said to follow from one, that cannot
// follow on what is known here.
func (n *Node) indexBeyond(peer taskstate.PeerID, index uint64) bool {
	if index <= n.rep.Applied()+admission.MaxLeap {
		return false
	}
	n.authority.refused.Note(peer, "an index of the ledger that no honest peer can name")
	return true
}

// maxRefusedPeers bounds of how many peers it is remembered that they were logged.
const maxRefusedPeers = 1 << 14

// Refusals counts what members said that no honest member says: it was dropped. The first of each
// kind from each peer is logged, the others are counted. Safe for concurrent use; a nil one counts
// nothing.
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
