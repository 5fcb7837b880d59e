package p2p_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/memnet"
)

// onWires makes a host on a machine of its own in memory.
func onWires(t *testing.T, w *memnet.Wires, ip string) (*p2p.Host, *memnet.Machine) {
	t.Helper()
	key, err := p2p.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	m := w.Machine(netip.MustParseAddr(ip))
	h, err := p2p.New(p2p.Config{Key: key, Listen: []string{ip}, Admitted: func(string) bool { return true }, Relay: true, Sockets: m})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h, m
}

// The real host, in virtual time: who knows an address finds out who is there, streams carry bytes,
// and the end of a process is seen.
func TestAHostLivesOnOtherSockets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := memnet.NewWires()
		a, _ := onWires(t, w, "127.0.0.1")
		b, mb := onWires(t, w, "127.0.0.2")
		if got, want := b.Addrs(), "/ip4/127.0.0.2/tcp/26839"; len(got) != 1 || got[0] != want || b.Port() != p2p.DefaultPort {
			t.Fatalf("addresses %v, want %s alone; port %d", got, want, b.Port())
		}
		if id, err := a.Who(t.Context(), b.Addrs()[0]); err != nil || id != b.Self() {
			t.Fatalf("%q, %v", id, err)
		}
		b.Handle("/echo", func(_ string, c net.Conn) {
			defer c.Close()
			_, _ = io.Copy(c, c)
		})
		a.SetAddrs(b.Self(), b.Addrs())
		c, err := a.Dial(t.Context(), b.Self(), "/echo")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		word := make([]byte, 5)
		if _, err := io.ReadFull(c, word); err != nil || string(word) != "hello" {
			t.Fatalf("%q, %v", word, err)
		}
		gone := make(chan string, 1)
		a.OnDisconnect(func(peer string) { gone <- peer })
		mb.Kill(false)
		if peer := <-gone; peer != b.Self() {
			t.Errorf("lost %s", peer)
		}
		if err := a.Connect(t.Context(), b.Self(), nil); !p2p.Refused(err) {
			t.Errorf("the machine is there and the process is not: %v", err)
		}
		mb.Kill(false)
	})
}

// Gossip can be wrong about who is gone: a peer that could not hear the others says so of them all
// once it is heard again.
func TestAConnectionStandsAsLongAsThePeerAnswersWhateverOthersSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := memnet.NewWires()
		a, _ := onWires(t, w, "127.0.0.1")
		b, mb := onWires(t, w, "127.0.0.2")
		if err := a.Connect(t.Context(), b.Self(), b.Addrs()); err != nil {
			t.Fatal(err)
		}
		a.Doubt(b.Self())
		time.Sleep(5 * time.Second)
		if direct, _ := a.Connected(b.Self()); !direct {
			t.Fatal("it answers, and its connection was closed")
		}
		mb.Kill(true)
		a.Doubt(b.Self())
		time.Sleep(1500 * time.Millisecond)
		if direct, _ := a.Connected(b.Self()); direct {
			t.Error("it does not answer, and its connection stands")
		}
		a.Doubt("nobody")
	})
}

func TestAMachineThatDoesNotAnswerIsNotTakenForOneThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := memnet.NewWires()
		a, _ := onWires(t, w, "127.0.0.1")
		b, mb := onWires(t, w, "127.0.0.2")
		if err := a.Connect(t.Context(), b.Self(), b.Addrs()); err != nil {
			t.Fatal(err)
		}
		mb.Kill(true)
		p2p.Disconnect(a, b.Self())
		start := time.Now()
		err := a.Connect(context.Background(), b.Self(), nil)
		if err == nil || p2p.Refused(err) || time.Since(start) > 4*time.Second {
			t.Errorf("%v, after %v", err, time.Since(start))
		}
	})
}
