package p2p_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/coveyproject/covey/p2p"
)

func TestAStrangerLearnsNoAddressButTheOneItDialled(t *testing.T) {
	for _, at := range []string{"/ip4/127.0.0.1/tcp/%d", "/ip4/127.0.0.1/udp/%d/quic-v1"} {
		a := start(t, everybody())
		b := start(t, only(), func(c *p2p.Config) { c.Announce = []string{"box.example.org:4000"} })
		dialled := []string{fmt.Sprintf(at, b.Port())}
		if err := connect(t, a, b.Self(), dialled); !errors.Is(err, p2p.ErrNotAdmitted) { // identify is over before it asks
			t.Fatal(err)
		}
		if got := p2p.Known(a, b.Self()); !slices.Equal(got, dialled) {
			t.Errorf("it dialled %q and knows %q", dialled, got)
		}
	}
}

func TestHintsAddToWhatIsKnownAndReplaceNothing(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	a.SetAddrs(b.Self(), b.Addrs())
	for i := range 100 {
		a.AddAddrs(b.Self(), []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", 1+i), "nonsense"})
	}
	known := p2p.Known(a, b.Self())
	for _, addr := range b.Addrs() {
		if !slices.Contains(known, addr) {
			t.Errorf("%s was replaced", addr)
		}
	}
	if len(known) <= len(b.Addrs()) || len(known) > 12 {
		t.Errorf("%d addresses are known", len(known))
	}
	if err := connect(t, a, b.Self(), nil); err != nil {
		t.Error(err)
	}
}
