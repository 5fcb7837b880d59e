package view

import (
	"slices"
	"strings"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/taskstate"
)

// Names tells who everybody is: from the ledger, or before its first entry has come, from the
// roster.
type Names struct {
	self    taskstate.PeerID
	replica Replica
	roster  Roster
}

// Called is a peer's name with enough of its id to tell two apart.
func (n *Names) Called(id taskstate.PeerID) string {
	if name := n.Name(id); name != "" {
		return name
	}
	return id
}

// Name is a peer's name, "" if it is not known.
func (n *Names) Name(id taskstate.PeerID) (name string) {
	n.replica.Read(func(s *ledger.State) {
		if m, ok := s.Member(id); ok {
			if name = m.Name; name == "" {
				name = m.Entry.Name
			}
		}
	})
	if name == "" {
		if e, ok := n.roster.Get(id); ok {
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
	var pairs []string
	for _, m := range n.Admitted() {
		pairs = append(pairs, m.Entry.Peer, n.Called(m.Entry.Peer))
	}
	names := strings.NewReplacer(pairs...)
	for _, t := range text {
		*t = names.Replace(*t)
	}
}

// in puts names in place of ids in what a coordinator says for people.
func (n *Names) in(f *calls.ClusterView) {
	if f == nil || f.Waiting == "" && len(f.Whys) == 0 && len(f.Waited) == 0 {
		return
	}
	var pairs []string
	for _, p := range f.Peers {
		pairs = append(pairs, p.ID, n.Called(p.ID))
	}
	names := strings.NewReplacer(pairs...)
	f.Waiting = names.Replace(f.Waiting)
	for i := range f.Waited {
		f.Waited[i].Reason = names.Replace(f.Waited[i].Reason)
	}
	for id, why := range f.Whys {
		f.Whys[id] = names.Replace(why)
	}
}
