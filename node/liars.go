package node

import (
	"context"
	"fmt"
	"time"

	"covey/node/api"
	"covey/taskstate"
)

const (
	liarsEvery = 5 * time.Second  // members that lie are looked for
	liarsFor   = 10 * time.Minute // after the last lie it is not said any more
)

// watchLiars says of members what they send that honest software never sends, until ctx ends: in
// `peers`, with how often.
func (n *Node) watchLiars(ctx context.Context) error {
	t := time.NewTicker(liarsEvery)
	defer t.Stop()
	type lies struct {
		n    int64
		last time.Time
	}
	known := map[taskstate.PeerID]lies{} // of admitted peers
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		for peer, count := range n.members.Liars() {
			was := known[peer]
			switch {
			case count > was.n:
				known[peer] = lies{count, time.Now()}
				n.troubles.Set(peer, api.TroubleLies, fmt.Sprintf("it sent this peer gossip that no peer of this version sends (%d times); nothing of it was believed. If that machine is not in the hands you think, type `peer remove %s`", count, n.view.Name(peer)))
			case !was.last.IsZero() && time.Since(was.last) > liarsFor:
				known[peer] = lies{n: count}
				n.troubles.Clear(peer, api.TroubleLies)
			}
		}
	}
}

// dropped counts what was not taken in because no honest peer sends it, or so much of it.
func (n *Node) dropped(counters map[string]int64) map[string]int64 {
	for _, count := range n.members.Refused() {
		counters["gossip_refused"] += count
	}
	counters["status_flood"] = n.statuses.faults.flooding()
	counters["topic_dropped"] = int64(n.host.Dropped())
	return counters
}
