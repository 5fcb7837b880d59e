package testnet

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Peers 1 and 5 are killed, then 2, 3 and 4 before those are back: a peer that took another port
// then would never be found (soak seed 24524).
func TestWhoComesBackWhenNobodyStayedComesBackWhereItWas(t *testing.T) {
	var s stays
	at := func(sec int) time.Time { return time.Unix(int64(1000+sec), 0) }
	up := map[int]bool{2: true, 3: true, 4: true}
	running := func(k int) bool { return up[k] }
	if !s.anyBut([]int{1, 5}, at(26), 5, running) {
		t.Error("three peers have not been touched")
	}
	clear(up)
	if s.anyBut([]int{1, 5}, at(26), 5, running) {
		t.Error("nobody runs")
	}
	s.back(1, at(35))
	s.back(5, at(35))
	up = map[int]bool{1: true, 5: true}
	if s.anyBut([]int{2, 3, 4}, at(27), 5, running) {
		t.Error("those that run have come back since")
	}
	s.back(2, at(37))
	up[2] = true
	if s.anyBut([]int{3}, at(40), 5, running) {
		t.Error("nobody has been there for long")
	}
	if !s.anyBut([]int{3}, at(60), 5, running) {
		t.Error("all three have been there for long")
	}
}

// Whatever overlaps: a peer that takes another port knows one that still is where it was.
func TestNobodyIsLostByWhatOverlaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const peers = 5
		var s stays
		now := time.Unix(1000, 0)
		port, down := map[int]int{}, map[int]time.Time{}
		knows := map[int]map[int]int{} // where each knew the others to be when it went
		running := func(k int) bool { _, gone := down[k]; return !gone }
		for range 40 {
			now = now.Add(time.Duration(rapid.IntRange(0, 15).Draw(t, "seconds")) * time.Second)
			k := rapid.IntRange(1, peers).Draw(t, "peer")
			went, gone := down[k]
			if !gone {
				down[k], knows[k] = now, map[int]int{}
				for o := 1; o <= peers; o++ {
					knows[k][o] = port[o]
				}
				continue
			}
			if s.anyBut([]int{k}, went, peers, running) {
				if !slices.ContainsFunc([]int{1, 2, 3, 4, 5}, func(o int) bool { return o != k && running(o) && knows[k][o] == port[o] }) {
					t.Fatalf("peer %d takes another port, and those that run are where it does not know them: %v, %v", k, knows[k], port)
				}
				port[k]++
			}
			s.back(k, now)
			delete(down, k)
		}
	})
}
