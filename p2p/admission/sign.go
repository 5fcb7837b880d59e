package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/coveyproject/covey/p2p/wire"
)

// Signer is a peer that can sign: p2p.Host is one.
type Signer interface {
	Self() string // own peer id
	Sign(data []byte) ([]byte, error)
}

// VerifyFunc tells whether sig is peer's signature over data; p2p.Verify is one. nil means it is.
type VerifyFunc func(peer string, data, sig []byte) error

// ErrBadEntry is returned for an entry that is malformed or not signed by the peer it names.
var ErrBadEntry = errors.New("bad roster entry")

// domain separates signatures over entries from all others made with the same key.
const domain = "covey roster entry 1\x00"

// Limits of an entry, in bytes: what strangers show must stay small.
const (
	maxID   = 128
	maxName = 64
	maxSig  = 256
)

// Signed returns the entry with By and Sig set by s.
func (e Entry) Signed(s Signer) (Entry, error) {
	e.By, e.Sig = s.Self(), nil
	data, err := e.signedBytes()
	if err != nil {
		return Entry{}, err
	}
	if e.Sig, err = s.Sign(data); err != nil {
		return Entry{}, fmt.Errorf("sign the roster entry of %s: %w", e.Peer, err)
	}
	return e, e.check()
}

// Verify tells whether the entry is well-formed and was signed by By. It does not tell whether By
// may admit: see Roster.Offer.
func (e Entry) Verify(verify VerifyFunc) error {
	if err := e.check(); err != nil {
		return err
	}
	data, err := e.signedBytes()
	if err != nil {
		return err
	}
	if err := verify(e.By, data, e.Sig); err != nil {
		return fmt.Errorf("%w: %s is not signed by %s: %w", ErrBadEntry, e.Peer, e.By, err)
	}
	return nil
}

func (e Entry) signedBytes() ([]byte, error) {
	e.Sig = nil
	b, err := wire.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode the roster entry of %s: %w", e.Peer, err)
	}
	return append([]byte(domain), b...), nil
}

func (e Entry) check() error {
	bad := func(what string) error { return fmt.Errorf("%w: %s", ErrBadEntry, what) }
	for _, id := range []string{e.Cluster, e.Peer, e.By} {
		if id == "" || len(id) > maxID || !utf8.ValidString(id) {
			return bad("cluster, peer and signer are required, of at most 128 bytes")
		}
	}
	switch {
	case len(e.Name) > maxName || !utf8.ValidString(e.Name):
		return bad("the name is longer than 64 bytes or not UTF-8")
	case len(e.Ticket) > maxID || !utf8.ValidString(e.Ticket):
		return bad("the ticket id is too long or not UTF-8")
	case len(e.Sig) == 0 || len(e.Sig) > maxSig:
		return bad("it has no signature")
	case !e.Removed && (e.Index != 0 || e.Generation != 0 || e.Term != 0):
		return bad("only a removal names its decision")
	}
	if err := CheckRoles(e.Roles); err != nil {
		return bad(err.Error())
	}
	return nil
}

// CheckRoles tells whether every role is known and none is listed twice.
func CheckRoles(roles []Role) error {
	for i, r := range roles {
		if !slices.Contains(KnownRoles(), r) {
			return fmt.Errorf("there is no role %q; there are %s", r, joined(KnownRoles()))
		}
		if slices.Contains(roles[:i], r) {
			return fmt.Errorf("the role %q is listed twice", r)
		}
	}
	return nil
}

func joined(roles []Role) string {
	words := make([]string, len(roles))
	for i, r := range roles {
		words[i] = string(r)
	}
	return strings.Join(words, ", ")
}
