package act

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/coveyproject/covey/p2p/wire"
)

// Act is somebody's word that a command is what they ask for.
type Act struct {
	By    string `cbor:"1,keyasint"` // peer id of who asks, whose key Sig is made with
	At    int64  `cbor:"2,keyasint"` // when it was asked for, milliseconds since 1970
	Until int64  `cbor:"3,keyasint"` // it counts up to then, by the ledger's stamps
	N     uint64 `cbor:"4,keyasint"` // asked for again, it has the same number and counts once
	Sig   []byte `cbor:"5,keyasint"`
}

const (
	// Lasts is how long an act is good for: longer than anybody waits for an answer, and than
	// clocks differ.
	Lasts = int64(30 * time.Minute / time.Millisecond)
	// MaxLasts bounds how far ahead of the ledger an act may end, and so how long its number is
	// remembered.
	MaxLasts = 4 * Lasts

	// domain separates signatures over acts from all others made with the same key. The id of the
	// cluster follows it: an act counts in one cluster only.
	domain = "covey act 1\x00"
	maxID  = 128
	maxSig = 256
)

// Errors of Check.
var (
	ErrUnsigned = errors.New("it is not signed by the peer that is said to ask for it")
	ErrLate     = errors.New("it was asked for too long ago")
)

// Number draws the number of an act.
func Number() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.BigEndian.Uint64(b[:])
}

// Signed is the act with the signature of By, which sign makes, over it and the command as it is
// asked for.
func (a Act) Signed(cluster string, command any, sign func([]byte) ([]byte, error)) (Act, error) {
	data, err := a.signedBytes(cluster, command)
	if err != nil {
		return Act{}, err
	}
	if a.Sig, err = sign(data); err != nil {
		return Act{}, fmt.Errorf("sign what is asked for: %w", err)
	}
	return a, nil
}

// Check tells whether By asks for the command, and still does at now. A nil verify takes every
// signature for good.
func (a Act) Check(cluster string, command any, now int64, verify func(peer string, data, sig []byte) error) error {
	switch {
	case a.By == "" || len(a.By) > maxID || len(a.Sig) == 0 || len(a.Sig) > maxSig || a.Until > now+MaxLasts:
		return ErrUnsigned
	case a.Until < now:
		return ErrLate
	}
	return a.Verify(cluster, command, verify)
}

// Verify tells whether By signed it, whenever that was.
func (a Act) Verify(cluster string, command any, verify func(peer string, data, sig []byte) error) error {
	if verify == nil {
		return nil
	}
	data, err := a.signedBytes(cluster, command)
	if err != nil {
		return err
	}
	if err := verify(a.By, data, a.Sig); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsigned, err)
	}
	return nil
}

func (a Act) signedBytes(cluster string, command any) ([]byte, error) {
	a.Sig = nil
	b, err := wire.Marshal(struct {
		_       struct{} `cbor:",toarray"`
		Act     Act
		Command any
	}{Act: a, Command: command})
	if err != nil {
		return nil, fmt.Errorf("encode what is asked for: %w", err)
	}
	return append([]byte(domain+cluster+"\x00"), b...), nil
}
