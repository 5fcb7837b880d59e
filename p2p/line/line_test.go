package line_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/p2p/line"
)

const rate = 1_250_000 // 10 Mbit/s

// pair is a connection in memory whose first end is on a line.
func pair(t *testing.T, l *line.Line) (near, far net.Conn) {
	t.Helper()
	a, far := net.Pipe()
	near = l.Conn(a)
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func takes(n int) time.Duration { return time.Duration(n) * time.Second / rate }

func near(a, b time.Duration) bool { return (a - b).Abs() < 5*time.Millisecond }

func TestBytesArriveAsTheyWereAtTheRateInBothDirections(t *testing.T) {
	for _, out := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var l line.Line
			l.Set(rate)
			a, b := pair(t, &l)
			if !out {
				a, b = b, a
			}
			data := noise(1 << 20)
			var wg sync.WaitGroup
			wg.Go(func() {
				if n, err := a.Write(data); n != len(data) || err != nil {
					t.Errorf("wrote %d, %v", n, err)
				}
			})
			begun := time.Now()
			got := make([]byte, len(data))
			if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("other bytes, %v", err)
			}
			if d := time.Since(begun); !near(d, takes(len(data))) {
				t.Errorf("out %v: took %v, not %v", out, d, takes(len(data)))
			}
			wg.Wait()
		})
	}
}

// A word of one connection waits behind what another has put into the queue, and that is bounded.
func TestAWordWaitsBehindTheBulkOfAnotherConnectionForTheQueueAtMost(t *testing.T) {
	for _, out := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var l line.Line
			l.Set(rate)
			bulk, bulkFar := pair(t, &l)
			word, wordFar := pair(t, &l)
			if !out {
				bulk, bulkFar, word, wordFar = bulkFar, bulk, wordFar, word
			}
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = bulk.Write(noise(1 << 20)); bulk.Close() })
			wg.Go(func() { _, _ = io.Copy(io.Discard, bulkFar) })
			got := make(chan time.Time, 1)
			wg.Go(func() {
				_, _ = io.ReadFull(wordFar, make([]byte, 4))
				got <- time.Now()
			})
			time.Sleep(400 * time.Millisecond) // the queue is full
			begun := time.Now()
			_, _ = word.Write([]byte("word"))
			d := (<-got).Sub(begun)
			if d < line.Queue-20*time.Millisecond || d > line.Queue+20*time.Millisecond {
				t.Errorf("out %v: it waited %v", out, d)
			}
			bulk.Close()
			bulkFar.Close()
			wg.Wait()
		})
	}
}

// Whatever is written in whatever parts, while the limit comes, changes and goes: it arrives whole
// and in order.
func TestBytesKeepTheirOrderWhileTheRateChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rates := rapid.SliceOfN(rapid.SampledFrom([]int64{0, 1, 100_000, rate}), 1, 20).Draw(rt, "rates")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 20_000), 1, 20).Draw(rt, "sizes")
		out := rapid.Bool().Draw(rt, "out")
		synctest.Test(t, func(t *testing.T) {
			var l line.Line
			a, b := pair(t, &l)
			if !out {
				a, b = b, a
			}
			var want []byte
			for _, n := range sizes {
				want = append(want, noise(n)...)
			}
			done := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for _, r := range rates {
					l.Set(r)
					time.Sleep(30 * time.Millisecond)
				}
			})
			wg.Go(func() {
				rest := want
				for _, n := range sizes {
					if _, err := a.Write(rest[:n]); err != nil {
						t.Error(err)
					}
					rest = rest[n:]
				}
				<-done
			})
			got := make([]byte, len(want))
			if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("other bytes, %v", err)
			}
			close(done)
			wg.Wait()
		})
	})
}

func TestReadingEndsAtItsDeadlineAndGoesOnAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l line.Line
		l.Set(rate)
		a, b := pair(t, &l)
		for range 2 {
			_ = a.SetReadDeadline(time.Now().Add(time.Second))
			begun := time.Now()
			if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != time.Second {
				t.Fatalf("%v after %v", err, time.Since(begun))
			}
		}
		_ = a.SetDeadline(time.Time{})
		go func() { _, _ = b.Write([]byte("x")) }()
		if n, err := a.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	})
}

func TestTheEndComesAfterWhatCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l line.Line
		l.Set(rate)
		a, b := pair(t, &l)
		go func() { _, _ = b.Write(noise(50_000)); b.Close() }()
		got, err := io.ReadAll(a)
		if err != nil || !bytes.Equal(got, noise(50_000)) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	})
}

func TestCloseWakesWhoReadsAndWritesAndLeavesNobodyBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l line.Line
		l.Set(line.Least)
		a, _ := pair(t, &l)
		errs := make(chan error, 2)
		go func() { _, err := a.Read(make([]byte, 1)); errs <- err }()
		go func() { _, err := a.Write(noise(1 << 20)); errs <- err }()
		time.Sleep(time.Second)
		a.Close()
		for range 2 {
			if err := <-errs; err == nil {
				t.Error("no error")
			}
		}
		if _, err := a.Write([]byte("x")); err == nil {
			t.Error("written after Close")
		}
		if _, err := a.Read(make([]byte, 1)); err == nil {
			t.Error("read after Close")
		}
	})
}

// What has come and is not read is bounded.
func TestWhoDoesNotReadIsNotSentForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l line.Line
		l.Set(rate)
		a, b := pair(t, &l)
		var sent int
		var wg sync.WaitGroup
		wg.Go(func() {
			for part := noise(4 << 10); ; sent += len(part) {
				if _, err := b.Write(part); err != nil {
					return
				}
			}
		})
		if _, err := a.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		a.Close()
		b.Close()
		wg.Wait()
		if sent < 4<<20 || sent > 5<<20 {
			t.Errorf("%d bytes were taken", sent)
		}
	})
}

func TestPacketsPassTheLineToo(t *testing.T) {
	var l line.Line
	l.Set(rate)
	listen := func() *net.UDPConn {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a, b := l.UDP(listen()), listen()
	defer b.Close()
	const size, count = 1000, 50
	begun := time.Now()
	for range count {
		if _, err := a.WriteTo(noise(size), b.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	if d := time.Since(begun); d < takes(size*count) {
		t.Errorf("sent in %v, faster than the line", d)
	}
	if _, err := b.WriteTo([]byte("word"), a.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	word := make([]byte, 9)
	if n, from, err := a.ReadFrom(word); err != nil || string(word[:n]) != "word" || from.String() != b.LocalAddr().String() {
		t.Fatalf("%q from %v, %v", word[:n], from, err)
	}
	a.Close()
	if _, err := a.WriteTo(word, b.LocalAddr()); err == nil {
		t.Error("sent after Close")
	}
}
