package p2p_test

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/p2p"
)

func TestARefusalByAnAddressThePeerNeverHadProvesNothing(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	gone := start(t, everybody())
	a.SetAddrs(b.Self(), gone.Addrs())
	gone.Close()
	if _, err := a.Dial(ctx(t), b.Self(), echo); err == nil || p2p.Refused(err) {
		t.Fatalf("b lives, and its port was never asked: %v", err)
	}
}

func TestARefusalDoesNotWaitForAddressesThatLeadNowhere(t *testing.T) {
	// A listener that never accepts a handshake stands for an address that swallows everything.
	silent, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip("only one loopback address here: ", err)
	}
	defer silent.Close()
	_, nowhere, err := p2p.ParseAddr(silent.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a, b := start(t, everybody()), start(t, everybody())
	if err := connect(t, a, b.Self(), b.Addrs()); err != nil {
		t.Fatal(err)
	}
	addrs := append(b.Addrs(), nowhere)
	gone := make(chan string, 64)
	a.OnDisconnect(func(p string) { gone <- p })
	b.Close()
	<-gone
	a.SetAddrs(b.Self(), addrs)
	begun := time.Now()
	if _, err := dial(t, a, b.Self(), echo); !p2p.Refused(err) {
		t.Fatalf("after %v: %v", time.Since(begun), err)
	}
	t.Logf("the refusal was told after %v", time.Since(begun))
}

// libp2p tells all who asked for a connection of the one it made, though it has ended by then.
func TestAConnectionThatEndsAsItBeginsIsDialledAgain(t *testing.T) {
	for _, lives := range []bool{true, false} {
		a, b := start(t, everybody()), start(t, everybody())
		serveEcho(b)
		begun, told := make(chan struct{}), make(chan struct{})
		first := sync.OnceFunc(func() {
			go func() { // libp2p holds the connection until this call returns
				p2p.Disconnect(a, b.Self())
				close(begun)
			}()
			<-begun
			<-told
		})
		a.OnConnect(func(string) { first() })
		a.SetAddrs(b.Self(), b.Addrs())
		var seeker sync.WaitGroup
		seeker.Go(func() { p2p.Seek(ctx(t), a, b.Self()) })
		<-begun
		if !lives {
			b.Close()
		}
		time.AfterFunc(50*time.Millisecond, func() { close(told) }) // the dial waits for that by then, too
		err := ask(a, b.Self(), "hello")
		seeker.Wait()
		if lives && err != nil {
			t.Errorf("a peer that lives: %v", err)
		}
		if !lives && !p2p.Refused(err) {
			t.Errorf("a peer that is gone: %v", err)
		}
	}
}

func TestADialToNobodyKnownSaysSo(t *testing.T) {
	a := start(t, everybody())
	for _, peer := range []string{someID, "nonsense", a.Self()} {
		if _, err := a.Dial(ctx(t), peer, echo); err == nil || p2p.Refused(err) {
			t.Errorf("%s: %v", peer, err)
		}
		if err := a.Connect(ctx(t), peer, nil); err == nil {
			t.Errorf("%s: connected", peer)
		}
	}
}

func TestAProtocolNobodyServesIsNotARefusal(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	a.SetAddrs(b.Self(), b.Addrs())
	b.Handle("/fleeting/1", func(_ string, c net.Conn) { c.Close() })
	c, err := dial(t, a, b.Self(), "/fleeting/1")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	b.Handle("/fleeting/1", nil)
	if _, err := a.Dial(ctx(t), b.Self(), "/never/1"); err == nil || p2p.Refused(err) {
		t.Fatal(err)
	}
	if c, err = a.Dial(ctx(t), b.Self(), "/fleeting/1"); err == nil { // negotiation is lazy where the protocol was known
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		_, err = c.Read(make([]byte, 1))
	}
	if err == nil || p2p.Refused(err) {
		t.Fatal(err)
	}
}
