package main

import (
	"slices"
	"testing"

	"covey/node/api"
)

func TestAnOfferThatNobodyKnowsIsNotShownAsNone(t *testing.T) {
	g := peersTable(api.Peers{Peers: []api.Peer{
		{ID: "a", CPUs: 2, CPUsUsed: 0.5, Memory: 4 << 30, MemoryUsed: 1 << 30},
		{ID: "b", CPUsUsed: 1},
	}}, false)
	for i, want := range [][]string{{"0.5/2", "1GiB/4GiB"}, {"1/-", "0B/-"}} {
		if !slices.Equal(g.rows[i][7:9], want) {
			t.Errorf("%q, want %q", g.rows[i][7:9], want)
		}
	}
}
