package p2p_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coveyproject/covey/p2p"
)

func TestAStrangerOpensNothingButItsProtocols(t *testing.T) {
	for _, quic := range []bool{false, true} {
		var reached, told atomic.Int32
		a := start(t, everybody(), func(c *p2p.Config) { c.OnNotAdmitted = func(string) { told.Add(1) } })
		b := start(t, only(), func(c *p2p.Config) { c.Strangers = []string{"/join/1"} })
		b.Handle("/secret/1", func(_ string, c net.Conn) { reached.Add(1); c.Close() })
		b.Handle("/join/1", func(_ string, c net.Conn) {
			defer c.Close()
			io.WriteString(c, "come in")
		})
		addrs := transportOf(b.Addrs(), quic)
		err := connect(t, a, b.Self(), addrs)
		if !errors.Is(err, p2p.ErrNotAdmitted) || !strings.Contains(err.Error(), "peer ticket") {
			t.Fatalf("quic=%v: a stranger was told %v", quic, err)
		}
		for range 3 { // the second time a is known to speak the protocol, and negotiation is lazy
			c, err := dial(t, a, b.Self(), "/secret/1")
			if err == nil {
				io.WriteString(c, "?")
				c.SetDeadline(time.Now().Add(patience))
				_, err = c.Read(make([]byte, 1))
				c.Close()
			}
			if !errors.Is(err, p2p.ErrNotAdmitted) {
				t.Fatalf("quic=%v: the secret answered %v", quic, err)
			}
		}
		c, err := dial(t, a, b.Self(), "/join/1")
		if err != nil {
			t.Fatal(err)
		}
		if s, err := io.ReadAll(c); string(s) != "come in" || err != nil {
			t.Fatal(s, err)
		}
		c.Close()
		if reached.Load() != 0 {
			t.Fatal("a stranger reached a handler")
		}
		if n := told.Load(); n != 3 {
			t.Errorf("quic=%v: told of %d streams that were turned away, want 3", quic, n)
		}
	}
}

func TestAStrangersStreamsAreFewAndSmall(t *testing.T) {
	a := start(t, everybody())
	b := start(t, only(), func(c *p2p.Config) { c.Strangers = []string{"/join/1"} })
	read, entered := make(chan int, 10), make(chan struct{}, 10)
	b.Handle("/join/1", func(_ string, c net.Conn) {
		defer c.Close()
		entered <- struct{}{}
		if n, err := io.Copy(io.Discard, c); err != nil {
			read <- int(n)
		}
	})
	a.SetAddrs(b.Self(), b.Addrs())
	var open []net.Conn
	for range 4 {
		c, err := dial(t, a, b.Self(), "/join/1")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		<-entered // a stream is counted a moment after it was opened: the fifth must not be counted before
	}
	c, err := dial(t, a, b.Self(), "/join/1")
	if err == nil {
		defer c.Close()
		c.Write(make([]byte, 1))
		c.SetReadDeadline(time.Now().Add(patience))
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, p2p.ErrBusy) {
		t.Fatalf("a fifth stream is not refused: %v", err)
	}
	open[0].Write(make([]byte, 10_000))
	if n := <-read; n != 4096 {
		t.Fatalf("%d bytes were read from a stranger", n)
	}
}

func TestAdmissionOfAConnectedPeerTakesEffectAndSoDoesRemoval(t *testing.T) {
	a := start(t, everybody())
	in := only()
	b := start(t, in)
	serveEcho(b)
	up, down := make(chan string, 9), make(chan string, 9)
	b.OnConnect(func(p string) { up <- p })
	b.OnDisconnect(func(p string) { down <- p })
	if err := connect(t, a, b.Self(), b.Addrs()); !errors.Is(err, p2p.ErrNotAdmitted) {
		t.Fatal(err)
	}
	in.set(true, a.Self())
	b.Recheck()
	if p := <-up; p != a.Self() {
		t.Fatal(p)
	}
	if err := connect(t, a, b.Self(), nil); err != nil {
		t.Fatal(err)
	}
	if err := ask(a, b.Self(), "me too"); err != nil {
		t.Fatal(err)
	}
	in.set(false, a.Self())
	b.Recheck()
	if p := <-down; p != a.Self() {
		t.Fatal(p)
	}
	eventually(t, "the connection is gone", func() bool { d, _ := a.Connected(b.Self()); return !d })
	if err := ask(a, b.Self(), "still?"); err == nil {
		t.Fatal("a removed peer was served")
	}
}

func TestAnAdmittedPeersStreamsOfOneProtocolAreBounded(t *testing.T) {
	a, flood, other := start(t, everybody()), start(t, everybody()), start(t, everybody())
	serveEcho(a)
	for _, h := range []*p2p.Host{flood, other} {
		h.SetAddrs(a.Self(), a.Addrs())
	}
	const most = 256
	var open []net.Conn
	for range most {
		c, err := opened(t, flood, a.Self())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	c, err := dial(t, flood, a.Self(), echo)
	if err == nil {
		_, _ = c.Write([]byte("one more"))
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	if !errors.Is(err, p2p.ErrTooMany) || errors.Is(err, p2p.ErrBusy) || strings.Contains(err.Error(), "newcomers") {
		t.Errorf("stream %d: %v", most+1, err)
	}
	c, err = dial(t, other, a.Self(), echo)
	if err != nil {
		t.Fatal(err)
	}
	says(t, c, "the others are served")
	_ = open[0].Close()
	eventually(t, "a place is free again", func() bool {
		c, err := flood.Dial(ctx(t), a.Self(), echo)
		if err != nil {
			return false
		}
		defer c.Close()
		_, _ = c.Write([]byte("?"))
		_, err = io.ReadFull(c, make([]byte, 1))
		return err == nil
	})
}

// says has a stream echo a word.
func says(t *testing.T, c net.Conn, word string) {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(patience))
	got := make([]byte, len(word))
	if _, err := c.Write([]byte(word)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, got); err != nil || string(got) != word {
		t.Fatalf("%q, %v", got, err)
	}
}
