package memnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/p2p/memnet"
)

var (
	ipA = netip.MustParseAddr("127.0.0.1")
	ipB = netip.MustParseAddr("127.0.0.2")
	atB = netip.AddrPortFrom(ipB, 7)
)

// wired gives f two machines; the second echoes on port 7.
func wired(t *testing.T, f func(t *testing.T, w *memnet.Wires, a, b *memnet.Machine)) {
	synctest.Test(t, func(t *testing.T) {
		w := memnet.NewWires()
		a, b := w.Machine(ipA), w.Machine(ipB)
		echoes(t, b)
		f(t, w, a, b)
		a.Kill(false)
		b.Kill(false)
	})
}

// echoes serves port 7 until the machine dies.
func echoes(t *testing.T, m *memnet.Machine) {
	l, err := m.Listen(atB)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
}

func call(t *testing.T, m *memnet.Machine) net.Conn {
	t.Helper()
	c, err := tryCall(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func tryCall(m *memnet.Machine) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return m.Dial(ctx, atB)
}

func says(t *testing.T, c net.Conn, word string) {
	t.Helper()
	if _, err := c.Write([]byte(word)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len(word))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != word {
		t.Fatalf("%q, %v", b, err)
	}
}

// quiet proves that nothing comes back for a while.
func quiet(t *testing.T, c net.Conn, d time.Duration) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(d))
	n, err := c.Read(make([]byte, 9))
	if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	_ = c.SetReadDeadline(time.Time{})
}

func TestMachinesTalkAndKnowEachOthersAddresses(t *testing.T) {
	wired(t, func(t *testing.T, _ *memnet.Wires, a, _ *memnet.Machine) {
		c := call(t, a)
		says(t, c, "hello")
		if c.RemoteAddr().String() != "127.0.0.2:7" || c.LocalAddr().(*net.TCPAddr).AddrPort().Addr() != ipA {
			t.Errorf("%v to %v", c.LocalAddr(), c.RemoteAddr())
		}
	})
}

// All streams of a machine share its line, in both directions.
func TestASlowMachinesStreamsShareItsLine(t *testing.T) {
	wired(t, func(t *testing.T, w *memnet.Wires, a, b *memnet.Machine) {
		const rate, size = 100_000, 50_000
		c, d := call(t, a), call(t, a)
		for _, ip := range []netip.Addr{ipA, ipB} {
			w.Slow(ip, rate)
			begun := time.Now()
			for _, c := range []net.Conn{c, d} {
				if n, err := c.Write(make([]byte, size)); n != size || err != nil {
					t.Fatal(n, err)
				}
			}
			if _, err := io.ReadFull(d, make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			if got, least := time.Since(begun), 2*size*time.Second/rate; got < least || got > least+size*time.Second/rate+time.Millisecond {
				t.Errorf("%v: both there and the second back in %v", ip, got)
			}
			if _, err := io.ReadFull(c, make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			w.Slow(ip, 0)
			begun = time.Now()
			says(t, c, "fast")
			if got := time.Since(begun); got != 0 {
				t.Errorf("%v: still slow: %v", ip, got)
			}
		}
	})
}

func TestALagIsPaidInItsDirectionOnly(t *testing.T) {
	wired(t, func(t *testing.T, w *memnet.Wires, a, _ *memnet.Machine) {
		c := call(t, a)
		w.Lag(ipA, ipB, 300*time.Millisecond)
		start := time.Now()
		says(t, c, "slow")
		if d := time.Since(start); d != 300*time.Millisecond {
			t.Errorf("there and back in %v", d)
		}
		start = time.Now()
		call(t, a)
		if d := time.Since(start); d != 300*time.Millisecond {
			t.Errorf("dialled in %v", d)
		}
	})
}

func TestACutOfOneDirectionStallsThatOneAlone(t *testing.T) {
	wired(t, func(t *testing.T, w *memnet.Wires, a, _ *memnet.Machine) {
		c := call(t, a)
		w.Cut(ipB, ipA, 1)
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		quiet(t, c, time.Minute)
		if _, err := tryCall(a); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("dialled over half a way: %v", err)
		}
		w.Cut(ipB, ipA, 1) // a second fault on the same way
		w.Cut(ipB, ipA, -1)
		quiet(t, c, time.Minute)
		w.Cut(ipB, ipA, -1)
		b := make([]byte, 1)
		if _, err := io.ReadFull(c, b); err != nil || b[0] != 'x' {
			t.Errorf("%q, %v: what was under way is lost", b, err)
		}
	})
}

func TestAStreamGoesOnLongAfterALongCut(t *testing.T) {
	for cut, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 200 * time.Millisecond,
		time.Second:            1400 * time.Millisecond,
		time.Minute:            102200 * time.Millisecond,
		10 * time.Minute:       (204600 + 4*120_000) * time.Millisecond,
	} {
		wired(t, func(t *testing.T, w *memnet.Wires, a, _ *memnet.Machine) {
			c := call(t, a)
			w.Cut(ipA, ipB, 1)
			began := time.Now()
			if _, err := c.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(cut)
			w.Cut(ipA, ipB, -1)
			if _, err := c.Write([]byte("y")); err != nil { // behind the other
				t.Fatal(err)
			}
			b := make([]byte, 2)
			_, err := io.ReadFull(c, b)
			if d := time.Since(began); d != want || err != nil || string(b) != "xy" {
				t.Errorf("a cut of %v: %q arrived %v after it was sent, want it after %v: %v", cut, b, d, want, err)
			}
			began = time.Now()
			if says(t, c, "x"); time.Since(began) != 0 {
				t.Errorf("after a cut of %v all is not as before", cut)
			}
		})
	}
}

func TestADialIntoSilenceIsAnsweredWhenItTriesAgain(t *testing.T) {
	wired(t, func(t *testing.T, w *memnet.Wires, a, _ *memnet.Machine) {
		for heals, want := range map[time.Duration]time.Duration{500 * time.Millisecond: time.Second, 1500 * time.Millisecond: 3 * time.Second} {
			w.Cut(ipB, ipA, 1)
			began := time.Now()
			healed := time.AfterFunc(heals, func() { w.Cut(ipB, ipA, -1) })
			c, err := a.Dial(t.Context(), atB)
			if err != nil || time.Since(began) != want {
				t.Fatalf("%v after %v, want it after %v", err, time.Since(began), want)
			}
			c.Close()
			healed.Stop()
		}
	})
}

func TestAKilledProcessResetsAndRefuses(t *testing.T) {
	wired(t, func(t *testing.T, _ *memnet.Wires, a, b *memnet.Machine) {
		c := call(t, a)
		b.Kill(false)
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%v", err)
		}
		if _, err := tryCall(a); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%v", err)
		}
		if _, err := b.Dial(t.Context(), atB); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the dead dials: %v", err)
		}
		if _, err := b.Listen(atB); err == nil {
			t.Error("the dead listens")
		}
	})
}

func TestAMachineWithoutPowerIsSilentUntilItIsBack(t *testing.T) {
	wired(t, func(t *testing.T, w *memnet.Wires, a, b *memnet.Machine) {
		c := call(t, a)
		b.Kill(true)
		quiet(t, c, time.Minute)
		if _, err := tryCall(a); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v", err)
		}
		again := w.Machine(ipB)
		defer again.Kill(false)
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the machine is back and knows nothing of the stream, and says so: %v", err)
		}
		echoes(t, again)
		says(t, call(t, a), "again")
	})
}

func TestTheResetOfAKilledProcessDoesNotGetThroughACut(t *testing.T) {
	wired(t, func(t *testing.T, w *memnet.Wires, a, b *memnet.Machine) {
		c := call(t, a)
		w.Cut(ipB, ipA, 1)
		b.Kill(false)
		quiet(t, c, time.Minute)
		w.Cut(ipB, ipA, -1)
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%v", err)
		}
	})
}

func TestAPortIsTakenOnceAndFreedByClose(t *testing.T) {
	wired(t, func(t *testing.T, _ *memnet.Wires, a, b *memnet.Machine) {
		if _, err := b.Listen(atB); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%v", err)
		}
		l, err := b.Listen(netip.AddrPortFrom(ipB, 0))
		if err != nil {
			t.Fatal(err)
		}
		at := l.Addr().(*net.TCPAddr).AddrPort()
		c, err := a.Dial(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("nobody accepted, and nobody will: %v", err)
		}
		if _, err := a.Dial(t.Context(), at); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%v", err)
		}
	})
}
