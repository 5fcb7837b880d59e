package ledger

import (
	"fmt"
	"slices"

	"covey/taskstate"
)

// addContacts remembers peers somebody named, for this run only.
func (n *Node) addContacts(peers []taskstate.PeerID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range peers {
		if p != "" && p != n.cfg.Self && !slices.Contains(n.contacts, p) && len(n.contacts) < maxContacts {
			n.contacts = append(n.contacts, p)
		}
	}
}

// setContacts remembers the voters on disk, so that this peer finds the flock again after a restart.
func (n *Node) setContacts(vs []Voter) {
	peers := slices.DeleteFunc(peersOf(vs), func(p taskstate.PeerID) bool { return p == n.cfg.Self })
	n.mu.Lock()
	missing := slices.DeleteFunc(slices.Clone(peers), func(p taskstate.PeerID) bool { return slices.Contains(n.contacts, p) })
	if len(missing) == 0 {
		n.mu.Unlock()
		return
	}
	old := slices.DeleteFunc(n.contacts, func(p taskstate.PeerID) bool { return slices.Contains(peers, p) })
	n.contacts = append(old, peers...)
	n.contacts = n.contacts[max(0, len(n.contacts)-maxContacts):]
	n.mu.Unlock()
	if err := n.saveMemo(); err != nil {
		n.cfg.Log.Warn("cannot remember the voters", "err", err)
	}
}

// adopt takes a snapshot. One of a higher generation than ours comes from a recovered ledger: a seat in the old one is set aside,
// its folder renamed for whoever wants to look.
func (n *Node) adopt(st *State) error {
	n.life.Lock()
	defer n.life.Unlock()
	if s := n.currentSeat(); s != nil && st.Generation() != s.generation {
		if st.Generation() < s.generation {
			return fmt.Errorf("a snapshot of generation %d, older than %d here", st.Generation(), s.generation)
		}
		n.cfg.Log.Warn("the ledger was recovered elsewhere: this peer's own is set aside", "theirs", st.Generation(), "ours", s.generation)
		if err := n.setAside(s); err != nil {
			return err
		}
	}
	if n.Generation() != st.Generation() {
		n.mu.Lock()
		n.voters, n.votersIndex, n.votersFloor = nil, 0, 0
		n.mu.Unlock()
	}
	n.reset(st)
	return nil
}
