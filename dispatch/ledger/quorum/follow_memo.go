package quorum

import (
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
