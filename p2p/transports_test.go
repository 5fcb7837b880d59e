package p2p_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/coveyproject/covey/p2p"
)

// A machine with much to do takes long over a handshake. That is no reason to ask it for two. QUIC
// gives TCP a head start of 250 ms only, which is too short for this machine now and then; without
// the waiting QUIC would be heard each time.
func TestQUICWaitsWhileAHandshakeOverTCPGoesOn(t *testing.T) {
	for range 5 {
		if heard, dialled := quicBesideTCP(t); dialled && heard == 0 {
			return
		}
	}
	t.Error("QUIC was heard beside a handshake over TCP, or no TCP, in five of five dials")
}

// quicBesideTCP dials a place that takes up TCP and never shakes hands, and returns how many bytes
// of QUIC came there meanwhile, and whether TCP did.
func quicBesideTCP(t *testing.T) (heard int, dialled bool) {
	t.Helper()
	slow, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken := make(chan net.Conn, 9)
	defer func() {
		slow.Close()
		for c := range taken {
			c.Close()
		}
	}()
	go func() { // ends with the listener
		defer close(taken)
		for {
			c, err := slow.Accept()
			if err != nil {
				return
			}
			taken <- c
		}
	}()
	port := slow.Addr().(*net.TCPAddr).Port
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		t.Skip("the port is taken for UDP:", err)
	}
	defer udp.Close()
	a, other := start(t, everybody()), start(t, everybody())
	end, cancel := context.WithTimeout(t.Context(), time.Second) // four times QUIC's delay
	defer cancel()
	err = a.Connect(end, other.Self(), []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", port), fmt.Sprintf("/ip4/127.0.0.1/udp/%d/quic-v1", port)})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody shook hands, and it says %v", err)
	}
	_ = udp.SetReadDeadline(time.Now().Add(10 * time.Millisecond)) // what was sent is here already
	heard, _, _ = udp.ReadFrom(make([]byte, 2000))
	select {
	case c := <-taken:
		c.Close()
		return heard, true
	case <-time.After(time.Second):
		return heard, false
	}
}

func TestQUICIsDialledAfterTCPWasClosed(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	closing, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip("this machine has one loopback address:", err)
	}
	defer closing.Close()
	go func() { // ends with the listener
		for {
			c, err := closing.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	quic := transportOf(b.Addrs(), true)
	if err := connect(t, a, b.Self(), append(quic, fmt.Sprintf("/ip4/127.0.0.2/tcp/%d", closing.Addr().(*net.TCPAddr).Port))); err != nil {
		t.Fatal(err)
	}
	if got := p2p.TransportsOf(a, b.Self()); got != "quic" {
		t.Error(got)
	}
}

func TestARelayIsDialledAfterQUICHoweverLongThatWaits(t *testing.T) {
	tcp, quic := ma.StringCast("/ip4/1.2.3.4/tcp/1"), ma.StringCast("/ip4/1.2.3.4/udp/1/quic-v1")
	relay := ma.StringCast("/ip4/5.6.7.8/tcp/1/p2p/12D3KooWQUdhVRU1LuuuEJRAQBpD32DCW9NCUSF9BcSPsHwVDLvj/p2p-circuit")
	for _, after := range []time.Duration{250 * time.Millisecond, 1250 * time.Millisecond} {
		for _, c := range []struct {
			addrs []ma.Multiaddr
			want  []time.Duration
		}{
			{[]ma.Multiaddr{relay, quic, tcp}, []time.Duration{after + 250*time.Millisecond, after, 0}},
			{[]ma.Multiaddr{quic, relay}, []time.Duration{0, after + 250*time.Millisecond}},
			{[]ma.Multiaddr{relay}, []time.Duration{0}},
		} {
			if got := p2p.DelaysOf(after, c.addrs...); !slices.Equal(got, c.want) {
				t.Errorf("%v are dialled after %v", c.addrs, got)
			}
		}
	}
}

// One that greets as version 0.1 did is named, and it is said what to install there.
func TestAPeerOfVersion01IsRefusedByNameWithWhatToInstall(t *testing.T) {
	named := make(chan string, 9)
	a := start(t, everybody(), func(c *p2p.Config) { c.OnOld = func(peer string) { named <- peer } })
	old := start(t, everybody())
	old.Handle("/covey/hello/1", func(_ string, c net.Conn) { c.Close() })
	old.Handle(p2p.HelloProtocol, nil)
	var err error
	eventually(t, "it has told that it speaks the old hello only", func() bool {
		err = a.Connect(ctx(t), old.Self(), old.Addrs())
		return errors.Is(err, p2p.ErrOld)
	})
	if !strings.Contains(err.Error(), old.Self()) || !strings.Contains(err.Error(), "install this version there") {
		t.Fatalf("it is answered: %v", err)
	}
	if who := <-named; who != old.Self() {
		t.Errorf("%s is named, and it is %s", who, old.Self())
	}
}

func TestAConnectionOnWhichAPeerSaysThatItDoesNotSpeakAProtocolStands(t *testing.T) {
	gone := make(chan string, 9)
	a, b := start(t, everybody()), start(t, everybody())
	a.OnDisconnect(func(p string) { gone <- p })
	if err := connect(t, a, b.Self(), b.Addrs()); err != nil {
		t.Fatal(err)
	}
	b.Handle(p2p.HelloProtocol, nil)
	eventually(t, "the other side has told what it speaks now", func() bool {
		err := a.Connect(ctx(t), b.Self(), b.Addrs()) // until then, the stream is reset
		return err != nil && strings.Contains(err.Error(), "not supported")
	})
	select {
	case <-gone:
		t.Error("the connection was closed")
	case <-time.After(100 * time.Millisecond):
	}
}
