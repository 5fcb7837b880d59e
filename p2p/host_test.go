package p2p_test

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/wire"
)

func TestAStreamIsANetConn(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	serveEcho(b)
	a.SetAddrs(b.Self(), b.Addrs())
	c, err := dial(t, a, b.Self(), echo)
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
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
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
		c, err := dial(t, a, b.Self(), echo)
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
	c, err := dial(t, a, b.Self(), "/frames/1")
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

// QUIC gives TCP a head start of 250 ms only, which is too short for this machine now and then.
func TestTCPIsDialledFirst(t *testing.T) {
	for try := range 5 {
		over, took := metOver(t)
		if over == "tcp" {
			return
		}
		if took < 250*time.Millisecond || try == 4 {
			t.Fatalf("they met over %s after %v", over, took)
		}
	}
}

// metOver connects two fresh hosts and names the transport they met over, and how long it took.
func metOver(t *testing.T) (string, time.Duration) {
	t.Helper()
	a, b := start(t, everybody()), start(t, everybody())
	if tcp, quic := transportOf(b.Addrs(), false), transportOf(b.Addrs(), true); len(tcp) != 1 || len(quic) != 1 ||
		!strings.HasPrefix(strings.Replace(quic[0], "/udp/", "/tcp/", 1), tcp[0]) {
		t.Fatalf("not one port for both: %v", b.Addrs())
	}
	begun := time.Now()
	if err := connect(t, a, b.Self(), b.Addrs()); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begun)
	if direct, relayed := a.Connected(b.Self()); !direct || relayed {
		t.Fatal(direct, relayed)
	}
	return p2p.TransportsOf(a, b.Self()), took
}

func TestAPeerThatRestartsElsewhereIsFoundAgainAtOnce(t *testing.T) {
	a := start(t, everybody())
	key, err := p2p.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	same := func(c *p2p.Config) { c.Key = key }
	b := start(t, everybody(), same)
	gone := make(chan string, 64)
	a.OnDisconnect(func(p string) { gone <- p })
	if err := connect(t, a, b.Self(), b.Addrs()); err != nil {
		t.Fatal(err)
	}
	a.SetAddrs(b.Self(), b.Addrs())
	b.Close()
	if p := <-gone; p != b.Self() {
		t.Fatal(p)
	}
	for range 3 { // each failure would lengthen libp2p's backoff
		begun := time.Now()
		_, err := dial(t, a, b.Self(), echo)
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
	st, err := dial(t, b, a.Self(), echo)
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
	_, err := p2p.New(p2p.Config{Key: key, Listen: []string{net.JoinHostPort("127.0.0.1", itoa(a.Port()))}})
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
	var id string
	err = again(ctx(t), func() (err error) {
		id, err = a.Who(ctx(t), addr)
		return err
	})
	if err != nil || id != b.Self() {
		t.Fatal(id, err)
	}
	b.Close()
	if _, err := a.Who(ctx(t), addr); !p2p.Refused(err) {
		t.Fatalf("%v", err)
	}
}
