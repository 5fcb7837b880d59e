// Package far gives peers that are far away more time to answer. Every wait for a peer has a limit
// that suits fast links, so that a dead one is noticed soon. Where a round trip was measured that
// takes long, the limit grows with it.
package far

import "time"

const (
	// trips is how many round trips a wait has room for: one that opens a stream, one that asks,
	// one that the other side makes before it answers, and one to spare.
	trips = 4
	// Away bounds what a round trip counts for: one that is longer was measured while a machine
	// slept.
	Away = 5 * time.Second
	// Most is the longest that Allow makes of a short wait.
	Most = trips * Away
)

// Allow returns how long to wait for a peer whose round trip is rtt, where d is enough on fast
// links. Up to a round trip of a quarter of d it is d.
func Allow(d, rtt time.Duration) time.Duration { return max(d, trips*min(rtt, Away)) }

// RTT returns the round trip to a peer as net measured it, 0 if it measured none.
func RTT(net any, peer string) time.Duration {
	if m, ok := net.(interface {
		RTT(peer string) time.Duration
	}); ok {
		return m.RTT(peer)
	}
	return 0
}

// For is Allow for a peer of net.
func For(net any, peer string, d time.Duration) time.Duration { return Allow(d, RTT(net, peer)) }
