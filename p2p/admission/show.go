package admission

import (
	"context"
	"fmt"

	"github.com/coveyproject/covey/p2p/wire"
)

// RosterProtocol is the stream protocol on which a peer shows its entry to one that may not have
// heard of it, and both learn what the other's roster has; strangers may open it.
const RosterProtocol = "/covey/roster/1"

// showRequest is a chain of entries: the caller's own first, then those that vouch for it.
type showRequest struct {
	Entries []Entry `cbor:"1,keyasint"`
	Seats   []Seats `cbor:"2,keyasint,omitempty"` // that the peer that signed them holds a seat
}

// maxChain and maxShown cap the entries and records of seats one shows: they must fit a stranger's
// frame.
const (
	maxChain = 8
	maxShown = 4
)

// Show presents own entry, and those that vouch for it, to via, and takes what via's roster has
// that this one does not and that can be proved. A *Refusal means via does not admit this peer; if
// the reason is a removal, the roster holds the signed proof afterwards. Called when a returning
// peer meets another that changed while it was away, and when a dial was answered with "not
// admitted".
func Show(ctx context.Context, n Net, via string, r *Roster) error {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	req := showRequest{Entries: r.Chain(n.Self(), maxChain)}
	if len(req.Entries) == 0 {
		return fmt.Errorf("%w: this peer has no roster entry to show; join with a ticket", ErrNotAdmitted)
	}
	if r.seats != nil {
		req.Seats = r.seats.ShortProof(maxShown)
	}
	req = req.trimmed()
	c, err := dial(ctx, n, via, RosterProtocol)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := wire.NewWriter(c, StrangerFrame).Send(req); err != nil {
		return lost(ctx, via, err)
	}
	a, err := readAnswer(wire.NewReader(c, 0))
	if err != nil {
		return lost(ctx, via, err)
	}
	offered := r.offerSeats(a.Seats)
	if err := r.Offer(a.Roster...); err != nil {
		offered = err
	}
	if a.Refusal != nil {
		return a.Refusal
	}
	if offered != nil {
		return fmt.Errorf("some of %s's roster was not taken over: %w", via, offered)
	}
	return nil
}

// show is the other side: learn, then tell – everything to an admitted peer, to a removed one its
// removal, to others nothing.
func (s *server) show(_ context.Context, peer string, r *wire.Reader, w *wire.Writer) error {
	var req showRequest
	if err := r.Read(&req); err != nil {
		return err
	}
	if len(req.Entries) > maxChain {
		return fmt.Errorf("%d entries shown, at most %d are looked at", len(req.Entries), maxChain)
	}
	if len(req.Seats) > maxShown {
		return fmt.Errorf("%d records of seats shown, at most %d are looked at", len(req.Seats), maxShown)
	}
	_ = s.roster.offerSeats(req.Seats) // what cannot be proved proves nothing in turn
	learnt := s.roster.Offer(req.Entries...)
	a := JoinAnswer{Refusal: &Refusal{Code: Refused}}
	switch e, known := s.roster.Get(peer); {
	case known && !e.Removed:
		a = JoinAnswer{Entry: e, Roster: s.roster.All(), Cluster: s.roster.Cluster(), Seats: s.roster.proof()}
	case known:
		a.Roster, a.Seats = []Entry{e}, s.roster.proof()
	}
	if a.Refusal != nil {
		s.cfg.Log.Info("a peer showed an entry that does not let it in", "peer", peer, "error", learnt)
	}
	return writeAnswer(w, a)
}

func (r *Roster) offerSeats(s []Seats) error {
	if r.seats == nil || len(s) == 0 {
		return nil
	}
	return r.seats.Offer(nil, s...)
}

func (r *Roster) proof() []Seats {
	if r.seats == nil {
		return nil
	}
	return r.seats.Proof()
}

// trimmed drops vouchers from the end, and then the oldest records of seats, until the request fits
// a stranger's frame.
func (q showRequest) trimmed() showRequest {
	for len(q.Entries) > 1 || len(q.Seats) > 0 {
		if b, err := wire.Marshal(q); err == nil && len(b) <= StrangerFrame {
			break
		}
		if len(q.Entries) > 1 {
			q.Entries = q.Entries[:len(q.Entries)-1]
		} else {
			q.Seats = q.Seats[1:]
		}
	}
	return q
}
