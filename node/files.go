package node

import (
	"slices"

	"covey/dispatch/ledger"
	"covey/membership"
	"covey/node/api"
	"covey/node/blob/piece"
	"covey/node/blob/store"
	"covey/node/files"
	"covey/node/keep"
	"covey/node/saver"
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
	if err = n.openStager(); err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	n.files = files.New(files.Config{Store: n.blobs, Dir: dir, Net: n.host, Self: n.self, Members: holders{n.self, n.members, n.roster, n.view.Who}.others, Jobs: n.filesOfJobs, Now: n.cfg.Now, Log: n.log})
	n.care = newCare(n)
	return nil
}

// saving is what keeps what tasks leave: it stands between the worker and what runs tasks.
func (n *Node) saving(run func(sink func(taskstate.RunReport)) (Runner, error)) (Runner, error) {
	s, err := saver.New(saver.Config{
		Self: n.self, Dir: TasksFolder(n.folder.dir), Net: n.host, Name: n.view.Who.Name, Log: n.log,
		Sink:   func(r taskstate.RunReport) { n.worker.Report(n.room.addTo(r)) },
		Store:  func() *store.Store { return n.blobs },
		Others: n.mayKeep,
	}, func(sink func(taskstate.RunReport)) (saver.Runner, error) { return run(sink) })
	if err != nil {
		return nil, err // not s: a nil *saver.Saver would be a Runner that is not nil
	}
	return s, nil
}

// mayKeep are the other members that are here, but for those that are drained.
func (n *Node) mayKeep() (here []taskstate.PeerID) {
	for id, p := range n.keepers() {
		if v := n.members.View().Verdict(id); id != n.self && v == membership.Alive && !p.Drained {
			here = append(here, id)
		}
	}
	return here
}

// outputSafe tells whether all that a task was to leave is in the store for good, so that the folder
// it worked in is needed no more.
func (n *Node) outputSafe(id taskstate.TaskID) bool {
	var saved *taskstate.Saved
	n.replica.Read(func(s *ledger.State) {
		j, ok := s.Job(id.Job)
		if !ok || j.Job().Outputs == nil || id.Slot > j.Slots() {
			return
		}
		if r := j.Slot(id.Slot); r.Attempt == id.Attempt && r.Final != nil && r.Final.State == taskstate.Complete {
			saved = r.Final.Saved
		}
	})
	if saved == nil || saved.Root.IsZero() {
		return false
	}
	p, ok := n.blobs.PinNamed(keep.PinName(id))
	if !ok || !p.Until.IsZero() || !slices.Contains(p.Roots, saved.Root) {
		return false
	}
	return !slices.ContainsFunc(p.Roots, func(r piece.Root) bool { return !n.blobs.Have(r).Whole })
}

// serveKeeping keeps for other members what tasks left with them.
func (n *Node) serveKeeping() *keep.Server {
	return keep.Serve(n.host, keep.ServerConfig{
		Self: n.self, Net: n.host, Store: n.blobs, Stores: n.cfg.Store >= 0, Admitted: n.roster.Admitted, Now: n.cfg.Now, Log: n.log,
	})
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
