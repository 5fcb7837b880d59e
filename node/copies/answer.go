package copies

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/starts"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// Protocol asks a process which start of its peer it is. It is for members.
const Protocol = "/covey/start/1"

const (
	askCap     = 8 << 10
	mostAsks   = 32               // on one stream
	answerTime = 10 * time.Second // of one stream
)

type ask struct {
	Nonce    uint64        `cbor:"1,keyasint,omitempty"` // who are you? answered by Proof
	Meet     bool          `cbor:"2,keyasint,omitempty"` // somebody else is you: answered by a Nonce for it
	Other    *starts.Proof `cbor:"3,keyasint,omitempty"` // its answer to that
	Past     *pastProof    `cbor:"4,keyasint,omitempty"` // who you were before: of version 0.2, and passed over
	Renounce *Renounced    `cbor:"5,keyasint,omitempty"` // who was you is not any more
}

type pastProof struct {
	Nonce uint64       `cbor:"1,keyasint"`
	Proof starts.Proof `cbor:"2,keyasint"`
}

type answer struct {
	Proof *starts.Proof `cbor:"1,keyasint,omitempty"`
	Nonce uint64        `cbor:"2,keyasint,omitempty"`
	Taken bool          `cbor:"3,keyasint,omitempty"`
}

// Serve answers Protocol.
func (c *Copies) Serve(peer string, conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(answerTime))
	r, w := wire.NewReader(conn, askCap), wire.NewWriter(conn, askCap)
	var nonce uint64 // for the one we are told of
	for range mostAsks {
		var q ask
		if err := r.Read(&q); err != nil {
			return
		}
		var a answer
		switch {
		case q.Nonce != 0:
			p, err := c.prove(q.Nonce)
			if err != nil {
				return
			}
			a.Proof = &p
		case q.Meet:
			nonce = drawNonce()
			a.Nonce = nonce
		case q.Other != nil:
			a.Taken = nonce != 0 && c.meet(peer, nonce, *q.Other)
			nonce = 0
		case q.Renounce != nil:
			a.Taken = c.renounce(*q.Renounce)
		}
		if err := w.Send(a); err != nil {
			return
		}
	}
}

func (c *Copies) prove(nonce uint64) (p starts.Proof, err error) {
	p = starts.Proof{Start: c.cfg.Start, Recent: c.history.Answer(nonce), Halted: c.Halted()}
	p.Sig, err = c.cfg.Sign(p.Statement(c.cfg.Self, nonce))
	return p, err
}

// own tells whether a proof is signed with our key.
func (c *Copies) own(nonce uint64, p starts.Proof) bool {
	return p.Sane() && p2p.Verify(c.cfg.Self, p.Statement(c.cfg.Self, nonce), p.Sig) == nil
}

// meet takes the answer to a challenge of ours that another process gave with our key.
func (c *Copies) meet(from string, nonce uint64, p starts.Proof) bool {
	if !c.own(nonce, p) || p.Start.Number == c.cfg.Start.Number && c.history.Has(nonce) {
		return false // nobody's, or our own
	}
	c.mu.Lock()
	news := !c.other
	c.other = true
	c.mu.Unlock()
	if news {
		text := "another process goes by this peer's identity right now: this machine or its data folder was copied. Neither votes nor takes tasks until a person decides: stop one of them and give it an identity of its own with `peer up --new-identity --join TICKET` (`peer ticket` at another peer); if the other one is gone for good, restart this one"
		c.cfg.Say.Set(c.cfg.Self, api.TroubleCopied, text)
		c.cfg.Log.Error(text, "told by", c.cfg.Name(from), "start", c.cfg.Start.Number, "other start", p.Start.Number)
		c.turn.Set()
	}
	return true
}

// renounce hears that another holder of our key has taken an identity of its own.
func (c *Copies) renounce(r Renounced) bool {
	if r.Peer != c.cfg.Self || p2p.Verify(c.cfg.Self, starts.Renunciation(r.Peer, r.Number), r.Sig) != nil {
		return false
	}
	c.mu.Lock()
	free := c.other && r.Number != c.cfg.Start.Number
	if free {
		c.other = false // should there be a third one, somebody meets it again
	}
	c.mu.Unlock()
	if free {
		c.cfg.Say.Clear(c.cfg.Self, api.TroubleCopied)
		c.cfg.Log.Info("the other process that went by this peer's identity has one of its own now")
		c.turn.Set()
	}
	return true
}

// Renounced is a start that gave its identity up, with `peer up --new-identity`.
type Renounced struct {
	Peer   taskstate.PeerID `cbor:"1,keyasint" json:"peer"`
	Number uint64           `cbor:"2,keyasint" json:"number"`
	Sig    []byte           `cbor:"3,keyasint" json:"sig"`
}

// Dial opens a stream to a peer.
type Dial func(ctx context.Context, peer, protocol string) (net.Conn, error)

// Tell tells the peer that keeps the identity.
func (r Renounced) Tell(ctx context.Context, dial Dial) error {
	c, err := dial(ctx, r.Peer, Protocol)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(lookTime))
	t := &talk{c: c, r: wire.NewReader(c, askCap), w: wire.NewWriter(c, askCap)}
	a, err := t.ask(ask{Renounce: &r})
	if err == nil && !a.Taken {
		err = fmt.Errorf("%s does not know what to make of it", r.Peer)
	}
	return err
}
