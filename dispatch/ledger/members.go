package ledger

import (
	"maps"

	"covey/p2p/admission"
	"covey/taskstate"
)

// Member is a peer as the ledger knows it.
type Member struct {
	Entry       admission.Entry       `cbor:"1,keyasint"` // its line of the roster; a tombstone once it was removed
	Incarnation taskstate.Incarnation `cbor:"2,keyasint,omitempty"`
	Name        string                `cbor:"3,keyasint,omitempty"`
	Left        bool                  `cbor:"4,keyasint,omitempty"` // left on purpose, until it registers again
	Since       int64                 `cbor:"5,keyasint,omitempty"` // ledger stamp of its last change: admitted, registered, left, removed

	Availability Availability      `cbor:"6,keyasint,omitempty"`  // "" is active; use Takes
	Grace        int64             `cbor:"7,keyasint,omitempty"`  // drained: milliseconds from AvailSince that batch tasks may go on
	AvailReason  string            `cbor:"8,keyasint,omitempty"`  // as somebody said
	AvailSince   int64             `cbor:"9,keyasint,omitempty"`  // ledger stamp
	Labels       map[string]string `cbor:"10,keyasint,omitempty"` // laid over what the peer says of itself; never changed in place
	Removed      []string          `cbor:"11,keyasint,omitempty"` // labels that do not count, whatever the peer says; sorted
	Dialect      int               `cbor:"12,keyasint,omitempty"` // it reads, as it said; 0 is 1
}

// Takes tells whether the peer takes new tasks as far as people said: it is not paused or drained.
func (m Member) Takes() bool { return m.Availability == "" || m.Availability == AvailActive }

// LabelsOver lays the labels that people gave the peer over those it says of itself.
func (m Member) LabelsOver(own map[string]string) map[string]string {
	out := make(map[string]string, len(own)+len(m.Labels))
	maps.Copy(out, own)
	for _, k := range m.Removed {
		delete(out, k)
	}
	maps.Copy(out, m.Labels)
	return out
}

// In tells whether the peer is a member now: admitted and not removed.
func (m Member) In() bool { return !m.Entry.Removed }

// InviteRecord is an invite and what became of it.
type InviteRecord struct {
	Invite  `cbor:"1,keyasint"`
	Used    int   `cbor:"2,keyasint,omitempty"`
	Revoked bool  `cbor:"3,keyasint,omitempty"`
	Created int64 `cbor:"4,keyasint,omitempty"` // ledger stamp
}

// Check tells why the invite does not admit one more peer at the given time (milliseconds since
// 1970): CodeRevoked, CodeExpired, CodeUsedUp, or CodeNone if it does.
func (r InviteRecord) Check(at int64) Code {
	switch {
	case r.Revoked:
		return CodeRevoked
	case r.Expires > 0 && at >= r.Expires:
		return CodeExpired
	case r.Uses > 0 && r.Used >= r.Uses:
		return CodeUsedUp
	}
	return CodeNone
}

// roster is who was ever admitted, and the invites. Only State calls it, which also sees to the
// tasks of those who go.
type roster struct {
	members map[taskstate.PeerID]*Member
	invites map[string]*InviteRecord
	dialect int // that all members read; 0 is 1
}

func newRoster() roster {
	return roster{members: map[taskstate.PeerID]*Member{}, invites: map[string]*InviteRecord{}}
}

// owner is one incarnation of one peer. Slots name it by a small number.
type owner struct {
	_           struct{} `cbor:",toarray"`
	Peer        taskstate.PeerID
	Incarnation taskstate.Incarnation
}

type owners struct {
	list []owner
	ids  map[owner]uint32
}

func newOwners() owners { return owners{ids: map[owner]uint32{}} }

// id gives an owner its number, a new one if need be.
func (o *owners) id(peer taskstate.PeerID, inc taskstate.Incarnation) uint32 {
	k := owner{Peer: peer, Incarnation: inc}
	if n, ok := o.ids[k]; ok {
		return n
	}
	n := uint32(len(o.list))
	o.list = append(o.list, k)
	o.ids[k] = n
	return n
}
