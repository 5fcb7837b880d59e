//go:build !windows

package node_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/node"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

// BenchmarkMeeting is thirty whole peers that join one founder at once, until everybody holds
// everybody ready: what a pair that meets costs in processor time, both ends.
func BenchmarkMeeting(b *testing.B) {
	const n = 30
	for range b.N {
		before, begin := cpu(), time.Now()
		meet(b, n)
		b.ReportMetric(float64((cpu()-before).Microseconds())/1000/(n*(n-1)/2), "cpu-ms/pair")
		b.ReportMetric(time.Since(begin).Seconds(), "s")
	}
}

// meet runs n peers until they all know each other.
func meet(b *testing.B, n int) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	root := b.TempDir()
	var life, joining sync.WaitGroup
	defer func() { b.StopTimer(); cancel(); life.Wait(); b.StartTimer() }()
	clients := make([]*client.Client, n)
	start := func(i int, ticket string) error {
		dir := filepath.Join(root, fmt.Sprint(b.N, i))
		p, err := node.New(node.Config{Data: dir, Listen: []string{"127.0.0.1:0"}, NoMDNS: true, Join: ticket, Name: fmt.Sprint("p", i)})
		if err != nil {
			return err
		}
		clients[i] = client.Of(dir)
		up, ended := make(chan struct{}), make(chan error, 1)
		life.Go(func() { ended <- p.Run(ctx, func(api.Status) { close(up) }) })
		select {
		case <-up:
			return nil
		case err := <-ended:
			return fmt.Errorf("peer %d: %w", i, err)
		}
	}
	if err := start(0, ""); err != nil {
		b.Fatal(err)
	}
	t, err := clients[0].Invite(ctx, api.TicketRequest{Expires: 3600})
	if err != nil {
		b.Fatal(err)
	}
	for i := 1; i < n; i++ {
		joining.Go(func() {
			if err := start(i, t.Ticket); err != nil {
				b.Error(err)
			}
		})
	}
	joining.Wait()
	if b.Failed() {
		b.FailNow()
	}
	for _, c := range clients {
		for ready := 0; ready < n; <-time.After(50 * time.Millisecond) {
			ps, err := c.Peers(ctx)
			if err != nil {
				b.Fatal(err)
			}
			ready = 0
			for _, p := range ps.Peers {
				if p.Standing == "ready" {
					ready++
				}
			}
		}
	}
}
