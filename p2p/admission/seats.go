package admission

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/coveyproject/covey/p2p/wire"
)

// Seats says who holds a seat in the ledger: the voters of a configuration that was committed, as
// one says who held a seat in the configuration before. Only who holds a seat decides; the role
// voter merely makes a peer eligible for one.
type Seats struct {
	Cluster    string   `cbor:"1,keyasint"`
	Generation uint64   `cbor:"2,keyasint"` // of the ledger
	Index      uint64   `cbor:"3,keyasint"` // of the configuration in the ledger's log
	Voters     []string `cbor:"4,keyasint"` // peer ids
	By         string   `cbor:"5,keyasint"`
	Sig        []byte   `cbor:"6,keyasint,omitempty"` // By's, over the encoding without it
}

// ErrBadSeats is returned for a record of seats that is malformed or not signed by whom it names.
var ErrBadSeats = errors.New("bad record of seats")

const (
	seatsDomain = "covey seats 1\x00"
	maxSeats    = 16 // voters in one record; there are at most five, and a few more while they change
)

// Holds tells whether a peer holds a seat by this record.
func (s Seats) Holds(peer string) bool { return slices.Contains(s.Voters, peer) }

// Compare orders records by what they are of: generation, then index.
func (s Seats) Compare(o Seats) int {
	return cmp.Or(cmp.Compare(s.Generation, o.Generation), cmp.Compare(s.Index, o.Index))
}

func (s Seats) equal(o Seats) bool {
	return s.Cluster == o.Cluster && s.Generation == o.Generation && s.Index == o.Index && slices.Equal(s.Voters, o.Voters) &&
		s.By == o.By && slices.Equal(s.Sig, o.Sig)
}

func (s Seats) signedBytes() ([]byte, error) {
	s.Sig = nil
	b, err := wire.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode a record of seats: %w", err)
	}
	return append([]byte(seatsDomain), b...), nil
}

// SignedBy returns the record with By and Sig set.
func (s Seats) SignedBy(by Signer) (Seats, error) {
	s.By = by.Self()
	data, err := s.signedBytes()
	if err == nil {
		s.Sig, err = by.Sign(data)
	}
	return s, err
}

// check tells whether a record is well-formed and signed by By. A nil verify takes every signature
// for good.
func (s Seats) check(verify VerifyFunc) error {
	for _, id := range append([]string{s.Cluster, s.By}, s.Voters...) {
		if id == "" || len(id) > maxID || !utf8.ValidString(id) {
			return fmt.Errorf("%w: ids are of 1 to %d bytes", ErrBadSeats, maxID)
		}
	}
	if len(s.Voters) == 0 || len(s.Voters) > maxSeats || len(s.Sig) > maxSig || s.Generation == 0 {
		return fmt.Errorf("%w: it has %d voters, of generation %d", ErrBadSeats, len(s.Voters), s.Generation)
	}
	if verify == nil {
		return nil
	}
	data, err := s.signedBytes()
	if err != nil {
		return err
	}
	if err := verify(s.By, data, s.Sig); err != nil {
		return fmt.Errorf("%w: it is not signed by %s: %w", ErrBadSeats, s.By, err)
	}
	return nil
}
