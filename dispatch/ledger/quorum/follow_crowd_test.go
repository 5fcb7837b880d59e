package quorum_test

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/p2p/wire"
)

// askAnew opens a follower's stream with nothing in hand and tells whether a snapshot comes.
func askAnew(t *testing.T, fl *cluster, from, of string) bool {
	t.Helper()
	c, err := fl.net.Host(from).Dial(t.Context(), of, quorum.FollowProtocol)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := wire.NewWriter(c, 0).Send(map[uint64]uint64{1: 0, 2: 0}); err != nil {
		t.Fatal(err)
	}
	r := wire.NewReader(c, 0)
	f := map[uint64]any{}
	for len(f) == 0 || f[6] != nil { // the greeting says only that there is somebody, who holds a seat
		clear(f)
		if err := r.Read(&f); err != nil {
			t.Fatal(err)
		}
	}
	if f[1] == nil && f[5] == nil {
		t.Fatalf("neither a snapshot nor a refusal: %v", f)
	}
	return f[1] != nil
}

func TestAPeerThatAsksForOneSnapshotAfterAnotherGetsFewAndOthersGetTheirs(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(1, "a", "b")
		fl.insist(job(1))
		fl.settle()
		got := 0
		for range 200 {
			if askAnew(t, fl, "b", "a") {
				got++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got < 2 || got > 12 {
			t.Errorf("%d snapshots in two seconds", got)
		}
		if !askAnew(t, fl, "c", "a") {
			t.Error("another peer gets none")
		}
		time.Sleep(5 * time.Second)
		if !askAnew(t, fl, "b", "a") {
			t.Error("none either when it has waited")
		}
	})
}
