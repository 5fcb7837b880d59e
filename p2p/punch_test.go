package p2p_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/coveyproject/covey/p2p"
)

func TestAMirrorAnswersOnlyWhoHasItsKeyAndInFewerBytes(t *testing.T) {
	from := netip.MustParseAddrPort("11.0.0.2:4000")
	relay, peer, other := p2p.NewMirror(), p2p.NewMirror(), p2p.NewMirror()
	q := peer.Question(relay.Key())
	out := relay.Reflect(q, from)
	if out == nil || len(out) >= len(q) {
		t.Fatalf("%d bytes in, %d out", len(q), len(out))
	}
	if got, ok := peer.Read(out); !ok || got != from {
		t.Fatal(got, ok)
	}
	if _, ok := other.Read(out); ok {
		t.Fatal("an answer to somebody else's question was taken")
	}
	if relay.Reflect(peer.Question(other.Key()), from) != nil || relay.Reflect(q[:len(q)-1], from) != nil || relay.Reflect(out, from) != nil {
		t.Fatal("a question without the key was answered")
	}
	if q[0] >= 0x40 || out[0] >= 0x40 {
		t.Fatal("QUIC would take it for its own")
	}
	v6 := netip.MustParseAddrPort("[2001:db8::1]:4000")
	if got, ok := peer.Read(relay.Reflect(q, v6)); !ok || got != v6 {
		t.Fatal(got, ok)
	}
}

func FuzzMirror(f *testing.F) {
	m := p2p.NewMirror()
	from := netip.MustParseAddrPort("11.0.0.2:4000")
	f.Add(m.Question(m.Key()))
	f.Add(m.Reflect(m.Question(m.Key()), from))
	f.Fuzz(func(t *testing.T, b []byte) {
		if out := m.Reflect(b, from); len(out) > 0 && len(out) >= len(b) {
			t.Fatal("an answer longer than its question")
		}
		if at, ok := m.Read(b); ok && !at.IsValid() {
			t.Fatal(at)
		}
	})
}

func TestTheMirrorOfAPeerThatDialledIsWhereItListensNotWhereItDialledFrom(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	if err := connect(t, b, a.Self(), transportOf(a.Addrs(), false)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the connection at its other end", func() bool { direct, _ := a.Connected(b.Self()); return direct })
	a.SetAddrs(b.Self(), b.Addrs())
	if at, ok := p2p.MirrorOf(a, b.Self()); !ok || !slices.Contains(b.PortsUDP(), at.Port()) {
		t.Errorf("%v, %v; it listens at %v", at, ok, b.Addrs())
	}
	if at, ok := p2p.MirrorOf(b, a.Self()); !ok || !slices.Contains(a.PortsUDP(), at.Port()) {
		t.Errorf("of the one that was dialled: %v, %v; it listens at %v", at, ok, a.Addrs())
	}
}
