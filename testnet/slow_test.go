//go:build unix

package testnet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
	"github.com/coveyproject/covey/testnet"
)

const (
	slowRate = 10e6 / 8 // bytes per second: 10 Mbit/s
	bulkTime = 30 * time.Second
	maxPing  = 300 * time.Millisecond // 99 of 100
	tries    = 3                      // a machine with other work may stall once, without any bulk
)

// Acceptance case 30. The coordinator's line is slow, the hardest place: over it go its beats, its
// sessions, and bulk that it fetches from one peer, from two, or that another fetches from it.
func TestBulkOverASlowLineStarvesNeitherElectionsNorQuestions(t *testing.T) {
	long.Test(t)
	net := start(t, 4)
	eventually(t, "three vote", func() (bool, string) {
		st, err := net.Client(1).Status(timed(t))
		return err == nil && len(st.Voters) >= 3, fmt.Sprint(st.Voters, err)
	})
	boss, err := net.Coordinator(timed(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	var others []int
	for k := 1; k <= net.N(); k++ {
		if k != boss {
			others = append(others, k)
		}
	}
	asked := map[int]string{}
	for k := 1; k <= net.N(); k++ {
		asked[k] = printed(t, net, k)
	}
	if err := net.Slow(timed(t), boss, slowRate); err != nil {
		t.Fatal(err)
	}
	for i, x := range []struct {
		what string
		from []int
		to   int
	}{{"from one peer", others[:1], boss}, {"from two peers", others[:2], boss}, {"to another peer", []int{boss}, others[2]}} {
		t.Run(x.what, func(t *testing.T) {
			for try := range tries {
				data := bulkOf(int(slowRate*bulkTime.Seconds()), byte(i*tries+try))
				for _, k := range x.from {
					put(t, net, k, data)
				}
				wrong := starved(t, net, func() (idle, busy []time.Duration) {
					idle = pings(t, net, asked, others[0], boss, func(ctx context.Context) error { return sleep(ctx, bulkTime/6) })
					busy = pings(t, net, asked, others[0], boss, func(ctx context.Context) error { return fetch(ctx, net.Client(x.to), piece.Sum(data)) })
					return idle, busy
				})
				switch {
				case len(wrong) == 0:
					return
				case try == tries-1:
					t.Error(strings.Join(wrong, "\n"))
				default:
					t.Log("once more, as the machine may have been busy: ", strings.Join(wrong, "; "))
				}
			}
		})
	}
}

// starved is what went wrong while bulk was under way.
func starved(t *testing.T, net *testnet.Net, measure func() (idle, busy []time.Duration)) (wrong []string) {
	t.Helper()
	before := epochs(t, net)
	stop := watchPeers(t, net)
	idle, busy := measure()
	wrong = stop()
	if after := epochs(t, net); after != before {
		wrong = append(wrong, fmt.Sprintf("there was an election: %s, and then %s", before, after))
	}
	t.Logf("questions without bulk: median %v, p99 %v of %d; with: %v, %v of %d", at(idle, 50), at(idle, 99), len(idle), at(busy, 50), at(busy, 99), len(busy))
	if at(busy, 99) > maxPing {
		wrong = append(wrong, fmt.Sprintf("one question in a hundred waited %v or longer; without bulk %v", at(busy, 99), at(idle, 99)))
	}
	return wrong
}

// at is the p-th hundredth.
func at(d []time.Duration, p int) time.Duration {
	if len(d) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(d))[len(d)*p/100].Round(time.Millisecond)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// bulkOf is bytes that nothing makes smaller.
func bulkOf(n int, seed byte) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// put keeps bytes on peer k.
func put(t *testing.T, net *testnet.Net, k int, data []byte) {
	t.Helper()
	root := piece.Sum(data)
	_, err := net.Client(k).PutFiles(timed(t), func(w *api.PutWriter) error {
		r := &reader{data}
		if err := w.Blob(api.PutBlob{Path: "bulk", Blob: root, Size: int64(len(data))}, r); err != nil {
			return err
		}
		return w.End(api.PutEnd{Ref: tree.Ref{Root: root}, Name: "bulk"})
	})
	if err != nil {
		t.Fatal(err)
	}
}

type reader struct{ rest []byte }

// Read reads.
func (r *reader) Read(b []byte) (int, error) {
	n := copy(b, r.rest)
	if r.rest = r.rest[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// fetch has a peer bring a blob.
func fetch(ctx context.Context, c *client.Client, root piece.Root) error {
	r, err := c.GetFiles(ctx, api.GetFiles{Root: root})
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		if _, _, err := r.Next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			return err
		}
	}
}

// printed runs a task on peer k that prints a word, and returns the job.
func printed(t *testing.T, net *testnet.Net, k int) string {
	t.Helper()
	j := taskstate.Job{Name: "word", Count: 1, Constraints: []string{fmt.Sprintf("peer.name == p%d", k)}}
	j.Run.Process = &taskstate.Process{Command: []string{"echo", "word"}}
	jobfile.Defaults(&j)
	id := submit(t, net, 1, api.Submit{Job: j}).ID
	for p := 1; p <= net.N(); p++ {
		ends(t, net, p, id)
	}
	return id
}

// pings asks, while f runs, peer a for output that peer b has, and the other way, over and over.
func pings(t *testing.T, net *testnet.Net, job map[int]string, a, b int, f func(context.Context) error) (took []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*bulkTime)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	done := make(chan struct{})
	for _, way := range [][2]int{{a, b}, {b, a}} {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(100 * time.Millisecond):
				}
				begun := time.Now()
				var got string
				err := net.Client(way[0]).Logs(ctx, job[way[1]], api.LogQuery{Stream: "stdout"}, func(c api.LogChunk) error {
					got += string(c.Data)
					return nil
				})
				mu.Lock()
				took = append(took, time.Since(begun))
				mu.Unlock()
				if err != nil || got != "word\n" {
					t.Errorf("peer %d asked peer %d: %q, %v", way[0], way[1], got, err)
				}
			}
		})
	}
	err := f(ctx)
	close(done)
	wg.Wait()
	if err != nil {
		t.Error(err)
	}
	return took
}

func epochs(t *testing.T, net *testnet.Net) (all string) {
	t.Helper()
	for k := 1; k <= net.N(); k++ {
		st, err := net.Client(k).Status(timed(t))
		if err != nil {
			t.Fatal(err)
		}
		all += st.Epoch + " "
	}
	return all
}

// watchPeers gathers who suspects whom; the returned function ends it.
func watchPeers(t *testing.T, net *testnet.Net) (stop func() []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var wg sync.WaitGroup
	var said []string
	for k := 1; k <= net.N(); k++ {
		wg.Go(func() {
			_ = net.Client(k).Watch(ctx, "", func(e api.Event) error { // ends with ctx
				if e.Kind == "peer" && (e.State == "suspect" || e.State == "dead") {
					mu.Lock()
					said = append(said, fmt.Sprintf("peer %d says that p%d is %s", k, net.Number(e.Peer), e.State))
					mu.Unlock()
				}
				return nil
			})
		})
	}
	return func() []string { cancel(); wg.Wait(); return said }
}
