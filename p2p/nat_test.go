package p2p_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
)

// internet is one public network, and houses behind NAT routers of their own.
type internet struct {
	t    *testing.T
	name string
}

func (n internet) run(args ...string) {
	n.t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		n.t.Skipf("this machine cannot make the networks this test needs: %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func (n internet) ns(s string) string { return n.name + s }

func (n internet) in(ns string, args ...string) {
	n.t.Helper()
	n.run(append([]string{"ip", "netns", "exec", n.ns(ns)}, args...)...)
}

func (n internet) add(ns string) {
	n.run("ip", "netns", "add", n.ns(ns))
	n.t.Cleanup(func() { exec.Command("ip", "netns", "del", n.ns(ns)).Run() })
	n.in(ns, "ip", "link", "set", "lo", "up")
}

// cable connects two namespaces; each end gets a name.
func (n internet) cable(a, endA, b, endB string) {
	n.run("ip", "-n", n.ns(a), "link", "add", endA, "type", "veth", "peer", "name", endB, "netns", n.ns(b))
	n.in(a, "ip", "link", "set", endA, "up")
	n.in(b, "ip", "link", "set", endB, "up")
}

// house is a router with a public address, and one machine behind it.
func (n internet) house(name string, i int) {
	router, home := name+"r", name
	n.add(router)
	n.add(home)
	n.cable("pub", "to"+name, router, "out")
	n.in("pub", "ip", "link", "set", "to"+name, "master", "br0")
	n.cable(router, "in", home, "eth0")
	n.in(router, "ip", "addr", "add", fmt.Sprintf("11.0.0.%d/24", i), "dev", "out")
	n.in(router, "ip", "addr", "add", fmt.Sprintf("10.%d.0.1/24", i), "dev", "in")
	n.in(home, "ip", "addr", "add", fmt.Sprintf("10.%d.0.2/24", i), "dev", "eth0")
	n.in(home, "ip", "route", "add", "default", "via", fmt.Sprintf("10.%d.0.1", i))
	n.in(router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
	for _, rule := range []string{
		"add table ip covey",
		"add chain ip covey post { type nat hook postrouting priority 100; }",
		"add rule ip covey post oifname out masquerade",
		"add chain ip covey through { type filter hook forward priority 0; }",
		"add rule ip covey through iifname out ct state new drop",
		"add chain ip covey self { type filter hook input priority 0; }",
		"add rule ip covey self iifname out ct state new drop",
	} {
		n.in(router, "nft", rule)
	}
}

// box is a machine on the public network.
func (n internet) box(name string, i int) {
	n.add(name)
	n.cable("pub", "to"+name, name, "eth0")
	n.in("pub", "ip", "link", "set", "to"+name, "master", "br0")
	n.in(name, "ip", "addr", "add", fmt.Sprintf("11.0.0.%d/24", i), "dev", "eth0")
}

func (n internet) peer(ns string) puppet {
	n.t.Helper()
	cmd := exec.Command("ip", "netns", "exec", n.ns(ns), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		in.Close()
		kill := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		defer kill.Stop()
		cmd.Wait()
	})
	return puppet{n.t, json.NewEncoder(in), bufio.NewScanner(out)}
}

// newInternet skips the test where there are no network namespaces to play with.
var internets atomic.Int32

func newInternet(t *testing.T) internet {
	t.Parallel() // it mostly waits
	if os.Geteuid() != 0 {
		t.Skip("two peers behind two NATs need network namespaces: run as root")
	}
	for _, tool := range []string{"ip", "nft", "sysctl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("two peers behind two NATs need network namespaces: %s is missing (install iproute2, nftables, procps)", tool)
		}
	}
	n := internet{t, fmt.Sprintf("cv%d-%d", os.Getpid()%100000, internets.Add(1))}
	n.add("pub")
	n.in("pub", "ip", "link", "add", "br0", "type", "bridge")
	n.in("pub", "ip", "link", "set", "br0", "up")
	n.in("pub", "ip", "addr", "add", "11.0.0.1/24", "dev", "br0")
	return n
}

func TestTwoPeersBehindTwoNATsReachEachOther(t *testing.T) {
	long.Test(t)
	n := newInternet(t)
	n.house("a", 2)
	n.house("b", 3)
	p, a, b := n.peer("pub"), n.peer("a"), n.peer("b")
	pub := p.must(order{Do: "tell"})
	if !strings.Contains(strings.Join(pub.Addrs, " "), "/ip4/11.0.0.1/tcp/") {
		t.Fatalf("the public peer tells %v", pub.Addrs)
	}
	a.must(order{Do: "connect", Peer: pub.ID, Addrs: pub.Addrs})
	b.must(order{Do: "connect", Peer: pub.ID, Addrs: pub.Addrs})
	var there report
	eventually(t, "b finds a relay", func() bool {
		there = b.must(order{Do: "tell"})
		return strings.Contains(strings.Join(there.Addrs, " "), "/p2p-circuit")
	})
	a.must(order{Do: "connect", Peer: there.ID, Addrs: there.Addrs})
	// Well beyond the 128 KiB that libp2p's relays let through.
	r := a.must(order{Do: "ask", Peer: there.ID, Bytes: 1 << 20})
	if !r.Direct && !r.Relayed {
		t.Fatal("they talk, but by no connection")
	}
	t.Logf("1 MiB there and back in %d ms, direct %v, relayed %v", r.Millis, r.Direct, r.Relayed)
	here := a.must(order{Do: "tell"})
	b.must(order{Do: "ask", Peer: here.ID})
	eventually(t, "they find a direct way", func() bool { return a.must(order{Do: "tell", Peer: there.ID}).Direct })
	a.must(order{Do: "ask", Peer: there.ID, Bytes: 1 << 20})
}

func TestARelayCarriesWhatNATsKeepApart(t *testing.T) {
	long.Test(t)
	n := newInternet(t)
	n.house("a", 2)
	n.house("b", 3)
	for _, router := range []string{"ar", "br"} {
		n.in(router, "nft", "add rule ip covey through meta l4proto udp drop") // no QUIC, and so no hole
	}
	p, a, b := n.peer("pub"), n.peer("a"), n.peer("b")
	pub := p.must(order{Do: "tell"})
	a.must(order{Do: "connect", Peer: pub.ID, Addrs: pub.Addrs})
	b.must(order{Do: "connect", Peer: pub.ID, Addrs: pub.Addrs})
	var there report
	eventually(t, "b finds a relay", func() bool {
		there = b.must(order{Do: "tell"})
		return strings.Contains(strings.Join(there.Addrs, " "), "/p2p-circuit")
	})
	a.must(order{Do: "connect", Peer: there.ID, Addrs: there.Addrs})
	// Well beyond the 128 KiB that libp2p's relays let through.
	r := a.must(order{Do: "ask", Peer: there.ID, Bytes: 4 << 20})
	if r.Direct || !r.Relayed {
		t.Fatalf("direct %v, relayed %v", r.Direct, r.Relayed)
	}
	t.Logf("4 MiB there and back in %d ms", r.Millis)
}

func TestAPublicPeerTakesNoRelay(t *testing.T) {
	long.Test(t)
	n := newInternet(t)
	n.house("a", 2)
	p, a := n.peer("pub"), n.peer("a")
	pub := p.must(order{Do: "tell"})
	a.must(order{Do: "connect", Peer: pub.ID, Addrs: pub.Addrs})
	eventually(t, "the other finds a relay", func() bool {
		return strings.Contains(strings.Join(a.must(order{Do: "tell"}).Addrs, " "), "/p2p-circuit")
	})
	if r := p.must(order{Do: "tell"}); strings.Contains(strings.Join(r.Addrs, " "), "/p2p-circuit") {
		t.Fatalf("the public peer tells %v", r.Addrs)
	}
}

func TestPeersOnOneNetworkFindEachOther(t *testing.T) {
	n := newInternet(t)
	n.box("a", 2)
	n.box("b", 3)
	a, b := n.peer("a"), n.peer("b")
	ida, idb := a.must(order{Do: "tell"}).ID, b.must(order{Do: "tell"}).ID
	var found []string
	eventually(t, "a hears of b and b of a", func() bool {
		found = a.must(order{Do: "tell", Peer: idb}).Found
		return len(found) > 0 && len(b.must(order{Do: "tell", Peer: ida}).Found) > 0
	})
	eventually(t, "what they hear is right", func() bool { return a.do(order{Do: "connect", Peer: idb, Addrs: found}).Err == "" })
}
