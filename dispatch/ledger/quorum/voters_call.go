package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"covey/dispatch/ledger"
	"covey/dispatch/ledger/quorum/mark"
	"covey/p2p/wire"
	"covey/taskstate"
)

// VoterProtocol is how a coordinator asks a peer to take a seat, and how a voter asks to be let go:
// one question, one answer.
const VoterProtocol = "/covey/voter/1"

// voterAsk is a question: one field is set, or none but Marks.
type voterAsk struct {
	Prepare *seatAsk  `cbor:"1,keyasint,omitempty"` // start raft, with an empty log, to be brought up to date
	Status  *seatAsk  `cbor:"2,keyasint,omitempty"` // how far is your log
	Leave   *Voter    `cbor:"3,keyasint,omitempty"` // I am about to stop; see that those who stay can decide
	Copy    *copyAsk  `cbor:"4,keyasint,omitempty"` // how new is your copy of the ledger
	Probe   *probeAsk `cbor:"5,keyasint,omitempty"` // do you lead, or hear who does

	Marks []mark.Signed `cbor:"6,keyasint,omitempty"` // what this voter can prove of others, and of itself

	Chain *ledger.ChainMark `cbor:"8,keyasint,omitempty"` // what was your chain after this entry; mine was this
}

// seatAsk names the seat: this life of the peer, in this ledger.
type seatAsk struct {
	Generation uint64 `cbor:"1,keyasint"`
	Server     string `cbor:"2,keyasint"`
}

// voterAnswer answers. Last is the end of the peer's log.
type voterAnswer struct {
	OK    bool         `cbor:"1,keyasint,omitempty"`
	Why   string       `cbor:"2,keyasint,omitempty"`
	Last  uint64       `cbor:"3,keyasint,omitempty"`
	None  bool         `cbor:"4,keyasint,omitempty"` // there is no such seat here
	Copy  *Copy        `cbor:"5,keyasint,omitempty"`
	Probe *probeAnswer `cbor:"6,keyasint,omitempty"`

	Chain *ledger.ChainMark `cbor:"9,keyasint,omitempty"`  // nil: not known
	Marks []mark.Signed     `cbor:"10,keyasint,omitempty"` // as in voterAsk
	Lost  *Loss             `cbor:"7,keyasint,omitempty"`  // the seat this peer lost, whatever was asked
}

const (
	voterTimeout = 3 * time.Second  // for an answer
	leaveTimeout = 20 * time.Second // for the answer to Leave, which takes several decisions
)

// caller asks voters. With each question and answer go the marks that both know of, and what seats
// were lost.
type caller struct {
	net    dialer
	marks  *seenMarks
	place  *place
	tenure *tenure
	learn  func(from taskstate.PeerID, shown []mark.Signed)
}

// ask asks one question.
func (k *caller) ask(ctx context.Context, peer taskstate.PeerID, ask voterAsk, timeout time.Duration) (voterAnswer, error) {
	var a voterAnswer
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := k.net.Dial(ctx, peer, VoterProtocol)
	if err != nil {
		return a, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_ = c.SetDeadline(time.Now().Add(timeout))
	ask.Marks = k.marks.show(k.place.seat.Load())
	if err := wire.NewWriter(c, raftHelloCap).Send(ask); err != nil {
		return a, err
	}
	if err := wire.NewReader(c, raftHelloCap).Read(&a); err != nil {
		return a, err
	}
	k.tenure.hearLoss(peer, a.Lost)
	k.learn(peer, a.Marks)
	if !a.OK {
		return a, fmt.Errorf("%s: %s", peer, a.Why)
	}
	return a, nil
}

// handleVoter answers one question.
func (n *Node) handleVoter(peer string, c connT) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(voterTimeout))
	var ask voterAsk
	if err := wire.NewReader(c, raftHelloCap).Read(&ask); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(n.life, leaveTimeout)
	defer cancel()
	n.seating.learnMarks(peer, ask.Marks)
	a, err := n.answerVoter(ctx, peer, ask)
	if err != nil {
		a.Why = err.Error()
	}
	a.OK, a.Lost, a.Marks = err == nil, n.tenure.lossForOthers(), n.marks.show(n.place.seat.Load())
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
	case ask.Copy != nil && !n.authority.mayVote(peer):
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
	case ask.Copy != nil:
		c, err := n.Copy()
		return voterAnswer{Copy: &c}, err
	case len(ask.Marks) == 0:
		return voterAnswer{}, errors.New("an empty question")
	}
	return voterAnswer{}, nil // a question for marks, which come with every answer
}

// prepare takes a seat: raft starts with an empty log and waits for the coordinator to add it.
func (n *Node) prepare(peer taskstate.PeerID, ask seatAsk) (voterAnswer, error) {
	self := n.tenure.server()
	if ask.Server != self.server() {
		return voterAnswer{None: true}, fmt.Errorf("this is %s", self.server())
	}
	if n.authority.generationBeyond(peer, ask.Generation) {
		return voterAnswer{}, fmt.Errorf("generation %d is beyond what any honest peer knows", ask.Generation)
	}
	if g := n.place.generation(); g > ask.Generation {
		return voterAnswer{}, fmt.Errorf("generation %d here, %d there", g, ask.Generation)
	}
	n.seating.life.Lock()
	defer n.seating.life.Unlock()
	if n.life.Err() != nil {
		return voterAnswer{}, errors.New("this peer is stopping")
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

// status says how far the log of a seat is.
func (t *seating) status(ask seatAsk) (voterAnswer, error) {
	s := t.place.seat.Load()
	if s == nil || s.self.server() != ask.Server || s.generation != ask.Generation {
		return voterAnswer{None: true}, errNoSeat
	}
	return voterAnswer{Last: s.raft.LastIndex()}, nil
}
