package quorum

import (
	"testing"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/p2p/wire"
)

// As in the ledger: numbers of fields are never changed nor used again.
func TestEveryShapeKeepsItsNumbers(t *testing.T) {
	golden.Wires(
		t, "shapes.txt",
		golden.Wire{Name: "ledger/memo", Frames: map[string]any{"memo": &memo{}}},
		golden.Wire{Name: RaftProtocol, Frames: map[string]any{"raft hello": &raftHello{}, "raft answer": &raftAnswer{}}},
		golden.Wire{Name: FollowProtocol, Frames: map[string]any{"follow hello": &followHello{}, "follow frame": &followFrame{}}},
		golden.Wire{Name: VoterProtocol, Frames: map[string]any{"voter ask": &voterAsk{}, "voter answer": &voterAnswer{}}},
	)
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	b, err := wire.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
