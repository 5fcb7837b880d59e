package mark

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coveyproject/covey/p2p/wire"
)

// Signed is a mark with its owner's signature: a holder can prove to anybody, the owner
// included, how far that had acknowledged.
type Signed struct {
	Mark Mark   `cbor:"1,keyasint"`
	Sig  []byte `cbor:"2,keyasint"`
}

const (
	domain   = "covey ledger mark 1\n"
	maxSig   = 256
	maxMarks = 16 // of one Book: five voters, and seats they had before
)

// Sign makes a Signed of an own mark.
func Sign(m Mark, sign func([]byte) ([]byte, error)) (Signed, error) {
	b, err := wire.Marshal(m)
	if err != nil {
		return Signed{}, err
	}
	sig, err := sign(append([]byte(domain), b...))
	return Signed{Mark: m, Sig: sig}, err
}

// Check proves that the peer in the server's name signed the mark.
func (s Signed) Check(verify func(peer string, data, sig []byte) error) error {
	peer, _, ok := strings.Cut(s.Mark.Server, "/")
	if !ok || len(s.Mark.Server) > maxServer || len(s.Sig) > maxSig {
		return errors.New("a mark of no server")
	}
	b, err := wire.Marshal(s.Mark)
	if err != nil {
		return err
	}
	if err := verify(peer, append([]byte(domain), b...), s.Sig); err != nil {
		return fmt.Errorf("a mark of %s: %w", s.Mark.Server, err)
	}
	return nil
}

// Book is the newest mark that was seen of each server. The zero value is empty. Not safe for
// concurrent use.
type Book struct{ list []Signed }

// Add keeps a mark that was checked, if it is newer than what is known, and tells whether it is. A
// full book forgets one of the oldest generation.
func (b *Book) Add(s Signed) (news bool) {
	i := slices.IndexFunc(b.list, func(o Signed) bool { return o.Mark.Same(s.Mark) })
	if i >= 0 {
		if old := b.list[i].Mark; !old.Behind(s.Mark) || s.Mark.Behind(old) {
			return false
		}
		b.list[i] = s
		return true
	}
	b.list = append(b.list, s)
	if len(b.list) > maxMarks {
		slices.SortStableFunc(b.list, func(x, y Signed) int { return cmp.Compare(y.Mark.Generation, x.Mark.Generation) })
		b.list = b.list[:maxMarks]
	}
	return true
}

// Of is what is known of one server.
func (b *Book) Of(server string, generation uint64) (Signed, bool) {
	i := slices.IndexFunc(b.list, func(o Signed) bool { return o.Mark.Same(Mark{Server: server, Generation: generation}) })
	if i < 0 {
		return Signed{}, false
	}
	return b.list[i], true
}

// In lists what is known of the servers of one generation.
func (b *Book) In(generation uint64) (out []Signed) {
	for _, s := range b.list {
		if s.Mark.Generation == generation {
			out = append(out, s)
		}
	}
	return out
}

// Newest is the highest generation of which there are marks, 0 if there are none.
func (b *Book) Newest() (generation uint64) {
	for _, s := range b.list {
		generation = max(generation, s.Mark.Generation)
	}
	return generation
}

// Encode writes the book.
func (b *Book) Encode() ([]byte, error) { return wire.Marshal(b.list) }

// DecodeBook reads what Encode wrote. What is in it is checked again by its users: see Check.
func DecodeBook(data []byte) (Book, error) {
	var list []Signed
	if err := wire.Unmarshal(data, &list); err != nil {
		return Book{}, fmt.Errorf("the marks of other voters: %w", err)
	}
	return Book{list: list[:min(len(list), maxMarks)]}, nil
}
