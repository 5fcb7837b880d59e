package admission

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/coveyproject/covey/p2p/wire"

	"github.com/multiformats/go-multiaddr"
)

// PeerAddr is where a peer can be dialled: its id and its multiaddrs, without /p2p.
type PeerAddr struct {
	ID    string   `cbor:"1,keyasint"`
	Addrs []string `cbor:"2,keyasint,omitempty"`
}

// Ticket invites into a cluster: a peer that shows Secret to one of the peers in Addrs is admitted
// with Roles, until Expires.
type Ticket struct {
	ID      string
	Secret  []byte // 16 to 20 bytes
	Cluster string // cluster id
	Roles   []Role // what it gives; none means all
	Expires int64  // milliseconds since 1970, 0 = never; only a hint, the ledger decides
	Addrs   []PeerAddr
	Roots   []string // admins whose word counts: what whoever made the ticket knows of the cluster
}

// Errors of ParseTicket, for errors.Is; the messages say more.
var (
	ErrNotTicket = errors.New("not a ticket")
	ErrTruncated = errors.New("truncated ticket")
	ErrMistyped  = errors.New("mistyped ticket")
)

// Shape of a ticket: ticketWord, then base32 of length(2) body checksum(4). The length tells a
// ticket that was cut from one that was mistyped.
const (
	ticketFamily = "covey"
	ticketWord   = "covey1"
	ticketMax    = 16 << 10 // characters
	maxRoots     = 4        // in a ticket
	sumLen       = 4
)

// String spells the ticket on one line. It is "" for a ticket that cannot be spelt (above 64 KiB):
// ParseTicket refuses that.
func (t Ticket) String() string {
	w := ticketBody{ID: t.ID, Secret: t.Secret, Cluster: t.Cluster, Roles: t.Roles, Expires: t.Expires}
	for _, p := range t.Addrs {
		c := compactPeer{ID: pack("/p2p/", p.ID)}
		for _, a := range p.Addrs {
			c.Addrs = append(c.Addrs, pack("", a))
		}
		w.Addrs = append(w.Addrs, c)
	}
	for _, r := range t.Roots[:min(len(t.Roots), maxRoots)] {
		w.Roots = append(w.Roots, pack("/p2p/", r))
	}
	body, err := wire.Marshal(w)
	if err != nil || len(body) > 0xffff {
		return ""
	}
	b := binary.BigEndian.AppendUint16(nil, uint16(len(body)))
	b = append(b, body...)
	return ticketWord + text.EncodeToString(append(b, checksum(b)...))
}

// ParseTicket reads what String wrote. Space anywhere (a wrapped line) and letter case do not
// matter. The error says whether the text is no ticket, was cut, or was mistyped, and what to do.
func ParseTicket(s string) (Ticket, error) {
	s = strings.ToLower(strings.Join(strings.Fields(s), ""))
	body, err := ticketBytes(s)
	if err != nil {
		return Ticket{}, err
	}
	var w ticketBody
	if err := wire.Unmarshal(body, &w); err != nil {
		return Ticket{}, fmt.Errorf("%w: made by another version of peer? (%v)", ErrNotTicket, err)
	}
	t := Ticket{ID: w.ID, Secret: w.Secret, Cluster: w.Cluster, Roles: w.Roles, Expires: w.Expires}
	for _, c := range w.Addrs {
		p := PeerAddr{ID: unpack("/p2p/", c.ID)}
		for _, a := range c.Addrs {
			p.Addrs = append(p.Addrs, unpack("", a))
		}
		t.Addrs = append(t.Addrs, p)
	}
	for _, r := range w.Roots {
		t.Roots = append(t.Roots, unpack("/p2p/", r))
	}
	if len(t.Secret) < secretLen || len(t.Secret) > maxSecretLen || t.Cluster == "" || CheckRoles(t.Roles) != nil {
		return Ticket{}, fmt.Errorf("%w: made by another version of peer?", ErrNotTicket)
	}
	return t, nil
}

// ticketBytes undoes the spelling and checks length and sum.
func ticketBytes(s string) ([]byte, error) {
	rest, ok := strings.CutPrefix(s, ticketWord)
	switch {
	case ok:
	case s == "":
		return nil, fmt.Errorf("%w: it is empty; make one with `peer ticket` on a peer of the cluster", ErrNotTicket)
	case len(s) < len(ticketWord) && strings.HasPrefix(ticketWord, s):
		return nil, errTruncated()
	case strings.HasPrefix(s, ticketFamily) && len(s) > len(ticketWord) && s[len(ticketFamily)] > '1' && s[len(ticketFamily)] <= '9':
		return nil, fmt.Errorf("%w this version of peer can read (it begins %q): update peer on this machine", ErrNotTicket, s[:len(ticketWord)])
	default:
		return nil, fmt.Errorf("%w: a ticket is one line that begins with %q; make one with `peer ticket` on a peer of the cluster", ErrNotTicket, ticketWord)
	}
	if len(rest) > ticketMax {
		return nil, fmt.Errorf("%w: %d characters is too long", ErrNotTicket, len(s))
	}
	if i := strings.IndexFunc(rest, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '2' && r <= '7') }); i >= 0 {
		return nil, fmt.Errorf("%w: %q at character %d never occurs in a ticket (only a-z and 2-7): copy the whole line again",
			ErrMistyped, []rune(rest[i:])[0], len(ticketWord)+i+1)
	}
	return checkedBody(rest)
}

func checkedBody(rest string) ([]byte, error) {
	// A cut may leave a number of characters no encoding has: drop the odd ones, the length tells.
	whole := rest
	for n := len(whole) % 8; n == 1 || n == 3 || n == 6; n = len(whole) % 8 {
		whole = whole[:len(whole)-1]
	}
	b, err := text.DecodeString(whole)
	if err != nil || len(b) < 2 {
		return nil, errTruncated()
	}
	want := 2 + int(binary.BigEndian.Uint16(b)) + sumLen
	switch {
	case len(b) < want:
		return nil, errTruncated()
	case len(b) > want || len(whole) != len(rest):
		return nil, fmt.Errorf("%w: %d characters too many: copy the whole line again, and nothing else",
			ErrMistyped, len(rest)-text.EncodedLen(want))
	case text.EncodeToString(b) != rest || !bytes.Equal(checksum(b[:want-sumLen]), b[want-sumLen:]):
		return nil, fmt.Errorf("%w: its checksum does not fit, some character is wrong: copy the whole line again", ErrMistyped)
	}
	return b[2 : want-sumLen], nil
}

func errTruncated() error {
	return fmt.Errorf("%w: its end is missing: copy the whole line again", ErrTruncated)
}

func checksum(b []byte) []byte {
	h := sha256.Sum256(b)
	return h[:sumLen]
}

type ticketBody struct {
	ID      string        `cbor:"1,keyasint,omitempty"`
	Secret  []byte        `cbor:"2,keyasint"`
	Cluster string        `cbor:"3,keyasint"`
	Roles   []Role        `cbor:"4,keyasint,omitempty"`
	Expires int64         `cbor:"5,keyasint,omitempty"`
	Addrs   []compactPeer `cbor:"6,keyasint,omitempty"`
	Roots   [][]byte      `cbor:"7,keyasint,omitempty"`
}

type compactPeer struct {
	_     struct{} `cbor:",toarray"`
	ID    []byte
	Addrs [][]byte
}

// pack shortens a multiaddr (after prefix) to its binary form, which halves a ticket. What does not
// survive the way there and back stays text. The first byte tells which: no multiaddr begins with
// 0.
func pack(prefix, s string) []byte {
	if m, err := multiaddr.NewMultiaddr(prefix + s); err == nil && m.String() == prefix+s {
		return m.Bytes()
	}
	return append([]byte{0}, s...)
}

func unpack(prefix string, b []byte) string {
	if len(b) > 0 && b[0] != 0 {
		if m, err := multiaddr.NewMultiaddrBytes(b); err == nil {
			return strings.TrimPrefix(m.String(), prefix)
		}
		return ""
	}
	return strings.ToValidUTF8(string(bytes.TrimPrefix(b, []byte{0})), "")
}
