package node_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"covey/node"
	"covey/node/api"
	"covey/taskstate"
	"covey/taskstate/jobfile"
)

// flock runs n whole peers in this process, each with its own folder, key and sockets, until the benchmark ends.
func flock(b *testing.B, n int) []*api.Client {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	b.Cleanup(func() { cancel(); wg.Wait() })
	var clients []*api.Client
	ticket := ""
	for i := range n {
		dir := filepath.Join(b.TempDir(), fmt.Sprint(i))
		p, err := node.New(node.Config{Data: dir, Listen: []string{"127.0.0.1:0"}, NoMDNS: true, Join: ticket, Name: fmt.Sprint("p", i)})
		if err != nil {
			b.Fatal(err)
		}
		up := make(chan struct{})
		wg.Go(func() {
			if err := p.Run(ctx, func(api.Status) { close(up) }); err != nil {
				b.Error(err)
			}
		})
		<-up
		c := api.NewClient(api.SocketPath(dir))
		clients = append(clients, c)
		if i == 0 {
			t, err := c.Invite(ctx, api.TicketRequest{Expires: 3600})
			if err != nil {
				b.Fatal(err)
			}
			ticket = t.Ticket
		}
	}
	for _, c := range clients {
		for {
			ps, err := c.Peers(ctx)
			ready := 0
			for _, p := range ps.Peers {
				if p.Standing == "ready" {
					ready++
				}
			}
			if err == nil && ready == n {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	return clients
}

// BenchmarkNoopTasks is one job of b.N tasks that do nothing, from submission to its end, on three whole peers in one process.
func BenchmarkNoopTasks(b *testing.B) {
	clients := flock(b, 3)
	job := taskstate.Job{Count: b.N}
	job.Run.Noop = &taskstate.Noop{}
	jobfile.Defaults(&job)
	b.ResetTimer()
	sub, err := clients[0].Submit(b.Context(), api.Submit{Job: job})
	if err != nil {
		b.Fatal(err)
	}
	if err := clients[0].Follow(b.Context(), sub.ID, false, func(api.Progress) error { return nil }); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}
