package view

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/policy"
)

// Names tells who everybody is: from the ledger, or before its first entry has come, from the
// roster.
type Names struct {
	self    taskstate.PeerID
	replica Replica
	roster  Roster
	likes   atomic.Pointer[likes]
}

// likes are, at an index of the ledger, the names that members have, by their likeness: of several
// that look alike the one of the member that was admitted first.
type likes struct {
	index uint64
	of    map[string]likeness
}

type likeness struct {
	name string
	at   int64
	peer taskstate.PeerID
}

// likesOf is what holds in a state of the ledger. It is made anew when the ledger went on.
func (n *Names) likesOf(s *ledger.State) *likes {
	if l := n.likes.Load(); l != nil && l.index == s.Index() {
		return l
	}
	l := &likes{index: s.Index(), of: map[string]likeness{}}
	for m := range s.Members() {
		name := cmp.Or(m.Name, m.Entry.Name)
		if !m.In() || admission.CheckName(name) != nil {
			continue
		}
		like, x := admission.Likeness(name), likeness{name, m.Entry.At, m.Entry.Peer}
		if first, ok := l.of[like]; !ok || cmp.Or(cmp.Compare(x.at, first.at), cmp.Compare(x.peer, first.peer)) < 0 {
			l.of[like] = x
		}
	}
	n.likes.Store(l)
	return l
}

// fit reports whether a name can be shown: it is one, and no member that was admitted earlier has
// another one that looks like it. The very same name is no secret: two peers may have it.
func (l *likes) fit(name string) bool {
	if admission.CheckName(name) != nil {
		return false
	}
	first, ok := l.of[admission.Likeness(name)]
	return !ok || first.name == name
}

// Called is a peer's name with enough of its id to tell two apart.
func (n *Names) Called(id taskstate.PeerID) string {
	if name := n.Name(id); name != "" {
		return name
	}
	return id
}

// Name is a peer's name, "" if it is not known or would mislead: the peer is shown by its key then.
func (n *Names) Name(id taskstate.PeerID) (name string) {
	known := false
	n.replica.Read(func(s *ledger.State) {
		var m ledger.Member
		if m, known = s.Member(id); known {
			name = cmp.Or(m.Name, m.Entry.Name)
		}
		if name != "" && !n.likesOf(s).fit(name) {
			name = ""
		}
	})
	if !known {
		if e, ok := n.roster.Get(id); ok && admission.CheckName(e.Name) == nil {
			name = e.Name
		}
	}
	return name
}

// Names are peers' names, for people.
func (n *Names) Sorted(ids []taskstate.PeerID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = n.Called(id)
	}
	slices.Sort(out)
	return out
}

// FindPeer finds the peer a person means: its id, a unique part of it, its name.
func (n *Names) FindPeer(text string) (taskstate.PeerID, error) {
	var found []taskstate.PeerID
	for _, m := range n.Admitted() {
		id := m.Entry.Peer
		if id == text {
			return id, nil
		}
		if n.Name(id) == text || len(text) >= 4 && strings.Contains(id, text) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", api.Errorf(api.NotFound, "no peer %q; see `peer peers`", text)
	}
	return "", api.Errorf(api.Conflict, "%q matches %d peers; use more of the id (see `peer peers -o json`)", text, len(found))
}

// selfWord is what a person types for the peer that is asked.
const selfWord = "self"

// MeantPeer finds the peer a person means: FindPeer, or self.
func (n *Names) MeantPeer(text string) (taskstate.PeerID, error) {
	if text == selfWord {
		return n.self, nil
	}
	return n.FindPeer(text)
}

// Admitted is everybody admitted: from the ledger, or before its first entry has come, from the
// roster.
func (n *Names) Admitted() (out []ledger.Member) {
	n.replica.Read(func(s *ledger.State) {
		for m := range s.Members() {
			if m.In() {
				out = append(out, m)
			}
		}
	})
	if len(out) == 0 {
		for _, e := range n.roster.All() {
			if !e.Removed {
				out = append(out, ledger.Member{Entry: e, Name: e.Name})
			}
		}
	}
	return out
}

// In puts names in place of the ids of members in what a coordinator says for people.
func (n *Names) In(text ...*string) {
	var ids []taskstate.PeerID
	for _, m := range n.Admitted() {
		ids = append(ids, m.Entry.Peer)
	}
	names := n.replacer(ids)
	for _, t := range text {
		*t = names.Replace(*t)
	}
}

// replacer puts names in place of ids, but not where a person is to trust one: a name can be taken.
func (n *Names) replacer(ids []taskstate.PeerID) *strings.Replacer {
	var pairs []string
	for _, id := range ids {
		key := policy.AddKey + id
		pairs = append(pairs, key, key, id, n.Called(id))
	}
	return strings.NewReplacer(pairs...)
}

// in puts names in place of ids in what a coordinator says for people.
func (n *Names) in(f *calls.ClusterView) {
	if f == nil || f.Waiting == "" && len(f.Whys) == 0 && len(f.Waited) == 0 {
		return
	}
	var ids []taskstate.PeerID
	for _, p := range f.Peers {
		ids = append(ids, p.ID)
	}
	names := n.replacer(ids)
	f.Waiting = names.Replace(f.Waiting)
	for i := range f.Waited {
		f.Waited[i].Reason = names.Replace(f.Waited[i].Reason)
	}
	for id, why := range f.Whys {
		f.Whys[id] = names.Replace(why)
	}
}
