package testnet_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// internet is one public network, and houses behind NAT routers of their own, made of network
// namespaces. p2p's tests have the same; here whole peers live in it.
type internet struct {
	t    *testing.T
	name string
}

// newInternet skips the test where there are no network namespaces to play with.
func newInternet(t *testing.T) internet {
	if os.Geteuid() != 0 {
		t.Skip("peers behind two NATs need network namespaces: run as root")
	}
	for _, tool := range []string{"ip", "nft", "sysctl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("peers behind two NATs need network namespaces: %s is missing (install iproute2, nftables, procps)", tool)
		}
	}
	n := internet{t, fmt.Sprintf("cvn%d", os.Getpid()%100000)}
	n.add("pub")
	n.in("pub", "ip", "link", "add", "br0", "type", "bridge")
	n.in("pub", "ip", "link", "set", "br0", "up")
	n.in("pub", "ip", "addr", "add", "11.0.0.1/24", "dev", "br0")
	return n
}

func (n internet) ns(s string) string { return n.name + s }

func (n internet) run(args ...string) {
	n.t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		n.t.Skipf("this machine cannot make the networks this test needs: %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func (n internet) in(ns string, args ...string) {
	n.t.Helper()
	n.run(append([]string{"ip", "netns", "exec", n.ns(ns)}, args...)...)
}

func (n internet) add(ns string) {
	n.t.Helper()
	n.run("ip", "netns", "add", n.ns(ns))
	n.t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", n.ns(ns)).Run() })
	n.in(ns, "ip", "link", "set", "lo", "up")
}

// cable connects two namespaces; each end gets a name.
func (n internet) cable(a, endA, b, endB string) {
	n.t.Helper()
	n.run("ip", "-n", n.ns(a), "link", "add", endA, "type", "veth", "peer", "name", endB, "netns", n.ns(b))
	n.in(a, "ip", "link", "set", endA, "up")
	n.in(b, "ip", "link", "set", endB, "up")
}

// house is a router that lets nothing in unasked, and one machine behind it. drop is a further rule
// about what it passes on.
func (n internet) house(name string, i int, drop ...string) {
	n.t.Helper()
	router := name + "r"
	n.add(router)
	n.add(name)
	n.cable("pub", "to"+name, router, "out")
	n.in("pub", "ip", "link", "set", "to"+name, "master", "br0")
	n.cable(router, "in", name, "eth0")
	n.in(router, "ip", "addr", "add", fmt.Sprintf("11.0.0.%d/24", i), "dev", "out")
	n.in(router, "ip", "addr", "add", fmt.Sprintf("10.%d.0.1/24", i), "dev", "in")
	n.in(name, "ip", "addr", "add", fmt.Sprintf("10.%d.0.2/24", i), "dev", "eth0")
	n.in(name, "ip", "route", "add", "default", "via", fmt.Sprintf("10.%d.0.1", i))
	n.in(router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
	rules := []string{
		"add table ip covey",
		"add chain ip covey post { type nat hook postrouting priority 100; }",
		"add rule ip covey post oifname out masquerade",
		"add chain ip covey through { type filter hook forward priority 0; }",
		"add rule ip covey through iifname out ct state new drop",
		"add chain ip covey self { type filter hook input priority 0; }",
		"add rule ip covey self iifname out ct state new drop",
	}
	for _, rule := range append(rules, drop...) {
		n.in(router, "nft", rule)
	}
}

// resident is a real peer process in a namespace. Its API is a socket in the file system, which
// namespaces share.
type resident struct {
	*client.Client
	api.Status
}

func (n internet) peer(ns string, args ...string) resident {
	n.t.Helper()
	data := filepath.Join(n.t.TempDir(), ns)
	args = append([]string{"netns", "exec", n.ns(ns), exe(n.t), "--data", data, "up", "--no-mdns", "--name", ns}, args...)
	cmd := exec.Command("ip", args...) // ip becomes the program: one process
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }() // ends with the process, which the cleanup ends
	at := client.Of(data)
	n.t.Cleanup(func() {
		at.Close()
		_ = cmd.Process.Signal(syscall.SIGKILL)
		<-ended
		if n.t.Failed() {
			n.t.Logf("%s said:\n%s", ns, log.String())
		}
	})
	var st api.Status
	eventually(n.t, ns+" answers", func() (bool, string) {
		select {
		case <-ended:
			n.t.Fatalf("%s ended:\n%s", ns, log.String())
		default:
		}
		var err error
		st, err = at.Status(timed(n.t))
		return err == nil, fmt.Sprint(err)
	})
	return resident{at, st}
}

// path is how r reaches another peer, by r's own account.
func (r resident) path(t *testing.T, id string) (path, standing string) {
	t.Helper()
	ps, err := r.Peers(timed(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ps.Peers {
		if p.ID == id {
			return p.Path, p.Standing
		}
	}
	return "", ""
}

// acrossTwoNATs has a and b, each in a house of its own, join through a public peer, and runs a job
// that only b has room for, handed in at a. It returns both.
func acrossTwoNATs(t *testing.T, drop ...string) (a, b resident) {
	n := newInternet(t)
	n.house("a", 2, drop...)
	n.house("b", 3, drop...)
	p := n.peer("pub", "--cpus", "0.001")
	k, err := p.Invite(timed(t), api.TicketRequest{Expires: 600})
	if err != nil {
		t.Fatal(err)
	}
	if k.Warning != "" {
		t.Errorf("a ticket with a public address warns: %s", k.Warning)
	}
	a = n.peer("a", "--cpus", "0.001", "--join", k.Ticket)
	b = n.peer("b", "--cpus", "2", "--join", k.Ticket)
	for _, x := range []resident{p, a, b} {
		for _, y := range []resident{p, a, b} {
			eventually(t, x.Name+" sees "+y.Name, func() (bool, string) {
				path, standing := x.path(t, y.ID)
				return standing == "ready" && path != "none", path + " " + standing
			})
		}
	}
	j := taskstate.Job{Name: "across", Count: 4}
	j.Run.Process = &taskstate.Process{Command: []string{"echo begin; head -c 300000 /dev/zero | tr '\\0' x; echo; echo end"}, Shell: true}
	jobfile.Defaults(&j)
	began := time.Now()
	s, err := a.Submit(timed(t), api.Submit{Job: j})
	if err != nil || s.Held {
		t.Fatalf("%+v, %v", s, err)
	}
	var last api.Job
	if err := a.Follow(timed(t), s.ID, false, func(p api.Progress) error { last = p.Job; return nil }); err != nil {
		t.Fatal(err)
	}
	tasks, err := a.Tasks(timed(t), s.ID)
	if err != nil || last.State != "complete" || len(tasks.Tasks) != 4 {
		t.Fatalf("%+v %+v, %v", last, tasks, err)
	}
	for _, k := range tasks.Tasks {
		if k.Peer != b.ID {
			t.Errorf("%s ran on %s", k.ID, k.PeerName)
		}
	}
	// Well beyond the 128 KiB that libp2p's relays let through.
	var out bytes.Buffer
	err = a.Logs(timed(t), s.ID, api.LogQuery{}, func(c api.LogChunk) error {
		out.Write(c.Data)
		if c.Error != nil {
			return c.Error
		}
		return nil
	})
	if want := strings.Repeat("begin\n"+strings.Repeat("x", 300_000)+"\nend\n", 4); err != nil || out.String() != want {
		t.Fatalf("%d of %d bytes of output came back: %v", out.Len(), len(want), err)
	}
	t.Logf("submitted at a, run on b, 1.2 MB of output back at a after %s", time.Since(began).Round(time.Millisecond))
	return a, b
}

func TestAJobRunsFromBehindOneNATToBehindAnother(t *testing.T) {
	long.Test(t)
	a, b := acrossTwoNATs(t)
	eventually(t, "they find a direct way", func() (bool, string) {
		path, _ := a.path(t, b.ID)
		return path == "direct", path
	})
}

func TestAJobCrossesTwoNATsByRelayWhereUDPIsDropped(t *testing.T) {
	long.Test(t)
	a, b := acrossTwoNATs(t, "add rule ip covey through meta l4proto udp drop") // no QUIC, and so no hole
	if path, _ := a.path(t, b.ID); path != "relayed" {
		t.Errorf("a reaches b %s", path)
	}
	if path, _ := b.path(t, a.ID); path != "relayed" {
		t.Errorf("b reaches a %s", path)
	}
}
