package node

import (
	"errors"
	"testing"

	"github.com/coveyproject/covey/p2p"
)

// A peer that comes back hears its neighbours while its network is still being opened.
func TestANeighbourThatIsSeenBeforeTheNodeHasItsHostIsRemembered(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "neighbour"})
	key, err := p2p.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	h, err := p2p.New(p2p.Config{Key: key, Listen: []string{"127.0.0.1:0"}, Admitted: func(string) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	found := neighbour(l.roster.Admitted) // as openNetwork has it while it waits for p2p.New
	found(h, h.Self(), h.Addrs())
	if err := h.Connect(timed(t), l.self, nil); errors.Is(err, p2p.ErrNotAdmitted) {
		t.Fatal("it knows its neighbour before it was told")
	}
	found(h, l.self, l.host.Addrs())
	if err := h.Connect(timed(t), l.self, nil); !errors.Is(err, p2p.ErrNotAdmitted) {
		t.Errorf("want to be refused where it is known to be, not %v", err)
	}
}
