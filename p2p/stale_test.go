package p2p_test

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/p2p"
)

// cable is one with somebody's hand on it: a TCP proxy that can stop passing bytes without closing
// anything.
type cable struct {
	l      net.Listener
	frozen chan struct{}
	once   sync.Once
}

func newCable(t *testing.T, to string) *cable {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{l: l, frozen: make(chan struct{})}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				a.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, a, b)
			mu.Unlock()
			wg.Go(func() { c.pass(a, b) })
			wg.Go(func() { c.pass(b, a) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, x := range conns {
			x.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return c
}

func (c *cable) pass(to io.Writer, from io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-c.frozen: // swallowed
			continue
		default:
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (c *cable) freeze() { c.once.Do(func() { close(c.frozen) }) }

// throughCable is a host and another that it reaches through a cable; gone tells who was
// disconnected.
func throughCable(t *testing.T) (a, b *p2p.Host, c *cable, gone chan string) {
	t.Helper()
	t.Parallel() // it mostly waits
	a, b = start(t, everybody()), start(t, everybody())
	serveEcho(b)
	c = newCable(t, net.JoinHostPort("127.0.0.1", itoa(b.Port())))
	_, through, err := p2p.ParseAddr(c.l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	gone = make(chan string, 64)
	a.OnDisconnect(func(p string) { gone <- p })
	if err := connect(t, a, b.Self(), []string{through}); err != nil {
		t.Fatal(err)
	}
	return a, b, c, gone
}

func TestWhoWaitsInVainOnAStreamHasADeadConnectionClosed(t *testing.T) {
	long.Test(t)
	a, b, c, gone := throughCable(t)
	s, err := a.Dial(ctx(t), b.Self(), echo)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := echoed(s, "there"); err != nil {
		t.Fatal(err)
	}
	c.freeze()
	s.SetReadDeadline(time.Now().Add(2500 * time.Millisecond))
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a read of nothing: %v", err)
	}
	<-gone
}

func TestWhoWaitsInVainForAPeerThatAnswersOtherwiseKeepsTheConnection(t *testing.T) {
	a, b, _, gone := throughCable(t)
	s, err := a.Dial(ctx(t), b.Self(), echo)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := echoed(s, "there"); err != nil {
		t.Fatal(err)
	}
	s.SetReadDeadline(time.Now().Add(2500 * time.Millisecond))
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a read of nothing: %v", err)
	}
	for p2p.Doubted(a) {
		time.Sleep(time.Millisecond)
	}
	select {
	case <-gone:
		t.Error("the connection was closed")
	default:
	}
	s.SetReadDeadline(time.Time{})
	if err := echoed(s, "still there"); err != nil {
		t.Error(err)
	}
}

func TestConnectGivesUpAConnectionWithoutASignOfLife(t *testing.T) {
	a, b, c, gone := throughCable(t)
	c.freeze()
	if err := a.Connect(ctx(t), b.Self(), nil); err == nil || errors.Is(err, p2p.ErrNotAdmitted) {
		t.Fatalf("over a dead cable: %v", err)
	}
	<-gone
	a.SetAddrs(b.Self(), b.Addrs())
	if err := connect(t, a, b.Self(), nil); err != nil {
		t.Fatal(err)
	}
	if err := ask(a, b.Self(), "there again"); err != nil {
		t.Fatal(err)
	}
}

func TestADialIntoSilenceEndsWhenThatPeerComesByItself(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	serveEcho(b)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, nowhere, err := p2p.ParseAddr(silent.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a.SetAddrs(b.Self(), []string{nowhere})
	heard := make(chan error, 1)
	go func() {
		c, err := a.Dial(ctx(t), b.Self(), echo)
		if err == nil {
			err = echoed(c, "met")
			c.Close()
		}
		heard <- err
	}()
	c, err := silent.Accept() // nobody will ever say a word on it
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := connect(t, b, a.Self(), a.Addrs()); err != nil {
		t.Fatal(err)
	}
	if err := <-heard; err != nil {
		t.Errorf("the dial that began before they met: %v", err)
	}
}
