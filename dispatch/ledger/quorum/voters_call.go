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

// callVoter asks one question.
func (n *Node) callVoter(ctx context.Context, peer taskstate.PeerID, ask voterAsk, timeout time.Duration) (voterAnswer, error) {
	var a voterAnswer
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := n.cfg.Net.Dial(ctx, peer, VoterProtocol)
	if err != nil {
		return a, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_ = c.SetDeadline(time.Now().Add(timeout))
	ask.Marks = n.showMarks(n.currentSeat())
	if err := wire.NewWriter(c, raftHelloCap).Send(ask); err != nil {
		return a, err
	}
	if err := wire.NewReader(c, raftHelloCap).Read(&a); err != nil {
		return a, err
	}
	n.heardOfLoss(peer, a.Lost)
	n.learnMarks(peer, a.Marks)
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
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-n.closing:
			cancel()
		case <-stop:
		}
	}()
	n.learnMarks(peer, ask.Marks)
	a, err := n.answerVoter(ctx, peer, ask)
	if err != nil {
		a.Why = err.Error()
	}
	a.OK, a.Lost, a.Marks = err == nil, n.lostForOthers(), n.showMarks(n.currentSeat())
	_ = c.SetDeadline(time.Now().Add(voterTimeout))
	_ = wire.NewWriter(c, raftHelloCap).Send(a)
}

func (n *Node) answerVoter(ctx context.Context, peer string, ask voterAsk) (voterAnswer, error) {
	switch {
	case ask.Probe != nil: // anybody in the cluster may need the coordinator
		return n.answerProbe(ctx, peer, *ask.Probe)
	case ask.Chain != nil:
		return n.answerChain(ask.Chain), nil
	case (ask.Prepare != nil || ask.Status != nil) && !n.Seated(peer):
		n.askForProof(peer)
		return voterAnswer{}, fmt.Errorf("%s: %w", peer, errUnseated)
	case ask.Copy != nil && !n.mayVote(peer):
		return voterAnswer{}, fmt.Errorf("%s is not known here as a possible voter", peer)
	case ask.Prepare != nil:
		return n.prepare(peer, *ask.Prepare)
	case ask.Status != nil:
		return n.seatStatus(*ask.Status)
	case ask.Leave != nil:
		if ask.Leave.Peer != peer {
			return voterAnswer{}, errors.New("a voter leaves for itself only")
		}
		return voterAnswer{}, n.letGo(ctx, *ask.Leave)
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
	self := n.server()
	if ask.Server != self.server() {
		return voterAnswer{None: true}, fmt.Errorf("this is %s", self.server())
	}
	if n.generationBeyond(peer, ask.Generation) {
		return voterAnswer{}, fmt.Errorf("generation %d is beyond what any honest peer knows", ask.Generation)
	}
	if g := n.Generation(); g > ask.Generation {
		return voterAnswer{}, fmt.Errorf("generation %d here, %d there", g, ask.Generation)
	}
	n.life.Lock()
	defer n.life.Unlock()
	select {
	case <-n.closing:
		return voterAnswer{}, errors.New("this peer is stopping")
	default:
	}
	if s := n.currentSeat(); s != nil && s.generation < ask.Generation {
		n.reportForeign(peer, ask.Generation) // the seat is set aside once the newer ledger is seen
		return voterAnswer{None: true}, fmt.Errorf("generation %d here, %d there", s.generation, ask.Generation)
	}
	if n.currentSeat() == nil {
		if err := n.beginSeat(ask.Generation, nil); err != nil {
			n.cfg.Log.Warn("asked to become a voter, and cannot", "err", err)
			return voterAnswer{}, err
		}
		n.cfg.Log.Info("asked to become a voter")
	}
	return n.seatStatus(ask)
}

// seatStatus says how far the log of a seat is.
func (n *Node) seatStatus(ask seatAsk) (voterAnswer, error) {
	s := n.currentSeat()
	if s == nil || s.self.server() != ask.Server || s.generation != ask.Generation {
		return voterAnswer{None: true}, errNoSeat
	}
	return voterAnswer{Last: s.raft.LastIndex()}, nil
}
