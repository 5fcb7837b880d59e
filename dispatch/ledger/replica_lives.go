package ledger

import "covey/taskstate"

// Lives calls f with the incarnation that counts of every member that registered with an event's entry, and of every member when the whole
// state was replaced. Whoever observes the replica calls it, and, with Reset, whoever begins to. f must not call the Replica.
func (r *Replica) Lives(ev Event, f func(peer taskstate.PeerID, inc taskstate.Incarnation)) {
	tell := func(m Member) {
		if m.In() && m.Incarnation != "" {
			f(m.Entry.Peer, m.Incarnation)
		}
	}
	r.Read(func(s *State) {
		if ev.Reset {
			for m := range s.Members() {
				tell(m)
			}
		}
		for i := range ev.Entry.Commands {
			if c := ev.Entry.Commands[i].Register; c != nil {
				if m, ok := s.Member(c.Peer); ok {
					tell(m)
				}
			}
		}
	})
}
