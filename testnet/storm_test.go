//go:build unix

package testnet_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/testnet"
)

// More newcomers at one founder, by hand (ADR 42 says how many two cores carry):
//
//	go test -tags long ./testnet -run TestAStormOf -storm 50 -v
var storm = flag.Int("storm", 30, "newcomers of TestAStormOfNewcomersAsProcessesComesIn")

// joining is a process that joins, and what it says.
type joining struct {
	cmd  *exec.Cmd
	log  string
	gone chan struct{} // closed when it has ended
}

// newcomers starts peers with one ticket, ten a second, that end with ctx.
func newcomers(ctx context.Context, t *testing.T, ticket string, count int) (all []*joining) {
	t.Helper()
	root := t.TempDir()
	for i := range count {
		dir := filepath.Join(root, fmt.Sprint(i))
		x := &joining{log: dir + ".log", gone: make(chan struct{})}
		out, err := os.Create(x.log)
		if err != nil {
			t.Fatal(err)
		}
		x.cmd = exec.CommandContext(ctx, exe(t), "--data", dir, "up", "--testnet", "--no-mdns", "--name", fmt.Sprint("new", i), "--listen", "127.0.0.1:0", "--store", "1GiB", "--join", ticket)
		x.cmd.Stdout, x.cmd.Stderr = out, out
		if err := x.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = out.Close()
		go func() {
			_ = x.cmd.Wait() // that it ended is what counts; what it said is in its log
			close(x.gone)
		}()
		all = append(all, x)
		_ = pause.For(ctx, 100*time.Millisecond)
	}
	return all
}

func TestAStormOfNewcomersAsProcessesComesIn(t *testing.T) {
	long.Test(t)
	net, err := testnet.Start(t.Context(), testnet.Config{Dir: t.TempDir(), N: 1, Exe: exe(t), Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	defer net.Quit()
	founder := net.Client(1)
	ticket, err := founder.Invite(t.Context(), api.TicketRequest{Expires: 3600})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	begin := time.Now()
	all := newcomers(ctx, t, ticket.Ticket, *storm)
	defer func() {
		cancel()
		for _, x := range all {
			<-x.gone
		}
	}()
	patient, done := context.WithTimeout(ctx, time.Minute+2*time.Second*time.Duration(*storm))
	defer done()
	ready := 0
	for ready <= *storm {
		for i, x := range all {
			select {
			case <-x.gone:
				said, _ := os.ReadFile(x.log)
				t.Fatalf("newcomer %d ended after at most %s: %s", i, time.Since(begin), said)
			default:
			}
		}
		ready = 0
		if ps, err := founder.Peers(patient); err == nil {
			for _, p := range ps.Peers {
				if p.Standing == "ready" {
					ready++
				}
			}
		}
		if pause.For(patient, 100*time.Millisecond) != nil {
			t.Fatalf("the founder sees %d of %d ready", ready, *storm+1)
		}
	}
	took := time.Since(begin)
	st, err := founder.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	others := time.Duration(0)
	for _, x := range all {
		<-x.gone
		others += x.cmd.ProcessState.UserTime() + x.cmd.ProcessState.SystemTime()
	}
	t.Logf("%d newcomers, 10 a second: the founder sees all ready after %s; it took %.1f s of processor time, the newcomers %s together", *storm, took.Round(100*time.Millisecond), st.CPU, others.Round(100*time.Millisecond))
}
