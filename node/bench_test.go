//go:build !windows

package node_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coveyproject/covey/node"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// cluster runs n whole peers in this process, each with its own folder, key and sockets, until the
// benchmark ends.
func benchCluster(b *testing.B, n int) []*client.Client {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	root := b.TempDir() // before the cleanup: it is removed after the peers have ended
	var wg sync.WaitGroup
	b.Cleanup(func() { cancel(); wg.Wait() })
	var clients []*client.Client
	ticket := ""
	for i := range n {
		dir := filepath.Join(root, fmt.Sprint(i))
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
		c := client.Of(dir)
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

// BenchmarkNoopTasks is one job of b.N tasks that do nothing, from submission to its end, on three
// whole peers in one process.
func BenchmarkNoopTasks(b *testing.B) {
	clients := benchCluster(b, 3)
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

// BenchmarkProcessTasks is one job of b.N × /bin/true on three whole peers in one process, and what
// a task costs in processor time, the process itself included.
func BenchmarkProcessTasks(b *testing.B) {
	path, err := exec.LookPath("true")
	if err != nil {
		b.Skip("no `true` here")
	}
	clients := benchCluster(b, 3)
	job := taskstate.Job{Count: b.N}
	job.Run.Process = &taskstate.Process{Command: []string{path}}
	jobfile.Defaults(&job)
	before := cpu()
	b.ResetTimer()
	sub, err := clients[0].Submit(b.Context(), api.Submit{Job: job})
	if err != nil {
		b.Fatal(err)
	}
	if err := clients[0].Follow(b.Context(), sub.ID, false, func(api.Progress) error { return nil }); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-us/task")
}

// BenchmarkPlainProcesses is the same without peers: what any such system must at least do.
func BenchmarkPlainProcesses(b *testing.B) {
	path, err := exec.LookPath("true")
	if err != nil {
		b.Skip("no `true` here")
	}
	root := b.TempDir()
	before := cpu()
	var next atomic.Int64
	b.ResetTimer()
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(b.N) {
					return
				}
				dir := filepath.Join(root, fmt.Sprint(i))
				_ = os.Mkdir(dir, 0o700)
				out, _ := os.Create(filepath.Join(dir, "stdout"))
				errs, _ := os.Create(filepath.Join(dir, "stderr"))
				p, err := os.StartProcess(path, []string{path}, &os.ProcAttr{Dir: dir, Files: []*os.File{nil, out, errs}})
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = p.Wait()
				out.Close()
				errs.Close()
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-us/task")
}

// cpu is the processor time of this process, of its children that ended, and of those that live –
// supervisors – with theirs.
func cpu() time.Duration {
	sum := childrenCPU()
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}

func childrenCPU() (sum time.Duration) {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, l := range lists {
		text, _ := os.ReadFile(l)
		for pid := range strings.FieldsSeq(string(text)) {
			stat, _ := os.ReadFile("/proc/" + pid + "/stat")
			f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
			for i := 11; i < min(15, len(f)); i++ { // utime, stime, and of children that ended
				ticks, _ := strconv.Atoi(f[i])
				sum += time.Duration(ticks) * 10 * time.Millisecond
			}
		}
	}
	return sum
}
