package p2p_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/coveyproject/covey/p2p"
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

// patience bounds every wait of these tests: against hanging, not as a measure.
const patience = time.Minute

func ctx(t *testing.T) context.Context {
	c, cancel := context.WithTimeout(t.Context(), patience)
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

// dial is Host.Dial, again if three seconds were too short for this machine.
func dial(t *testing.T, h *p2p.Host, peer, name string) (c net.Conn, err error) {
	end := ctx(t)
	err = again(end, func() error {
		c, err = h.Dial(end, peer, name)
		return err
	})
	return c, err
}

// connect is Host.Connect, again if three seconds were too short for this machine.
func connect(t *testing.T, h *p2p.Host, peer string, addrs []string) error {
	end := ctx(t)
	return again(end, func() error { return h.Connect(end, peer, addrs) })
}

// again does something until it does not fail for want of time.
func again(ctx context.Context, f func() error) error {
	for {
		err := f()
		if ctx.Err() != nil || !slow(err) {
			return err
		}
	}
}

// slow tells whether something failed because its time was up, here or, for the choice of a
// protocol, on the other side.
func slow(err error) bool {
	var late net.Error
	var reset *network.StreamError
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late) && late.Timeout() ||
		errors.As(err, &reset) && reset.Remote && reset.ErrorCode == network.StreamProtocolNegotiationFailed
}

// opened is a stream that echoes, again if three seconds were too short for this machine. What was
// given up is counted over there until its end is noticed.
func opened(t *testing.T, h *p2p.Host, peer string) (c net.Conn, err error) {
	end := ctx(t)
	for {
		err = again(end, func() (err error) {
			if c, err = h.Dial(end, peer, echo); err == nil {
				if err = echoed(c, "one of many"); err != nil {
					c.Close()
				}
			}
			return err
		})
		if end.Err() != nil || !errors.Is(err, p2p.ErrTooMany) {
			return c, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func ask(a *p2p.Host, b, say string) error {
	end, cancel := timeout(patience)
	defer cancel()
	var c net.Conn
	err := again(end, func() (err error) {
		c, err = a.Dial(end, b, echo)
		return err
	})
	if err != nil {
		return err
	}
	defer c.Close()
	return echoed(c, say)
}

// echoed says something on a stream and wants to hear it.
func echoed(c net.Conn, say string) error {
	c.SetDeadline(time.Now().Add(patience))
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

func itoa(n int) string { return strconv.Itoa(n) }

func timeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
