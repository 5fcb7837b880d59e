package view

import (
	"slices"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// Called is a peer's name with enough of its id to tell two apart.
func (v *View) Called(id taskstate.PeerID) string {
	if name := v.Name(id); name != "" {
		return name
	}
	return id
}

// Name is a peer's name, "" if it is not known.
func (v *View) Name(id taskstate.PeerID) (name string) {
	v.cfg.Replica.Read(func(s *ledger.State) {
		if m, ok := s.Member(id); ok {
			if name = m.Name; name == "" {
				name = m.Entry.Name
			}
		}
	})
	if name == "" {
		if e, ok := v.cfg.Roster.Get(id); ok {
			name = e.Name
		}
	}
	return name
}

// Names are peers' names, for people.
func (v *View) Names(ids []taskstate.PeerID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = v.Called(id)
	}
	slices.Sort(out)
	return out
}
