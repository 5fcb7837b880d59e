package p2p_test

import (
	"io"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/sec"
	bhost "github.com/libp2p/go-libp2p/p2p/host/basic"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/coveyproject/covey/p2p"
)

func TestPeersAgreeOnTLS(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	serveEcho(b)
	a.SetAddrs(b.Self(), transportOf(b.Addrs(), false))
	if err := ask(a, b.Self(), strings.Repeat("covey", 1<<18)); err != nil {
		t.Fatal(err)
	}
	if got := p2p.SecuredBy(a, b.Self()); got != "/tls/1.0.0 /yamux/1.0.0" {
		t.Errorf("it is secured by %q", got)
	}
}

func TestAPeerThatKnowsOnlyNoiseIsSpokenToInBothDirections(t *testing.T) {
	h := start(t, everybody())
	serveEcho(h)
	tcpOnly := transportOf(h.Addrs(), false)

	in := noiseOnly(t) // it dials
	id, err := peer.Decode(h.Self())
	if err != nil {
		t.Fatal(err)
	}
	in.Peerstore().AddAddr(id, ma.StringCast(tcpOnly[0]), peerstore.PermanentAddrTTL)
	s, err := in.NewStream(ctx(t), id, echo)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(s, "hello"); err != nil {
		t.Fatal(err)
	}
	if got := make([]byte, 5); true {
		if _, err := io.ReadFull(s, got); err != nil || string(got) != "hello" {
			t.Fatalf("%q, %v", got, err)
		}
	}

	out := noiseOnly(t) // it is dialled
	out.SetStreamHandler(echo, func(s network.Stream) {
		defer s.Close()
		_, _ = io.Copy(s, s)
	})
	h.SetAddrs(out.ID().String(), []string{out.Addrs()[0].String()})
	if err := ask(h, out.ID().String(), "hello"); err != nil {
		t.Fatal(err)
	}
	for _, o := range []host.Host{in, out} {
		if got := p2p.SecuredBy(h, o.ID().String()); got != "/noise /yamux/1.0.0" {
			t.Errorf("it is secured by %q", got)
		}
	}
}

// noiseOnly is a libp2p host as peers were before they knew TLS over TCP.
func noiseOnly(t *testing.T) host.Host {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := p2p.NewIdentity()
	ok(err)
	id, err := peer.IDFromPrivateKey(key)
	ok(err)
	store, err := pstoremem.NewPeerstore()
	ok(err)
	ok(store.AddPrivKey(id, key))
	ok(store.AddPubKey(id, key.GetPublic()))
	bus := eventbus.NewBus()
	sw, err := swarm.NewSwarm(id, store, bus)
	ok(err)
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: yamux.DefaultTransport}}
	security, err := noise.New(noise.ID, key, muxers)
	ok(err)
	up, err := upgrader.New([]sec.SecureTransport{security}, muxers, nil, nil, nil)
	ok(err)
	plain, err := tcp.NewTCPTransport(up, nil, nil, tcp.DisableReuseport())
	ok(err)
	ok(sw.AddTransport(plain))
	ok(sw.Listen(ma.StringCast("/ip4/127.0.0.1/tcp/0")))
	h, err := bhost.NewHost(sw, &bhost.HostOpts{EventBus: bus, DisableSignedPeerRecord: true})
	ok(err)
	h.Start()
	t.Cleanup(func() { h.Close() })
	return h
}
