package memnet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/memnet"

	"pgregory.net/rapid"
)

var _ p2p.Net = (*memnet.Host)(nil)

const echo = "/echo/1"

// bubble runs f with a network of a and b, where b echoes.
func bubble(t *testing.T, f func(t *testing.T, n *memnet.Network, a, b *memnet.Host)) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		a, b := n.Host("a"), n.Host("b")
		b.Handle(echo, func(_ string, c net.Conn) {
			defer c.Close()
			io.Copy(c, c)
		})
		f(t, n, a, b)
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func dial(t *testing.T, h *memnet.Host, peer string) net.Conn {
	t.Helper()
	c, err := h.Dial(t.Context(), peer, echo)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ask(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len(s))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != s {
		t.Fatalf("%q, %v", b, err)
	}
}

func TestAHandlerKnowsWhoCalls(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		who := make(chan string, 1)
		b.Handle("/who/1", func(peer string, c net.Conn) { who <- peer; c.Close() })
		c, err := a.Dial(t.Context(), "b", "/who/1")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got := <-who; got != "a" {
			t.Fatalf("the handler heard of %q", got)
		}
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Fatalf("after the other's Close: %v", err)
		}
		b.Handle("/who/1", nil)
		if _, err := a.Dial(t.Context(), "b", "/who/1"); err == nil || p2p.Refused(err) {
			t.Fatalf("a protocol nobody serves: %v", err)
		}
	})
}

func TestWhatWasSentArrivesWholeAndInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		parts := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 3000), 0, 40).Draw(rt, "parts")
		delay := rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second}).Draw(rt, "delay")
		size := rapid.IntRange(1, 5000).Draw(rt, "read size")
		synctest.Test(t, func(t *testing.T) {
			n := memnet.New()
			n.Delay(delay)
			got := make(chan []byte, 1)
			n.Host("b").Handle("/sink/1", func(_ string, c net.Conn) {
				defer c.Close()
				var all bytes.Buffer
				io.CopyBuffer(struct{ io.Writer }{&all}, struct{ io.Reader }{c}, make([]byte, size))
				got <- all.Bytes()
			})
			c, err := n.Host("a").Dial(t.Context(), "b", "/sink/1")
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range parts {
				if _, err := c.Write(p); err != nil {
					t.Fatal(err)
				}
			}
			c.Close()
			if b := <-got; !bytes.Equal(b, bytes.Join(parts, nil)) {
				rt.Fatalf("%d bytes arrived", len(b))
			}
			n.Close()
		})
	})
}

func TestAWriterWaitsForAReaderThatDoesNotRead(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		b.Handle("/deaf/1", func(_ string, c net.Conn) {
			defer c.Close()
			time.Sleep(time.Minute)
		})
		c, err := a.Dial(t.Context(), "b", "/deaf/1")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetWriteDeadline(time.Now().Add(time.Second))
		k, err := c.Write(make([]byte, 10<<20))
		if !errors.Is(err, os.ErrDeadlineExceeded) || k == 0 || k > 1<<20 {
			t.Fatalf("%d bytes, %v", k, err)
		}
		time.Sleep(time.Hour)
		if _, err := c.Write([]byte("x")); err == nil {
			t.Fatal("a write to a closed end succeeded after the deadline was past")
		}
	})
}

func TestADeadlineCanBeMovedWhileSomebodyWaits(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		c := dial(t, a, "b")
		defer c.Close()
		start := time.Now()
		time.AfterFunc(time.Second, func() { c.SetReadDeadline(time.Now().Add(4 * time.Second)) })
		c.SetReadDeadline(start.Add(2 * time.Second))
		_, err := c.Read(make([]byte, 1))
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 5*time.Second {
			t.Fatalf("after %v", d)
		}
		c.SetDeadline(time.Time{})
		ask(t, c, "still good")
	})
}

func TestCloseUnblocksReadAndWriteAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		c := dial(t, a, "b")
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Read: %v", err)
			}
		})
		synctest.Wait()
		c.Close()
		wg.Wait()
		if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write: %v", err)
		}
	})
}

func TestHalfACloseLeavesTheOtherDirection(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		c := dial(t, a, "b")
		defer c.Close()
		io.WriteString(c, "question")
		c.(interface{ CloseWrite() error }).CloseWrite()
		if got, err := io.ReadAll(c); string(got) != "question" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	})
}

func TestAKilledPeerRefusesAndItsStreamsBreak(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		c := dial(t, a, "b")
		ask(t, c, "hello")
		n.Kill("b")
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := a.Dial(t.Context(), "b", echo); !p2p.Refused(err) || time.Since(start) != 0 {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		if _, err := b.Dial(t.Context(), "a", echo); err == nil || p2p.Refused(err) {
			t.Fatalf("the dead dialled: %v", err)
		}
		n.Revive("b")
		ask(t, dial(t, a, "b"), "back")
	})
}

func TestACutStallsStreamsUntilItHeals(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		c := dial(t, a, "b")
		n.Cut("b", "a")
		io.WriteString(c, "late")
		c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := c.Read(make([]byte, 9)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		start := time.Now()
		_, err := a.Dial(t.Context(), "b", echo)
		if !errors.Is(err, os.ErrDeadlineExceeded) || p2p.Refused(err) || time.Since(start) != 3*time.Second {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		n.Host("c").Handle(echo, func(_ string, c net.Conn) { c.Close() })
		dial(t, a, "c").Close()
		n.Heal()
		c.SetReadDeadline(time.Time{})
		b1 := make([]byte, 4)
		if _, err := io.ReadFull(c, b1); err != nil || string(b1) != "late" {
			t.Fatalf("%q, %v", b1, err)
		}
	})
}

func TestDelayIsPaidPerDirection(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		c := dial(t, a, "b")
		n.Delay(50 * time.Millisecond)
		start := time.Now()
		ask(t, c, "there and back")
		if d := time.Since(start); d != 100*time.Millisecond {
			t.Fatal(d)
		}
	})
}

func TestACancelledDialSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		n.Cut("a", "b")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := a.Dial(ctx, "b", echo); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	})
}

func TestASignatureIsTheSignersOnly(t *testing.T) {
	a := memnet.New().Host("a")
	sig, err := a.Sign([]byte("data"))
	if err != nil {
		t.Fatal(err)
	}
	if err := memnet.Verify("a", []byte("data"), sig); err != nil {
		t.Fatal(err)
	}
	if memnet.Verify("b", []byte("data"), sig) == nil || memnet.Verify("a", []byte("date"), sig) == nil {
		t.Fatal("a foreign signature passed")
	}
}
