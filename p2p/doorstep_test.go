package p2p

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"pgregory.net/rapid"
)

// porch is a connLimits with nothing behind it, and who was admitted.
type porch struct {
	*connLimits
	in map[peer.ID]bool
}

func newPorch() *porch {
	p := &porch{in: map[peer.ID]bool{}}
	p.connLimits = newDoorstep(&network.NullResourceManager{}, func(s string) bool {
		for id, in := range p.in {
			if in && id.String() == s {
				return true
			}
		}
		return false
	})
	return p
}

// knock opens a connection that can be closed, as a listener does.
func (p *porch) knock(t testing.TB, at string) *inbound {
	s, err := p.OpenConnection(network.DirInbound, true, ma.StringCast(at))
	if err != nil {
		return nil
	}
	c := s.(*inbound)
	if !c.quic {
		c.closeWith(c.Done)
	}
	return c
}

const (
	here  = "/ip4/192.0.2.1/tcp/1"
	there = "/ip4/192.0.2.2/tcp/1"
)

func TestSilentHandshakesMakeRoomForThoseThatComeAfterThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPorch()
		first := p.knock(t, here)
		for range handshakesEach - 1 {
			if p.knock(t, here) == nil {
				t.Fatal("there is room, and it is refused")
			}
		}
		if p.knock(t, here) != nil {
			t.Error("those before had no time yet, and one lost its place")
		}
		if p.knock(t, there) == nil {
			t.Error("an address pays for another")
		}
		time.Sleep(handshakeGrace)
		c := p.knock(t, here)
		synctest.Wait()
		if c == nil || !first.ended || len(p.shaking) != handshakesEach+1 {
			t.Errorf("let in %t, the oldest ended %t, %d under way", c != nil, first.ended, len(p.shaking))
		}
		if err := c.SetPeer("member"); err != nil {
			t.Error(err)
		}
		if len(p.shaking) != handshakesEach {
			t.Error("an authenticated connection keeps a handshake's place")
		}
	})
}

func TestQUICHandshakesAreBoundedByThemselvesAndMustProveTheirAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, quic := newPorch(), "/ip4/192.0.2.1/udp/1/quic-v1"
		addr := &net.UDPAddr{IP: net.IPv4(192, 0, 2, 9), Port: 1}
		for i := range handshakesEach {
			if got := p.VerifySourceAddress(addr); got != (i >= handshakesProven) {
				t.Fatalf("with %d under way an address must be proven: %t", i, got)
			}
			if p.knock(t, quic) == nil {
				t.Fatal("there is room, and it is refused")
			}
		}
		time.Sleep(handshakeGrace)
		if p.knock(t, quic) != nil {
			t.Error("a handshake that cannot be ended made room")
		}
		if p.knock(t, here) == nil {
			t.Error("TCP pays for QUIC")
		}
		time.Sleep(handshakeForgot)
		if p.knock(t, quic) == nil {
			t.Error("a handshake of long ago still counts")
		}
	})
}

func TestAnAddressOfIPv6StandsForItsNetwork(t *testing.T) {
	p := newPorch()
	for i := range handshakesEach {
		if p.knock(t, fmt.Sprintf("/ip6/2001:db8:0:%x::1/tcp/1", i)) == nil {
			t.Fatal("there is room, and it is refused")
		}
	}
	if p.knock(t, "/ip6/2001:db8:0:ff::1/tcp/1") != nil {
		t.Error("another address of the same network has places of its own")
	}
	if p.knock(t, "/ip6/2001:db8:1::1/tcp/1") == nil {
		t.Error("another network has none")
	}
}

func TestTheHandshakesOfAllAddressesAreBoundedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPorch()
		var greedy []*inbound
		for range handshakesEach {
			greedy = append(greedy, p.knock(t, here))
		}
		for i := range handshakesAll - handshakesEach {
			if p.knock(t, fmt.Sprintf("/ip4/198.51.%d.%d/tcp/1", i/250, i%250)) == nil {
				t.Fatal("there is room, and it is refused")
			}
		}
		time.Sleep(handshakeGrace)
		c := p.knock(t, there)
		synctest.Wait()
		if c == nil || !greedy[0].ended || len(p.shaking) != handshakesAll {
			t.Errorf("let in %t, the greediest address lost one %t, %d under way", c != nil, greedy[0].ended, len(p.shaking))
		}
	})
}

// takes tells whether a connection has a stranger's place.
func (p *porch) takes(c *inbound) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.strangers, c)
}

// stranger is a connection of a peer of that name.
func (p *porch) stranger(t testing.TB, at, name string) *inbound {
	c := p.knock(t, at)
	if c == nil || c.SetPeer(peer.ID(name)) != nil {
		return nil
	}
	return c
}

func TestIdleStrangersMakeRoomAndMembersNeedNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPorch()
		p.in["member"] = true
		var all []*inbound
		for i := range strangerConns {
			all = append(all, p.stranger(t, here, fmt.Sprint("s", i)))
		}
		busy, err := p.OpenStream("s0", network.DirInbound)
		if err != nil || busy.SetProtocol(HelloProtocol) != nil {
			t.Fatal(err)
		}
		elsewhere := p.stranger(t, there, "newcomer")
		synctest.Wait()
		if elsewhere == nil || all[0].ended || !all[1].ended || len(p.strangers) != strangerConns {
			t.Errorf("came in %t, the busy one went %t, the oldest idle one %t, %d strangers", elsewhere != nil, all[0].ended, all[1].ended, len(p.strangers))
		}
		for i := range 10 * strangerConns {
			p.stranger(t, here, fmt.Sprint("again", i))
		}
		synctest.Wait()
		if elsewhere.ended {
			t.Error("an address pays for the strangers of another")
		}
		if c := p.stranger(t, here, "member"); c == nil || p.takes(c) {
			t.Error("a member takes a stranger's place")
		}
		p.in["newcomer"] = true
		if _, err := p.OpenStream("newcomer", network.DirInbound); err != nil || p.takes(elsewhere) {
			t.Errorf("it was admitted and still takes a stranger's place (%v)", err)
		}
	})
}

func TestAStrangerHasFewConnections(t *testing.T) {
	p := newPorch()
	for range strangersPerID {
		if p.stranger(t, here, "one") == nil {
			t.Fatal("there is room, and it is refused")
		}
	}
	if p.stranger(t, there, "one") != nil {
		t.Error("one more")
	}
}

func TestAStrangerThatOpensStreamAfterStreamGetsNoMoreAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPorch()
		p.stranger(t, here, "eager")
		begin := time.Now()
		for range strangerBudget {
			s, err := p.OpenStream("eager", network.DirInbound)
			if err != nil {
				t.Fatal(err)
			}
			s.Done()
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("it had to wait %v", took)
		}
		if _, err := p.OpenStream("eager", network.DirInbound); err == nil || time.Since(begin) < tarpit {
			t.Error("one more, or at once")
		}
	})
}

func TestAStrangerHasFewStreamsAndFewerWithoutAProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPorch()
		p.stranger(t, here, "one")
		opens := func() network.StreamManagementScope {
			s, err := p.OpenStream("one", network.DirInbound)
			if err != nil {
				return nil
			}
			return s
		}
		for range strangerOpen / strangerUnnamed {
			var some []network.StreamManagementScope
			for range strangerUnnamed {
				some = append(some, opens())
			}
			if slices.Contains(some, nil) || opens() != nil {
				t.Fatal("not as many without a protocol as it may have")
			}
			for _, s := range some {
				_ = s.SetProtocol("/x/1")
			}
		}
		if opens() != nil {
			t.Error("one more")
		}
		p.stranger(t, here, "another")
		if _, err := p.OpenStream("another", network.DirInbound); err != nil {
			t.Error("a stranger pays for another")
		}
	})
}

func TestAMemberThatNamesNoProtocolHoldsUpOnlyItself(t *testing.T) {
	p := newPorch()
	p.in["liar"], p.in["member"] = true, true
	for range memberUnnamed {
		if _, err := p.OpenStream("liar", network.DirInbound); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.OpenStream("liar", network.DirInbound); err == nil {
		t.Error("one more")
	}
	if _, err := p.OpenStream("member", network.DirInbound); err != nil {
		t.Error(err)
	}
}

// Whatever comes and goes, the counts are those of what is there, and nothing stays when all has
// gone.
func TestTheDoorstepForgetsWhoLeft(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) { synctest.Test(t, func(t *testing.T) { theyComeAndGo(t, r) }) })
}

func theyComeAndGo(t *testing.T, r *rapid.T) {
	p := newPorch()
	p.in["m"] = true
	var conns []*inbound
	var streams []network.StreamManagementScope
	names := []peer.ID{"a", "b", "c", "d", "m"}
	for range rapid.IntRange(1, 200).Draw(r, "steps") {
		switch rapid.SampledFrom([]string{"knock", "shake", "open", "open", "name", "end", "close", "admit"}).Draw(r, "step") {
		case "knock":
			at := rapid.SampledFrom([]string{here, there, "/ip4/192.0.2.1/udp/1/quic-v1"}).Draw(r, "at")
			if c := p.knock(t, at); c != nil {
				conns = append(conns, c)
			}
		case "shake":
			if len(conns) > 0 {
				if c := rapid.SampledFrom(conns).Draw(r, "conn"); c.peer == "" && slices.Contains(p.shaking, c) {
					_ = c.SetPeer(rapid.SampledFrom(names).Draw(r, "peer"))
				}
			}
		case "open":
			if s, err := p.OpenStream(rapid.SampledFrom(names).Draw(r, "peer"), network.DirInbound); err == nil {
				streams = append(streams, s)
			}
		case "name":
			if len(streams) > 0 {
				_ = rapid.SampledFrom(streams).Draw(r, "stream").SetProtocol("/x/1")
			}
		case "end":
			if len(streams) > 0 {
				rapid.SampledFrom(streams).Draw(r, "stream").Done() // once more does not matter
			}
		case "close":
			if len(conns) > 0 {
				rapid.SampledFrom(conns).Draw(r, "conn").Done()
			}
		case "admit":
			p.in[rapid.SampledFrom(names).Draw(r, "peer")] = true
		}
		for _, name := range names {
			want := streamCount{}
			for _, s := range streams {
				if u := s.(*unnamedStream); u.peer == name && !u.done {
					want.all++
					if !u.named {
						want.unnamed++
					}
				}
			}
			if got := p.streams[name]; got == nil && want.all > 0 || got != nil && *got != want {
				r.Fatalf("%s has %+v, counted is %+v", name, want, got)
			}
		}
	}
	for _, s := range streams {
		s.Done()
	}
	for _, c := range conns {
		c.Done()
	}
	if len(p.streams) != 0 || len(p.shaking) != 0 || len(p.strangers) != 0 {
		r.Fatalf("left over: %v, %v, %v", p.streams, p.shaking, p.strangers)
	}
}

// A lab behind one NAT: all of it comes at once, from one address that is no loopback.
func TestAHundredAndTwentyMembersComeInFromOneAddressWithItsLimitsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const members, peers = 120, 64 // a host that is made for few: its limits are narrower than most
		limits, err := newLimits(peers)
		if err != nil {
			t.Fatal(err)
		}
		defer limits.Close()
		p := newPorch()
		p.ResourceManager = limits
		var wg sync.WaitGroup
		var waited atomic.Int32
		all := make([]*inbound, members)
		name := func(i int) peer.ID { return peer.ID(fmt.Sprintf("member %d", i)) }
		for i := range all { // before the first of them knocks: it is read then
			p.in[name(i)] = true
		}
		for i := range all {
			id := name(i)
			wg.Go(func() {
				for all[i] == nil {
					c := p.knock(t, here)
					if c == nil {
						waited.Add(1)
					}
					time.Sleep(300 * time.Millisecond) // a handshake, or until it tries again
					if c == nil || c.SetPeer(id) != nil {
						continue
					}
					all[i] = c
				}
			})
		}
		begin := time.Now()
		wg.Wait()
		t.Logf("all are in after %s, in which %d were told to wait", time.Since(begin), waited.Load())
		if waited.Load() == 0 {
			t.Error("nobody had to wait: the limit on handshakes of one address is off")
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
		for i, c := range all {
			if c.ended {
				t.Errorf("member %d lost its place", i)
			}
		}
		more := 0
		for p.knock(t, here) != nil {
			if more++; more > 4*peers {
				t.Fatal("one address has as many connections as it likes")
			}
		}
		if p.knock(t, there) == nil {
			t.Error("another address pays for it")
		}
	})
}
