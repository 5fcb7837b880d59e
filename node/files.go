package node

import (
	"covey/membership"
	"covey/node/api"
	"covey/node/blob/store"
	"covey/node/files"
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
	n.files = files.New(files.Config{Store: n.blobs, Dir: dir, Net: n.host, Self: n.self, Members: n.fileMembers, Now: n.cfg.Now, Log: n.log})
	return nil
}

// fileMembers are those who may have files.
func (n *Node) fileMembers() (others []files.Member) {
	seen := n.members.View()
	for _, p := range n.roster.All() {
		if p.Peer == n.self || !n.roster.Admitted(p.Peer) {
			continue
		}
		m, met := seen.Get(p.Peer)
		others = append(others, files.Member{ID: p.Peer, Name: n.view.Who.Name(p.Peer), Here: met && m.Verdict != membership.Dead})
	}
	return others
}
