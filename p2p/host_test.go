package p2p_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"covey/p2p"
	"covey/p2p/wire"
)

const echo = "/echo/1"

// roster is a Config.Admitted that a test changes.
type roster struct {
	mu    sync.Mutex
	peers map[string]bool
	all   bool
}

func everybody() *roster { return &roster{all: true} }

func only(peers ...string) *roster {
	r := &roster{peers: map[string]bool{}}
	r.set(true, peers...)
	return r
}

func (r *roster) set(in bool, peers ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range peers {
		r.peers[p] = in
	}
}

func (r *roster) admitted(p string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all || r.peers[p]
}

func start(t *testing.T, r *roster, change ...func(*p2p.Config)) *p2p.Host {
	t.Helper()
	key, err := p2p.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	cfg := p2p.Config{Key: key, Listen: []string{"127.0.0.1:0"}, Admitted: r.admitted}
	for _, f := range change {
		f(&cfg)
	}
	h, err := p2p.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func serveEcho(h *p2p.Host) {
	h.Handle(echo, func(_ string, c net.Conn) {
		defer c.Close()
		io.Copy(c, c)
	})
}

func ctx(t *testing.T) context.Context {
	c, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return c
}

// eventually waits for a condition that other goroutines bring about.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := ctx(t); !f(); {
		select {
		case <-end.Done():
			t.Fatalf("it never happened that %s", what)
		case <-tick.C:
		}
	}
}

func ask(a *p2p.Host, b, say string) error {
	c, err := a.Dial(context.Background(), b, echo)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	sent := make(chan error, 1) // beside reading: more than the windows hold
	go func() {
		_, err := io.WriteString(c, say)
		sent <- err
	}()
	got := make([]byte, len(say))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if string(got) != say {
		return errors.New("the echo is " + string(got))
	}
	return <-sent
}

func transportOf(addrs []string, quic bool) []string {
	return slices.DeleteFunc(slices.Clone(addrs), func(a string) bool { return strings.Contains(a, "quic") != quic })
}

func TestAStreamIsANetConn(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	serveEcho(b)
	a.SetAddrs(b.Self(), b.Addrs())
	c, err := a.Dial(ctx(t), b.Self(), echo)
	if err != nil {
		t.Fatal(err)
	}
	if c.RemoteAddr().String() != b.Self() || c.LocalAddr().String() != a.Self() {
		t.Fatal(c.RemoteAddr(), c.LocalAddr())
	}
	if err := wire.NewWriter(c, 0).Send("hello"); err != nil {
		t.Fatal(err)
	}
	var s string
	if err := wire.NewReader(c, 0).Read(&s); err != nil || s != "hello" {
		t.Fatal(s, err)
	}
	c.SetReadDeadline(time.Now().Add(time.Millisecond))
	var ne net.Error
	if _, err := c.Read(make([]byte, 1)); !errors.As(err, &ne) || !ne.Timeout() {
		t.Fatalf("past its deadline: %v", err)
	}
	c.SetReadDeadline(time.Time{})
	done := make(chan error)
	go func() {
		_, err := c.Read(make([]byte, 1))
		done <- err
	}()
	c.Close()
	if err := <-done; err == nil {
		t.Fatal("Read returned data after Close")
	}
	if _, err := c.Write([]byte("x")); err == nil {
		t.Fatal("Write after Close")
	}
}

func TestCloseUnblocksReadOnBothTransports(t *testing.T) {
	for _, quic := range []bool{false, true} {
		a, b := start(t, everybody()), start(t, everybody())
		serveEcho(b)
		a.SetAddrs(b.Self(), transportOf(b.Addrs(), quic))
		c, err := a.Dial(ctx(t), b.Self(), echo)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "x")
		io.ReadFull(c, make([]byte, 1))
		done := make(chan error)
		go func() {
			_, err := c.Read(make([]byte, 1))
			done <- err
		}()
		c.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Fatalf("quic=%v: %v", quic, err)
		}
	}
}

func TestAFrameAboveTheCapIsRefusedOnBothSides(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	got := make(chan error, 1)
	b.Handle("/frames/1", func(_ string, c net.Conn) {
		defer c.Close()
		var v []byte
		got <- wire.NewReader(c, 1000).Read(&v)
	})
	a.SetAddrs(b.Self(), b.Addrs())
	c, err := a.Dial(ctx(t), b.Self(), "/frames/1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := wire.NewWriter(c, 1000).Send(make([]byte, 2000)); !errors.Is(err, wire.ErrTooLarge) {
		t.Fatalf("sent: %v", err)
	}
	if err := wire.NewWriter(c, 0).Send(make([]byte, 2000)); err != nil {
		t.Fatal(err)
	}
	if err := <-got; !errors.Is(err, wire.ErrTooLarge) {
		t.Fatalf("read: %v", err)
	}
}

func TestTCPIsDialledFirst(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	if tcp, quic := transportOf(b.Addrs(), false), transportOf(b.Addrs(), true); len(tcp) != 1 || len(quic) != 1 ||
		!strings.HasPrefix(strings.Replace(quic[0], "/udp/", "/tcp/", 1), tcp[0]) {
		t.Fatalf("not one port for both: %v", b.Addrs())
	}
	if err := a.Connect(ctx(t), b.Self(), b.Addrs()); err != nil {
		t.Fatal(err)
	}
	if p2p.TransportsOf(a, b.Self()) != "tcp" {
		t.Fatal(p2p.TransportsOf(a, b.Self()))
	}
	if direct, relayed := a.Connected(b.Self()); !direct || relayed {
		t.Fatal(direct, relayed)
	}
	if d, ok := a.RTT(b.Self()); !ok || d <= 0 {
		t.Fatal("no round trip after Connect")
	}
}

func TestAStrangerOpensNothingButItsProtocols(t *testing.T) {
	for _, quic := range []bool{false, true} {
		a := start(t, everybody())
		b := start(t, only(), func(c *p2p.Config) { c.Strangers = []string{"/join/1"} })
		var reached atomic.Int32
		b.Handle("/secret/1", func(_ string, c net.Conn) { reached.Add(1); c.Close() })
		b.Handle("/join/1", func(_ string, c net.Conn) {
			defer c.Close()
			io.WriteString(c, "come in")
		})
		addrs := transportOf(b.Addrs(), quic)
		err := a.Connect(ctx(t), b.Self(), addrs)
		if !errors.Is(err, p2p.ErrNotAdmitted) || !strings.Contains(err.Error(), "peer ticket") {
			t.Fatalf("quic=%v: a stranger was told %v", quic, err)
		}
		for range 3 { // the second time a is known to speak the protocol, and negotiation is lazy
			c, err := a.Dial(ctx(t), b.Self(), "/secret/1")
			if err == nil {
				io.WriteString(c, "?")
				c.SetDeadline(time.Now().Add(5 * time.Second))
				_, err = c.Read(make([]byte, 1))
				c.Close()
			}
			if !errors.Is(err, p2p.ErrNotAdmitted) {
				t.Fatalf("quic=%v: the secret answered %v", quic, err)
			}
		}
		c, err := a.Dial(ctx(t), b.Self(), "/join/1")
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
	}
}

func TestAStrangersStreamsAreFewAndSmall(t *testing.T) {
	a := start(t, everybody())
	b := start(t, only(), func(c *p2p.Config) { c.Strangers = []string{"/join/1"} })
	read := make(chan int, 10)
	b.Handle("/join/1", func(_ string, c net.Conn) {
		defer c.Close()
		if n, err := io.Copy(io.Discard, c); err != nil {
			read <- int(n)
		}
	})
	a.SetAddrs(b.Self(), b.Addrs())
	var open []net.Conn
	for range 4 {
		c, err := a.Dial(ctx(t), b.Self(), "/join/1")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	eventually(t, "a fifth stream is refused", func() bool {
		c, err := a.Dial(ctx(t), b.Self(), "/join/1")
		if err != nil {
			return true
		}
		defer c.Close()
		c.Write(make([]byte, 1))
		c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		_, err = c.Read(make([]byte, 1))
		var ne net.Error
		return !errors.As(err, &ne) || !ne.Timeout()
	})
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
	if err := a.Connect(ctx(t), b.Self(), b.Addrs()); !errors.Is(err, p2p.ErrNotAdmitted) {
		t.Fatal(err)
	}
	in.set(true, a.Self())
	b.Recheck()
	if p := <-up; p != a.Self() {
		t.Fatal(p)
	}
	if err := a.Connect(ctx(t), b.Self(), nil); err != nil {
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

func TestAPeerThatRestartsElsewhereIsFoundAgainAtOnce(t *testing.T) {
	a := start(t, everybody())
	key, err := p2p.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	same := func(c *p2p.Config) { c.Key = key }
	b := start(t, everybody(), same)
	gone := make(chan string, 1)
	a.OnDisconnect(func(p string) { gone <- p })
	if err := a.Connect(ctx(t), b.Self(), b.Addrs()); err != nil {
		t.Fatal(err)
	}
	a.SetAddrs(b.Self(), b.Addrs())
	b.Close()
	if p := <-gone; p != b.Self() {
		t.Fatal(p)
	}
	for range 3 { // each failure would lengthen libp2p's backoff
		begun := time.Now()
		_, err := a.Dial(ctx(t), b.Self(), echo)
		if !p2p.Refused(err) {
			t.Fatalf("a dial to a dead process: %v", err)
		}
		if d := time.Since(begun); d > 2*time.Second {
			t.Logf("the refusal took %v", d)
		}
	}
	b = start(t, everybody(), same)
	serveEcho(b)
	a.SetAddrs(b.Self(), b.Addrs())
	if err := ask(a, b.Self(), "hello again"); err != nil {
		t.Fatal(err)
	}
}

func TestBlockCutsBothWaysAndHealLetsInAgain(t *testing.T) {
	a, b, c := start(t, everybody()), start(t, everybody()), start(t, everybody())
	for _, h := range []*p2p.Host{a, b, c} {
		serveEcho(h)
		for _, o := range []*p2p.Host{a, b, c} {
			h.SetAddrs(o.Self(), o.Addrs())
		}
	}
	if err := errors.Join(ask(a, b.Self(), "x"), ask(b, a.Self(), "x"), ask(c, b.Self(), "x")); err != nil {
		t.Fatal(err)
	}
	st, err := b.Dial(ctx(t), a.Self(), echo)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(st, "x")
	io.ReadFull(st, make([]byte, 1))
	a.Block([]string{b.Self()})
	if _, err := st.Read(make([]byte, 1)); err == nil {
		t.Fatal("a stream lives on across the cut")
	}
	if err := ask(a, b.Self(), "x"); err == nil || p2p.Refused(err) {
		t.Fatalf("out: %v", err)
	}
	if err := ask(b, a.Self(), "x"); err == nil || p2p.Refused(err) {
		t.Fatalf("in: %v", err)
	}
	if err := errors.Join(ask(c, a.Self(), "x"), ask(c, b.Self(), "x")); err != nil {
		t.Fatalf("the others: %v", err)
	}
	a.Block(nil)
	if err := errors.Join(ask(a, b.Self(), "x"), ask(b, a.Self(), "x")); err != nil {
		t.Fatal(err)
	}
}

func TestATakenPortIsNamedIfItWasAskedForAndReplacedIfNot(t *testing.T) {
	a := start(t, everybody())
	key, _ := p2p.NewIdentity()
	_, err := p2p.New(p2p.Config{Key: key, Listen: []string{"127.0.0.1"}, Port: a.Port()})
	if err == nil || !strings.Contains(err.Error(), "port") || !strings.Contains(err.Error(), "another") {
		t.Fatalf("%v", err)
	}
	b := start(t, everybody(), func(c *p2p.Config) { c.Listen, c.Prefer = []string{"127.0.0.1"}, a.Port() })
	if b.Port() == a.Port() || b.Port() == 0 {
		t.Fatal("two peers on one port")
	}
}

func TestWhoSaysWhoLivesAtAnAddress(t *testing.T) {
	a, b := start(t, everybody()), start(t, only())
	_, addr, err := p2p.ParseAddr(net.JoinHostPort("localhost", itoa(b.Port())))
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Who(ctx(t), addr)
	if err != nil || id != b.Self() {
		t.Fatal(id, err)
	}
	b.Close()
	if _, err := a.Who(ctx(t), addr); !p2p.Refused(err) {
		t.Fatalf("%v", err)
	}
}
