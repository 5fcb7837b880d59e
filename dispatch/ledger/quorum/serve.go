package quorum

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// handleVoter answers one question.
func (n *Node) handleVoter(peer string, c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(far.For(n.cfg.Net, peer, voterTimeout)))
	var ask voterAsk
	if err := wire.NewReader(c, raftHelloCap).Read(&ask); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(n.life, leaveTimeout)
	defer cancel()
	n.clocks.hear(peer, ask.Clock)
	n.seating.learnMarks(peer, ask.Marks)
	a, err := n.answerVoter(ctx, peer, ask)
	if err != nil {
		a.Why = err.Error()
	}
	a.OK, a.Lost, a.Marks = err == nil, n.identity.lossForOthers(), n.marks.show(n.place.seat.Load())
	a.Clock = n.clocks.own()
	wire.Clip(&a, n.place.rep.Spoken())
	_ = c.SetDeadline(time.Now().Add(voterTimeout))
	_ = wire.NewWriter(c, raftHelloCap).Send(a)
}

func (n *Node) answerVoter(ctx context.Context, peer string, ask voterAsk) (voterAnswer, error) {
	switch {
	case ask.Probe != nil: // anybody in the cluster may need the coordinator
		return n.prober.answer(ctx, peer, *ask.Probe)
	case ask.Chain != nil:
		return n.compared.answer(ask.Chain), nil
	case (ask.Prepare != nil || ask.Status != nil) && !n.authority.seated(peer):
		n.authority.askForProof(peer)
		return voterAnswer{}, fmt.Errorf("%s: %w", peer, errUnseated)
	case (ask.Copy != nil || ask.Log != nil) && !n.authority.mayVote(peer):
		return voterAnswer{}, fmt.Errorf("%s is not known here as a possible voter", peer)
	case ask.Prepare != nil:
		return n.prepare(peer, *ask.Prepare)
	case ask.Status != nil:
		return n.seating.status(*ask.Status)
	case ask.Leave != nil:
		if ask.Leave.Peer != peer {
			return voterAnswer{}, errors.New("a voter leaves for itself only")
		}
		return voterAnswer{}, n.electorate.letGo(ctx, *ask.Leave)
	case ask.Log != nil:
		own := n.place.point(ask.Log.Index)
		if own != nil && own.Index == ask.Log.Index && own.name() != ask.Log.name() {
			n.compared.differsIn(own.Index) // it asks because of that, and this peer may be the one that is wrong
		}
		return voterAnswer{Log: own}, nil
	case ask.Copy != nil:
		c, err := n.Copy()
		return voterAnswer{Copy: &c}, err
	case len(ask.Marks) == 0 && ask.Clock == 0:
		return voterAnswer{}, errors.New("an empty question")
	}
	return voterAnswer{}, nil // a question for marks and the clock, which come with every answer
}

var errStopping = errors.New("this peer is stopping")

// prepare takes a seat: raft starts with an empty log and waits for the coordinator to add it.
func (n *Node) prepare(peer taskstate.PeerID, ask seatAsk) (voterAnswer, error) {
	self := n.identity.server()
	if ask.Server != self.server() {
		return voterAnswer{None: true}, fmt.Errorf("this is %s", self.server())
	}
	if n.authority.generationBeyond(peer, ask.Generation) {
		return voterAnswer{}, fmt.Errorf("generation %d is beyond what any honest peer knows", ask.Generation)
	}
	if g := n.place.generation(); g > ask.Generation {
		return voterAnswer{}, fmt.Errorf("generation %d here, %d there", g, ask.Generation)
	}
	if n.seating.life.LockUntil(n.life) != nil { // Close holds it while it waits for this
		return voterAnswer{}, errStopping
	}
	defer n.seating.life.Unlock()
	if n.life.Err() != nil {
		return voterAnswer{}, errStopping
	}
	if s := n.place.seat.Load(); s != nil && s.generation < ask.Generation {
		n.authority.reportForeign(peer, ask.Generation) // the seat is set aside once the newer ledger is seen
		return voterAnswer{None: true}, fmt.Errorf("generation %d here, %d there", s.generation, ask.Generation)
	}
	if n.place.seat.Load() == nil {
		if err := n.seating.begin(ask.Generation, nil); err != nil {
			n.cfg.Log.Warn("asked to become a voter, and cannot", "err", err)
			return voterAnswer{}, err
		}
		n.cfg.Log.Info("asked to become a voter")
	}
	return n.seating.status(ask)
}

// status says how far the log of a seat is: nowhere, as long as not all is here that a voter has to
// know.
func (t *seating) status(ask seatAsk) (voterAnswer, error) {
	s := t.place.seat.Load()
	if s == nil || s.self.server() != ask.Server || s.generation != ask.Generation {
		return voterAnswer{None: true}, errNoSeat
	}
	if lacks(t.place.rep) {
		return voterAnswer{}, nil
	}
	return voterAnswer{Last: s.raft.LastIndex()}, nil
}

// handleRaft is the accepting side of the hello. It returns when raft has taken over the stream or
// it was refused.
func (n *Node) handleRaft(peer string, c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(far.For(n.cfg.Net, peer, raftHelloTimeout)))
	var h raftHello
	if err := wire.NewReader(c, raftHelloCap).Read(&h); err != nil {
		_ = c.Close()
		return
	}
	s, why := n.admitRaft(peer, h)
	a := raftAnswer{OK: why == nil, Generation: n.place.generation()}
	if s := n.place.seat.Load(); s != nil {
		a.Marks = n.marks.show(s)
		if h.Log != nil {
			a.Log = s.point(h.Log.Index)
		}
	}
	wire.Clip(&a, n.place.rep.Spoken())
	if why != nil {
		a.Why = why.Error()
		n.cfg.Log.Debug("refused a raft stream", "peer", peer, "why", why)
	}
	if err := wire.NewWriter(c, raftHelloCap).Send(a); err != nil || why != nil {
		_ = c.Close()
		return
	}
	_ = c.SetDeadline(time.Time{})
	_ = s.stream.offer(c, peer)
}

// admitRaft checks a hello: same generation, meant for this life of this peer, and from a peer that
// may vote.
func (n *Node) admitRaft(peer string, h raftHello) (*seat, error) {
	s := n.place.seat.Load()
	if s == nil {
		return nil, errNoSeat
	}
	from, _, err := parseServer(h.From)
	switch {
	case err != nil:
		return nil, err
	case from != peer:
		return nil, fmt.Errorf("%s speaks for %s", peer, from)
	case h.Generation != s.generation:
		if h.Generation > s.generation {
			n.authority.reportForeign(peer, h.Generation)
		}
		return nil, fmt.Errorf("generation %d here, %d there", s.generation, h.Generation)
	case h.To != s.stream.self.server():
		return nil, fmt.Errorf("%s was lost with its disk; this is %s", h.To, s.stream.self.server())
	case !n.authority.seated(peer):
		n.authority.askForProof(peer)
		return nil, fmt.Errorf("%s: %w", peer, errUnseated)
	}
	if n.seating.learnMarks(peer, h.Marks); s.unsound.Load() != nil {
		return nil, errNoSeat
	}
	if n.marks.turnedBack(h.From, h.Generation, h.Marks) {
		return nil, fmt.Errorf("%s had acknowledged more than it knows of now: its folder was turned back", h.From)
	}
	if err := s.against(h.Log, n.compared.differsIn); err != nil {
		return nil, err
	}
	return s, nil
}
