//go:build unix

package worker

import (
	"context"
	"crypto/ed25519"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// windowCoordinator keeps a number of no-ops outstanding on a worker until all have ended.
type windowCoordinator struct {
	total, window int
	done          chan struct{}
}

func (c *windowCoordinator) serve(_ string, conn net.Conn) {
	defer conn.Close()
	r, w := wire.NewReader(conn, 0), wire.NewWriter(conn, 0)
	next, out, set := 1, 0, uint64(1)
	grant := func() {
		n := min(c.window-out, c.total-next+1)
		if n <= 0 || (n < c.window/8 && next+n <= c.total) {
			return
		}
		_ = w.Write(setOf(false, 1, set, set+1, grantOf(jobNoop, next, n)))
		next, out, set = next+n, out+n, set+1
	}
	_ = w.Send(welcomeIn(1))
	for {
		var up session.Up
		if r.Read(&up) != nil {
			return
		}
		switch {
		case up.Report != nil && up.Report.Done:
			_ = w.Write(setOf(true, 1, 0, 1))
			grant()
		case up.Beat != nil:
			_ = w.Write(session.Down{Beat: &session.BeatAnswer{N: up.Beat.N, Held: true}})
		case up.Batch != nil:
			b, err := taskstate.DecodeBatch(up.Batch[:len(up.Batch)-ed25519.SignatureSize])
			if err != nil {
				panic(err)
			}
			out -= len(b.Statuses)
			_ = w.Write(session.Down{Ack: &session.Ack{Batch: b.Number}})
			if next > c.total && out == 0 {
				close(c.done)
			}
			grant()
		}
		if r.Buffered() == 0 {
			_ = w.Flush()
		}
	}
}

// BenchmarkNoops is the whole way of a no-op through a worker: frame, journal with fsync, batch,
// signature, journal, session, acknowledgement. cpu-µs/op is the processor time of both ends.
func BenchmarkNoops(b *testing.B) {
	for _, window := range []struct {
		name string
		n    int
	}{{"window=1", 1}, {"window=64", 64}, {"window=4096", 4096}} {
		b.Run(window.name, func(b *testing.B) { benchNoops(b, window.n) })
	}
}

func benchNoops(b *testing.B, window int) {
	n := memnet.New()
	defer n.Close()
	c := &windowCoordinator{total: b.N, window: window, done: make(chan struct{})}
	n.Host("robin").Handle(session.Protocol, c.serve)
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.Fatal(err)
	}
	runner := &handRunner{}
	w, err := NewLoop(Config{
		Self: benchPeer, Incarnation: benchLife, Dir: b.TempDir(), Offer: testOffer(), Net: n.Host(benchPeer), Runner: runner,
		Coordinator: func() (taskstate.PeerID, taskstate.Epoch, bool) { return "robin", taskstate.At(1, 1), true },
		Seal: func(_ taskstate.Incarnation, _ uint64, body []byte) ([]byte, error) {
			return append(body, ed25519.Sign(key, body)...), nil
		},
		Publish: func(context.Context, []byte) error { return nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	runner.sink = w.Report
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	b.ResetTimer()
	before := processorTime()
	go func() { ended <- w.Run(ctx) }()
	<-c.done
	b.ReportMetric(float64((processorTime()-before).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	b.StopTimer()
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
