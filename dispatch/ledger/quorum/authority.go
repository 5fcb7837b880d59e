package quorum

import (
	"errors"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// Who holds a seat decides, whatever roles others were given. A seat is a vote in the committed
// configuration, as far as it is known here: from the own log, or from a chain of records each
// signed by who held a seat by the one before (admission.SeatChain). Raft's streams, the voters'
// questions, the stream that is followed, signatures in the roster and hints about who coordinates
// are believed from seats only.

// authority says who and what is believed of what others say: who holds a seat, which configuration
// is the committed one, how far numbers can have come. now is read through seats.
type authority struct {
	cfg     *Config
	place   *ownSeat
	dir     *directory
	wakes   *wakes
	seats   *admission.SeatChain
	refused *Refusals
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

func newAuthority(cfg *Config, p *ownSeat, dir *directory, w *wakes) (*authority, error) {
	a := &authority{cfg: cfg, place: p, dir: dir, wakes: w, seats: cfg.Seats, refused: cfg.Refused}
	if a.seats != nil {
		return a, nil
	}
	signer, _ := cfg.Net.(admission.Signer)
	var err error
	a.seats, err = admission.OpenSeats("", signer, nil)
	return a, err
}

func (a *authority) seated(peer taskstate.PeerID) bool {
	now := a.seats.Now()
	if now.Holds(peer) {
		return true
	}
	// What raft itself goes by counts, too, where this voter's log has not been overtaken: only who
	// holds a seat can have put it there.
	s := a.place.seat.Load()
	if s == nil || s.generation < now.Generation || s.generation == now.Generation && s.raft.LastIndex() < now.Index {
		return false
	}
	vs, err := s.servers()
	return err == nil && slices.ContainsFunc(vs, func(v Voter) bool { return v.Voting && v.Peer == peer })
}

// setVoters records a committed configuration, unless a newer one is known.
func (a *authority) setVoters(index uint64, vs []Voter) {
	if a.dir.setVoters(index, vs) {
		a.hold()
		a.wakes.moved.fire()
		a.wakes.follow.Set()
		a.wakes.unsound.Set()
	}
}

// hold keeps the newest committed configuration known here, signed if this peer may.
func (a *authority) hold() {
	index, _, vs := a.dir.configuration()
	if cluster := a.place.cluster(); index > 0 && cluster != "" {
		a.seats.Hold(cluster, a.place.generation(), index, seatsOf(vs))
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

// confirm is called when a term is established: its barrier has committed what was in the log
// before, the configuration included, which raft does not say again if it was read from disk.
func (a *authority) confirm(s *seat) {
	index, floor, _ := a.dir.configuration()
	if vs, err := s.servers(); err == nil && index == 0 && floor > 0 {
		a.setVoters(floor, vs)
	}
	a.hold()
}

// proves takes a peer's proof that it holds a seat, and tells whether it does.
func (a *authority) proves(peer taskstate.PeerID, records []admission.Seats) bool {
	if len(records) > 0 {
		begin := map[string]bool{} // asked beforehand: the chain is locked while it asks
		for _, s := range records {
			begin[s.By] = a.mayBegin(s.By)
		}
		if err := a.seats.Offer(func(by string) bool { return begin[by] }, records...); errors.Is(err, admission.ErrBadSeats) {
			a.refused.Note(peer, "a record of seats that no honest peer makes")
		}
	}
	return a.seated(peer)
}

// mayVote tells whether a peer may ever hold a seat: it does, or the roster says that it may get
// one. That alone gives no say in anything.
func (a *authority) mayVote(peer taskstate.PeerID) bool {
	if peer == a.cfg.Self || a.seated(peer) {
		return true
	}
	known, member := false, false
	a.place.rep.Read(func(s *ledger.State) {
		var m ledger.Member
		m, member = s.Member(peer)
		known = member && m.Entry.Has(admission.Voter)
	})
	return known || !member && a.cfg.MayVote != nil && a.cfg.MayVote(peer)
}

// reads tells whether a peer may know what all jobs run: it holds a seat or is to get one, or was
// given a role for it.
func (a *authority) reads(peer taskstate.PeerID) (may bool) {
	if _, _, vs := a.dir.configuration(); slices.ContainsFunc(vs, func(v Voter) bool { return v.Peer == peer }) {
		return true
	}
	a.place.rep.Read(func(s *ledger.State) {
		m, ok := s.Member(peer)
		may = ok && m.In() && (m.Entry.Has(admission.Read) || m.Entry.Has(admission.Admin))
	})
	return may
}

// guest tells whether this peer is a member that neither may know what all jobs run, nor may get a
// seat and so need it.
func (a *authority) guest() (is bool) {
	if a.place.seat.Load() != nil || a.reads(a.cfg.Self) {
		return false
	}
	a.place.rep.Read(func(s *ledger.State) {
		m, ok := s.Member(a.cfg.Self)
		is = ok && m.In() && !m.Entry.Has(admission.Voter)
	})
	return is
}

// askForProof has a peer followed, when nobody better answers, that may have got a seat since this
// one heard of seats: its stream begins with the proof.
func (a *authority) askForProof(peer taskstate.PeerID) {
	if a.mayVote(peer) {
		a.dir.addContacts([]taskstate.PeerID{peer}, maxContacts)
		a.wakes.follow.Set()
	}
}

// mayBegin tells whether a peer that holds no seat may have begun the ledger again: nobody has been
// known to decide for a while, and it has the role.
func (a *authority) mayBegin(peer taskstate.PeerID) bool {
	since := a.dir.withoutCoordinator()
	return !since.IsZero() && time.Since(since) >= orphanAfter && a.mayVote(peer)
}

// hint: a peer that may have got a seat since this one heard of seats is asked when nobody else
// answers.
func (a *authority) hint(peer taskstate.PeerID, e taskstate.Epoch) {
	switch {
	case peer == "" || a.epochBeyond(peer, e):
	case !a.seated(peer):
		a.askForProof(peer)
	case e.Generation > a.place.generation() && a.place.generation() > 0:
		a.reportForeign(peer, e.Generation)
	case a.dir.takeHint(peer, e):
		a.wakes.follow.Set()
	}
}

// reportForeign hears that a peer belongs to a higher generation. It is a hint about whom to ask:
// the own ledger is set aside once the newer one was received from a peer that may vote, not
// before.
func (a *authority) reportForeign(peer taskstate.PeerID, generation uint64, others ...taskstate.PeerID) {
	own := a.place.generation()
	if generation <= own || own == 0 || a.generationBeyond(peer, generation) {
		return
	}
	ask := slices.DeleteFunc(append([]taskstate.PeerID{peer}, others...), func(p taskstate.PeerID) bool {
		return p == "" || p == a.cfg.Self || !a.mayVote(p)
	})
	if a.dir.addForeign(generation, ask) {
		a.cfg.Log.Warn("a peer belongs to a newer generation of the ledger", "peer", peer, "theirs", generation, "ours", own)
		a.wakes.follow.Set()
	}
}

// epochBeyond tells of an epoch that no honest peer can name, by what is known here, and counts it.
// Where nothing is known yet nothing bounds it but the generation.
func (a *authority) epochBeyond(peer taskstate.PeerID, e taskstate.Epoch) bool {
	known := a.newestEpoch()
	far := e.Generation > known.Generation+admission.MaxLeap ||
		known.Term > 0 && e.Generation == known.Generation && e.Term > known.Term+admission.MaxLeap || e.Term > maxIndex
	if far {
		a.refused.Note(peer, "an epoch that no honest peer can name")
	}
	return far
}

// newestEpoch is the newest epoch known here.
func (a *authority) newestEpoch() (e taskstate.Epoch) {
	a.place.rep.Read(func(s *ledger.State) { e = s.Epoch() })
	if _, led, _ := a.dir.coordinator(); e.Less(led) {
		return led
	}
	return e
}

// generationBeyond is epochBeyond for a generation alone.
func (a *authority) generationBeyond(peer taskstate.PeerID, generation uint64) bool {
	if own := a.place.generation(); generation > own+admission.MaxLeap && own > 0 {
		a.refused.Note(peer, "a generation of the ledger that no honest peer can name")
		return true
	}
	return false
}

// indexBeyond tells of an index of an entry, or of what is said to follow from one, that cannot
// follow on what is known here.
func (a *authority) indexBeyond(peer taskstate.PeerID, index uint64) bool {
	if index <= a.place.rep.Applied()+admission.MaxLeap {
		return false
	}
	a.refused.Note(peer, "an index of the ledger that no honest peer can name")
	return true
}
