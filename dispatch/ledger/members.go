package ledger

import (
	"maps"
	"slices"

	"github.com/coveyproject/covey/dispatch/ledger/act"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
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

	Grants  []RoleGrant `cbor:"13,keyasint,omitempty"` // who gave it its roles, the newest last
	Revoked bool        `cbor:"14,keyasint,omitempty"` // removed, and its word counts for nothing any more, also if it is let in again
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

	Word *act.Act `cbor:"5,keyasint,omitempty"` // of whoever made it
}

// maker is who made the ticket: whose word it is, or whom the coordinator of before names.
func (r *InviteRecord) maker() taskstate.PeerID {
	if r.Word != nil {
		return r.Word.By
	}
	return r.By
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

// heard is a member whose word counts: nil if the peer is none now, or its key was ever revoked.
func (r *roster) heard(peer taskstate.PeerID) *Member {
	if m := r.members[peer]; m != nil && m.In() && !m.Revoked {
		return m
	}
	return nil
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

// RoleGrant is the word of a person that a peer has roles: of one who said so, or of one who made
// the ticket whose secret the peer held. Both can be checked by who was not there.
type RoleGrant struct {
	Word   act.Act          `cbor:"1,keyasint"`
	Roles  []admission.Role `cbor:"2,keyasint"`
	Ticket *Invite          `cbor:"3,keyasint,omitempty"`
	Proof  []byte           `cbor:"4,keyasint,omitempty"` // with Ticket: see Admit
}

// maxGrants is how many a member keeps. Those that made it an admin go last: others may have their
// roles from it.
const maxGrants = 8

// granted remembers who gave a member its roles.
func (m *Member) granted(g RoleGrant) {
	all := slices.Clone(m.Grants) // what was handed out stays as it is
	if len(all) >= maxGrants {
		i := max(0, slices.IndexFunc(all, func(g RoleGrant) bool { return !slices.Contains(g.Roles, admission.Admin) }))
		all = slices.Delete(all, i, i+1)
	}
	m.Grants = append(all, g)
}

// Anybody among the roots of a chain is everybody: in an open cluster nobody's word is needed.
const Anybody = "*"

// holds tells whether the grant is the word of whom it names, in this cluster and for this peer. A
// nil verify takes every signature for good.
func (g RoleGrant) holds(cluster string, peer taskstate.PeerID, verify admission.VerifyFunc) bool {
	c := Command{Admit: &Admit{Entry: admission.Entry{Peer: peer, Roles: g.Roles}}}
	if t := g.Ticket; t != nil {
		if !admission.Proved(t.Secret, peer, g.Proof) || !slices.Equal(t.Roles, g.Roles) {
			return false
		}
		c = Command{Invite: t}
	}
	return g.Word.Verify(cluster, c.Asked(), verify) == nil
}

// lineage is the way back from a member to those whose word its roles come from.
type lineage struct {
	members map[taskstate.PeerID]*Member
	roots   []taskstate.PeerID // admins that the asker knows; Anybody: no word is needed
	holds   func(g RoleGrant, peer taskstate.PeerID) bool
}

// roles are those of a member that people gave it, from one of the roots on.
func (l *lineage) roles(peer taskstate.PeerID) []admission.Role {
	m := l.members[peer]
	switch {
	case m == nil || m.Revoked:
		return nil
	case slices.Contains(l.roots, peer), slices.Contains(l.roots, Anybody):
		return m.Entry.Roles
	}
	for _, g := range slices.Backward(m.Grants) {
		if l.holds(g, peer) && l.admin(g.Word.By, []taskstate.PeerID{peer}) {
			return slices.DeleteFunc(slices.Clone(g.Roles), func(r admission.Role) bool { return !slices.Contains(m.Entry.Roles, r) })
		}
	}
	return nil
}

// admin tells whether a peer was ever made an admin by people, from one of the roots on, and not
// by any of those below it.
func (l *lineage) admin(peer taskstate.PeerID, below []taskstate.PeerID) bool {
	m := l.members[peer]
	switch {
	case m == nil || m.Revoked || slices.Contains(below, peer):
		return false
	case slices.Contains(l.roots, peer):
		return true
	}
	below = append(below, peer)
	return slices.ContainsFunc(m.Grants, func(g RoleGrant) bool {
		return slices.Contains(g.Roles, admission.Admin) && l.holds(g, peer) && l.admin(g.Word.By, below)
	})
}
