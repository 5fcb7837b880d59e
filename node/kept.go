package node

import (
	"context"

	"covey/dispatch/ledger"
	"covey/membership"
	"covey/node/api"
	"covey/node/calls"
	"covey/node/care"
	"covey/taskstate"
)

// newCare makes what looks after the files that are kept here.
func newCare(n *Node) *care.Care {
	return care.New(care.Config{
		Self: n.self, Store: n.blobs, Net: n.host, Replica: n.replica, Current: n.keeper.Level, Peers: n.keepers,
		Tell: func(ctx context.Context, k ledger.Kept) error {
			_, err := n.line.Decide(ctx, calls.Call{Kept: &k})
			return err
		},
		Full: n.storeChanged, Now: n.cfg.Now, Log: n.log,
	})
}

// keepers are the members, as far as they may keep files for jobs.
func (n *Node) keepers() map[taskstate.PeerID]care.Peer {
	out := map[taskstate.PeerID]care.Peer{}
	seen := n.members.View()
	for _, e := range n.roster.All() {
		if !n.roster.Admitted(e.Peer) {
			continue
		}
		m, met := seen.Get(e.Peer)
		out[e.Peer] = care.Peer{Here: e.Peer == n.self || met && m.Verdict != membership.Dead, Since: m.Since}
	}
	n.replica.Read(func(s *ledger.State) {
		for id, p := range out {
			if m, ok := s.Member(id); ok && m.Availability == ledger.AvailDrain {
				p.Drained = true
				out[id] = p
			}
		}
	})
	return out
}

// storeChanged has this peer take no tasks while what is left to keep here has no room, and says so.
func (n *Node) storeChanged(err error) {
	n.worker.Refrain(api.TroubleStoreFull, err)
	if err == nil {
		n.troubles.Clear(n.self, api.TroubleStoreFull)
		return
	}
	text := err.Error() + ": it stays until its jobs are forgotten, and this peer takes no tasks meanwhile; give it more with `peer up --store SIZE`, or delete jobs"
	if n.troubles.Set(n.self, api.TroubleStoreFull, text) {
		n.log.Error("no room for what tasks leave", "err", err)
	}
}
