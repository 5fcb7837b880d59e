package digest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/coveyproject/covey/p2p/wire"
)

const (
	// MaxBody caps an envelope's body in bytes, so that an envelope fits a frame and a gossip
	// message.
	MaxBody = 512 << 10
	maxName = 128 // bytes of a peer id or an incarnation
	maxSig  = 512
)

const domain = "covey/envelope/1\x00"

// Envelope is one signed batch. It is immutable; Body and Sig are shared, not copied.
type Envelope struct {
	_           struct{} `cbor:",toarray"`
	Author      string   // peer id
	Incarnation string   // of the author's data folder
	Number      uint64   // from 1, without gaps
	Body        []byte   // opaque here
	Sig         []byte   // Author's, over everything above
}

type signed struct {
	_           struct{} `cbor:",toarray"`
	Author      string
	Incarnation string
	Number      uint64
	Body        []byte
}

func (e Envelope) toSign() ([]byte, error) {
	b, err := wire.Marshal(signed{Author: e.Author, Incarnation: e.Incarnation, Number: e.Number, Body: e.Body})
	if err != nil {
		return nil, err
	}
	return append([]byte(domain), b...), nil
}

// Seal makes an author's envelope.
func Seal(author, incarnation string, number uint64, body []byte, sign func([]byte) ([]byte, error)) (Envelope, error) {
	e := Envelope{Author: author, Incarnation: incarnation, Number: number, Body: body}
	b, err := e.toSign()
	if err != nil {
		return Envelope{}, err
	}
	if e.Sig, err = sign(b); err != nil {
		return Envelope{}, fmt.Errorf("cannot sign a batch: %w", err)
	}
	return e, e.check()
}

// Verify checks the author's signature.
func (e Envelope) Verify(verify func(peer string, data, sig []byte) error) error {
	b, err := e.toSign()
	if err != nil {
		return err
	}
	if err := verify(e.Author, b, e.Sig); err != nil {
		return fmt.Errorf("batch %d of %s: %w", e.Number, e.Author, err)
	}
	return nil
}

// Encode is the deterministic encoding, as it is published.
func (e Envelope) Encode() ([]byte, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	return wire.Marshal(e)
}

// Decode reads what Encode wrote; anything else is an error. The signature is not checked, see
// Verify.
func Decode(b []byte) (Envelope, error) {
	if len(b) > MaxBody+maxSig+2*maxName+64 {
		return Envelope{}, fmt.Errorf("envelope of %d bytes: the cap of its body is %d", len(b), MaxBody)
	}
	var e Envelope
	if err := wire.Unmarshal(b, &e); err != nil {
		return Envelope{}, fmt.Errorf("envelope: %w", err)
	}
	if again, err := wire.Marshal(e); err != nil || !bytes.Equal(again, b) {
		return Envelope{}, errors.New("envelope: not the deterministic encoding") // the same batch in other bytes would be gossiped anew
	}
	return e, e.check()
}

func (e Envelope) check() error {
	switch {
	case !Stream{Author: e.Author, Incarnation: e.Incarnation}.sane():
		return errors.New("envelope: author or incarnation is missing or too long")
	case e.Number == 0 || e.Number > maxNumber:
		return fmt.Errorf("envelope: number %d: batches count from 1", e.Number)
	case len(e.Body) > MaxBody || len(e.Sig) > maxSig:
		return fmt.Errorf("envelope: body of %d bytes and signature of %d: the caps are %d and %d", len(e.Body), len(e.Sig), MaxBody, maxSig)
	}
	return nil
}

// maxNumber keeps arithmetic on numbers far from overflow.
const maxNumber = 1 << 62

// size is what an envelope counts for in the store, in bytes.
func (e Envelope) size() int { return len(e.Body) + len(e.Sig) + 160 }
