package quorum_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"
)

// realCluster runs n voters in real time, with files and fsync.
func realCluster(b testing.TB, n int) []*quorum.Node {
	ids := []string{"a", "b", "c"}[:n]
	var ledgers []*quorum.Node
	netw := memnet.New()
	born := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	var ran []chan struct{}
	led := make(chan struct{}, 8)
	for i, id := range ids {
		l, err := quorum.Open(quorum.Config{Net: netw.Host(id), Self: id, Incarnation: "1", Draw: firstSeat, Dir: filepath.Join(b.TempDir(), id), Candidates: func() (out []quorum.Candidate) {
			for _, id := range ids {
				out = append(out, quorum.Candidate{Peer: id, Incarnation: "1", Alive: true, Eligible: true, Since: born})
			}
			return out
		}})
		if err != nil {
			b.Fatal(err)
		}
		if i == 0 {
			if err := l.Found(ctx, founding("a")); err != nil {
				b.Fatal(err)
			}
		} else {
			l.Follow([]string{"a"})
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = l.Run(ctx, func(ctx context.Context, _ taskstate.Epoch) { led <- struct{}{}; <-ctx.Done() })
		}()
		ran, ledgers = append(ran, done), append(ledgers, l)
		if i == 0 {
			<-led
			for _, id := range ids[1:] {
				if _, _, err := l.Propose(ctx, []ledger.Command{{Admit: &ledger.Admit{Entry: admission.Entry{Cluster: "clusterclusterclu", Peer: id, Roles: admission.AllRoles(), By: "a"}}}}); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	for {
		voting := 0
		for _, v := range ledgers[0].Voters() {
			if v.Voting {
				voting++
			}
		}
		if voting == n {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	b.Cleanup(func() {
		cancel()
		for _, r := range ran {
			<-r
		}
		for _, l := range ledgers {
			_ = l.Close()
		}
		_ = netw.Close()
	})
	return ledgers
}

// BenchmarkPropose measures decisions per second, each a Submit of about 100 bytes, on disk at a
// majority of the voters.
func BenchmarkPropose(b *testing.B) {
	for _, voters := range []int{1, 3} {
		for _, callers := range []int{1, 16, 128} {
			b.Run(fmt.Sprintf("voters=%d/callers=%d", voters, callers), func(b *testing.B) {
				l := realCluster(b, voters)[0]
				var n atomic.Int64
				b.SetParallelism(callers)
				b.ResetTimer()
				done := make(chan error, callers)
				for range callers {
					go func() {
						for {
							i := n.Add(1)
							if i > int64(b.N) {
								done <- nil
								return
							}
							if _, _, err := l.Propose(context.Background(), []ledger.Command{job(int(i))}); err != nil {
								done <- err
								return
							}
						}
					}()
				}
				for range callers {
					if err := <-done; err != nil {
						b.Fatal(err)
					}
				}
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			})
		}
	}
}
