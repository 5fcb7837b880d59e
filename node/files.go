package node

import (
	"covey/membership"
	"covey/node/api"
	"covey/node/blob/store"
	"covey/node/files"
	"covey/node/view"
	"covey/p2p/admission"
	"covey/taskstate"
)

// filesFolder is where files are, in the data folder.
const filesFolder = "blobs"

// openFiles opens the store of files, and what people do with it.
func (n *Node) openFiles() (err error) {
	dir := n.folder.path(filesFolder)
	quota := max(0, n.cfg.Store)
	if n.cfg.Store == 0 { // nobody said how much
		quota = -1
	}
	if n.blobs, err = store.Open(dir, store.Config{Quota: quota, Now: n.cfg.Now, Log: n.log}); err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	n.files = files.New(files.Config{Store: n.blobs, Dir: dir, Net: n.host, Self: n.self, Members: holders{n.self, n.members, n.roster, n.view.Who}.others, Now: n.cfg.Now, Log: n.log})
	n.care = newCare(n)
	return nil
}

// holders are those who may have files.
type holders struct {
	self    taskstate.PeerID
	members *membership.Membership
	roster  *admission.Roster
	who     *view.Names
}

func (h holders) others() (others []files.Member) {
	seen := h.members.View()
	for _, p := range h.roster.All() {
		if p.Peer == h.self || !h.roster.Admitted(p.Peer) {
			continue
		}
		m, met := seen.Get(p.Peer)
		others = append(others, files.Member{ID: p.Peer, Name: h.who.Name(p.Peer), Here: met && m.Verdict != membership.Dead})
	}
	return others
}
