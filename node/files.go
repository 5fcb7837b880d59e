package node

import (
	"covey/membership"
	"covey/node/api"
	"covey/node/blob/store"
	"covey/node/files"
	"covey/node/runner/supervise"
)

// filesFolder is where files are, in the data folder.
const filesFolder = "blobs"

// openFiles opens the store of files, and what people do with it.
func (n *Node) openFiles() (err error) {
	dir := n.folder.path(filesFolder)
	if n.blobs, err = store.Open(dir, store.Config{Quota: storeQuota(n.cfg.Store, n.folder.dir), Now: n.cfg.Now, Log: n.log}); err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	n.files = files.New(files.Config{Store: n.blobs, Dir: dir, Net: n.host, Self: n.self, Members: n.fileMembers, Now: n.cfg.Now, Log: n.log})
	return nil
}

// storeQuota is how many bytes copies for others may take, if a person said nothing else: a quarter
// of the disk, or what is free but for a tenth of the disk.
func storeQuota(said int64, dir string) int64 {
	if said != 0 {
		return max(0, said)
	}
	r, err := supervise.RoomOf(dir)
	if err != nil {
		return 0
	}
	return max(0, min(r.Total/4, r.Free-r.Total/10))
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
