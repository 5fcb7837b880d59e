package membership

import (
	"fmt"

	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/starts"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// metaVersion is the version of the words between members. A member with another one is refused,
// with both numbers in the log.
const metaVersion = 1

// maxMeta is memberlist's cap in bytes; above it memberlist panics.
const maxMeta = 512

// meta is what a member says about itself: everything that rarely changes. Every change is gossiped
// to all.
type meta struct {
	Protocol    int                   `cbor:"1,keyasint"`
	Name        string                `cbor:"2,keyasint,omitempty"`
	Incarnation taskstate.Incarnation `cbor:"3,keyasint,omitempty"`
	Roles       uint                  `cbor:"4,keyasint,omitempty"` // bit i: admission.KnownRoles()[i]
	Version     string                `cbor:"5,keyasint,omitempty"`
	Addrs       []string              `cbor:"6,keyasint,omitempty"`
	Seat        taskstate.Incarnation `cbor:"7,keyasint,omitempty"` // of its seat among the voters, or of the one it would take
	Start       starts.Start          `cbor:"8,keyasint,omitzero"`
	Dialect     int                   `cbor:"9,keyasint,omitempty"`  // the newest it reads; 0 is 1
	Recipient   string                `cbor:"10,keyasint,omitempty"` // what secrets for it are sealed to
}

// encode never exceeds maxWords: texts are cut, then the last addresses are left out.
func (m meta) encode() []byte {
	m.Protocol, m.Dialect = metaVersion, wire.Dialect
	m.Name, m.Version, m.Incarnation, m.Seat = cut(m.Name, 64), cut(m.Version, 32), cut(m.Incarnation, 64), cut(m.Seat, 64)
	for {
		b, err := wire.Marshal(m)
		if err == nil && len(b) <= maxWords {
			return b
		}
		if len(m.Addrs) == 0 {
			return nil // does not happen: the rest is below 200 bytes
		}
		m.Addrs = m.Addrs[:len(m.Addrs)-1]
	}
}

func cut[S ~string](s S, n int) S {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 { // not inside a character
		n--
	}
	return s[:n]
}

func decodeMeta(b []byte) (meta, error) {
	if len(b) > maxMeta {
		return meta{}, fmt.Errorf("member's meta has %d bytes, the cap is %d", len(b), maxMeta)
	}
	var m meta
	if err := wire.Unmarshal(b, &m); err != nil {
		return meta{}, fmt.Errorf("member's meta: %w", err)
	}
	if m.Protocol != metaVersion {
		return meta{}, fmt.Errorf("member speaks protocol %d, this peer %d: run the same version of peer on both", m.Protocol, metaVersion)
	}
	return m, nil
}

func packRoles(roles []admission.Role) (bits uint) {
	for i, r := range admission.KnownRoles() {
		for _, have := range roles {
			if have == r {
				bits |= 1 << i
			}
		}
	}
	return bits
}

func unpackRoles(bits uint) (roles []admission.Role) {
	for i, r := range admission.KnownRoles() {
		if bits&(1<<i) != 0 {
			roles = append(roles, r)
		}
	}
	return roles
}
