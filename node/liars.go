package node

import (
	"context"
	"fmt"
	"time"

	"covey/node/api"
	"covey/node/troubles"
	"covey/taskstate"
)

const (
	liarsEvery = 5 * time.Second  // members that lie are looked for
	liarsFor   = 10 * time.Minute // after the last lie it is not said any more
)

// watchLiars says of members what they send that honest software never sends, until ctx ends: in
// `peers`, with how often.
func watchLiars(ctx context.Context, liars func() map[string]int64, name func(taskstate.PeerID) string, say *troubles.Troubles) error {
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
		for peer, count := range liars() {
			was := known[peer]
			switch {
			case count > was.n:
				known[peer] = lies{count, time.Now()}
				say.Set(peer, api.TroubleLies, fmt.Sprintf("it sent this peer gossip that no peer of this version sends (%d times); nothing of it was believed. If that machine is not in the hands you think, type `peer remove %s`", count, name(peer)))
			case !was.last.IsZero() && time.Since(was.last) > liarsFor:
				known[peer] = lies{n: count}
				say.Clear(peer, api.TroubleLies)
			}
		}
	}
}
