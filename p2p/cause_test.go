package p2p

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"
	"pgregory.net/rapid"
)

// somePeer has the form of a peer id.
const somePeer = "12D3KooWGzh4jgtcFdjCpGrB5Dz7z7cjmBL3ULBsJNWxwTWZbBv9"

func anID(t testing.TB) peer.ID {
	t.Helper()
	key, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestEveryCauseOfAFailedDialHasItsWords(t *testing.T) {
	other := anID(t)
	for what, c := range map[string]struct {
		err  error
		want string
	}{
		"none":                 {nil, "no answer"},
		"another peer":         {fmt.Errorf("x: %w", sec.ErrPeerIDMismatch{Actual: other}), "another peer lives there, " + other.String()},
		"refused":              {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "connection refused, no peer listens there"},
		"no host":              {os.NewSyscallError("connect", syscall.EHOSTUNREACH), "there is no way from here to that network"},
		"no network":           {os.NewSyscallError("connect", syscall.ENETUNREACH), "there is no way from here to that network"},
		"blocked":              {swarm.ErrGaterDisallowedConnection, "it is cut off from this peer"},
		"libp2p gave up":       {swarm.ErrDialTimeout, "no answer"},
		"a deadline":           {context.DeadlineExceeded, "no answer"},
		"a deadline of a file": {os.ErrDeadlineExceeded, "no answer"},
		"a net.Error":          {&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, "no answer"},
		"we gave up":           {context.Canceled, "given up before an answer came"},
		"anything else":        {errors.New("some\n  thing\telse"), "some thing else"},
	} {
		if got := wordCause(c.err); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

// failed is what libp2p says of a dial that failed at these addresses, for these reasons.
func failed(skipped int, at ...any) *swarm.DialError {
	e := &swarm.DialError{Cause: swarm.ErrAllDialsFailed, Skipped: skipped}
	for i := 0; i < len(at); i += 2 {
		cause, _ := at[i+1].(error)
		e.DialErrors = append(e.DialErrors, swarm.TransportError{Address: ma.StringCast(at[i].(string)), Cause: cause})
	}
	return e
}

func TestAFailedDialSaysOfEachAddressTheMoreTellingOfTwoReasons(t *testing.T) {
	const tcp, quic = "/ip4/10.0.0.1/tcp/9", "/ip4/10.0.0.1/udp/9/quic-v1"
	relay := "/ip4/10.0.0.2/tcp/9/p2p/" + somePeer + "/p2p-circuit"
	for _, c := range []struct {
		err  error
		want string
	}{
		{failed(0, tcp, syscall.ECONNREFUSED, quic, context.DeadlineExceeded), "10.0.0.1:9: connection refused, no peer listens there"},
		{failed(0, quic, context.DeadlineExceeded, tcp, syscall.ECONNREFUSED), "10.0.0.1:9: connection refused, no peer listens there"},
		{failed(0, quic, context.Canceled, tcp, nil), "10.0.0.1:9: no answer"},
		{failed(0, tcp, nil, "/ip6/2001:db8::1/tcp/9", context.Canceled), "10.0.0.1:9: no answer; [2001:db8::1]:9: given up before an answer came"},
		{failed(0, "/ip4/10.0.0.1/tcp/9", nil, "/ip4/10.0.0.1/tcp/10", nil), "10.0.0.1:9: no answer; 10.0.0.1:10: no answer"},
		{failed(3, tcp, nil), "10.0.0.1:9: no answer; and 3 more"},
		{failed(0, relay, nil), "through relay …" + somePeer[len(somePeer)-8:] + ": no answer"},
		{failed(0, "/dns/example.org/tcp/9", nil), "/dns/example.org/tcp/9: no answer"},
		{&swarm.DialError{Cause: swarm.ErrNoAddresses}, "none of its addresses is known here"},
		{&swarm.DialError{Cause: swarm.ErrNoGoodAddresses}, "none of its addresses can be dialled from here"},
		{&swarm.DialError{Cause: swarm.ErrGaterDisallowedConnection}, "it is cut off from this peer"},
		{&swarm.DialError{Cause: context.Canceled}, "given up before an answer came"},
		{errors.New("two\nlines"), "two lines"},
	} {
		if got := wordDial(c.err); got != c.want {
			t.Errorf("%v\nis said as %q,\nwant       %q", c.err, got, c.want)
		}
	}
	if got := Why(fmt.Errorf("dial X: %w", &dialError{err: failed(0, tcp, nil)})); got != "10.0.0.1:9: no answer" {
		t.Errorf("why: %q", got)
	}
	if got := Why(errors.New("a\nb")); got != "a b" {
		t.Errorf("why: %q", got)
	}
}

func TestARefusalIsBelievedForASecondAndOnlyThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r refusals
		r.init()
		p, there := peer.ID("p"), ma.StringCast("/ip4/10.0.0.1/tcp/9")
		quic := ma.StringCast("/ip4/10.0.0.1/udp/9/quic-v1")
		r.note(p, there, context.DeadlineExceeded)
		if r.fresh(quic) {
			t.Error("silence is taken for a refusal")
		}
		r.note(p, there, os.NewSyscallError("connect", syscall.ECONNREFUSED))
		if !r.fresh(quic) || !r.fresh(there) || r.fresh(ma.StringCast("/ip4/10.0.0.1/udp/10/quic-v1")) || r.fresh(ma.StringCast("/ip4/10.0.0.2/tcp/9")) {
			t.Error("a refusal holds for the port it came from, of whatever transport")
		}
		time.Sleep(refusalAge)
		if !r.fresh(quic) {
			t.Error("it is over too soon")
		}
		time.Sleep(time.Millisecond)
		if r.fresh(quic) {
			t.Error("it is believed for ever")
		}
		r.note(p, ma.StringCast("/ip4/10.0.0.3/tcp/9"), syscall.ECONNREFUSED)
		if len(r.at) != 1 {
			t.Errorf("%d refusals are remembered", len(r.at))
		}
		r.note(p, ma.StringCast("/dns/example.org/tcp/9"), syscall.ECONNREFUSED)
		if r.fresh(ma.StringCast("/dns/example.org/tcp/9")) || len(r.at) != 1 {
			t.Error("a name is no place that refuses")
		}
	})
}

func TestADialEndsSoonAfterItsPeersOldAddressRefused(t *testing.T) {
	old, elsewhere := netip.MustParseAddr("10.0.0.1"), ma.StringCast("/ip4/10.0.0.9/tcp/9")
	refuse := func(r *refusals, at string) { r.note("p", ma.StringCast(at), syscall.ECONNREFUSED) }
	for what, c := range map[string]struct {
		note func(r *refusals)
		ends bool
	}{
		"where it was":            {func(r *refusals) { refuse(r, "/ip4/10.0.0.1/tcp/9") }, true},
		"another port of it":      {func(r *refusals) { refuse(r, "/ip4/10.0.0.1/tcp/10") }, true},
		"an address it never had": {func(r *refusals) { r.note("p", elsewhere, syscall.ECONNREFUSED) }, false},
		"the same, another peer":  {func(r *refusals) { r.note("q", ma.StringCast("/ip4/10.0.0.1/tcp/9"), syscall.ECONNREFUSED) }, false},
		"no answer from it":       {func(r *refusals) { r.note("p", ma.StringCast("/ip4/10.0.0.1/tcp/9"), context.DeadlineExceeded) }, false},
		"twice where it was":      {func(r *refusals) { refuse(r, "/ip4/10.0.0.1/tcp/9"); refuse(r, "/ip4/10.0.0.1/tcp/9") }, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var r refusals
			r.init()
			r.last["p"] = old
			ctx, _, end := r.watch(t.Context(), "p")
			c.note(&r)
			time.Sleep(refusalGrace - time.Millisecond)
			if ctx.Err() != nil {
				t.Errorf("%s: other addresses had no time", what)
			}
			time.Sleep(2 * time.Millisecond)
			if (ctx.Err() != nil) != c.ends {
				t.Errorf("%s: ended: %t, want %t", what, ctx.Err() != nil, c.ends)
			}
			err := r.judge(ctx, "p", errors.New("no dial succeeded"))
			if Refused(err) != c.ends {
				t.Errorf("%s: %v is evidence that it is gone: %t", what, err, Refused(err))
			}
			end()
			if len(r.dials) != 0 {
				t.Errorf("%s: %d dials are remembered", what, len(r.dials))
			}
		})
	}
}

func TestOnlyARefusalWhereThePeerWasIsEvidence(t *testing.T) {
	var r refusals
	r.init()
	r.last["p"] = netip.MustParseAddr("10.0.0.1")
	relay := "/ip4/10.0.0.1/tcp/9/p2p/" + somePeer + "/p2p-circuit"
	for what, c := range map[string]struct {
		p    peer.ID
		err  error
		want bool
	}{
		"nothing failed":           {"p", nil, false},
		"refused where it was":     {"p", failed(0, "/ip4/10.0.0.1/tcp/9", syscall.ECONNREFUSED), true},
		"among others":             {"p", failed(0, "/ip4/10.0.0.2/tcp/9", nil, "/ip4/10.0.0.1/tcp/9", syscall.ECONNREFUSED), true},
		"refused elsewhere":        {"p", failed(0, "/ip4/10.0.0.2/tcp/9", syscall.ECONNREFUSED, "/ip4/10.0.0.1/tcp/9", nil), false},
		"refused by a relay there": {"p", failed(0, relay, syscall.ECONNREFUSED), false},
		"a peer never met":         {"q", failed(0, "/ip4/10.0.0.1/tcp/9", syscall.ECONNREFUSED), false},
		"the word alone":           {"p", syscall.ECONNREFUSED, false},
	} {
		err := r.judge(t.Context(), c.p, c.err)
		if Refused(err) != c.want || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v is evidence: %t, want %t", what, err, Refused(err), c.want)
		}
	}
	if err := r.judge(t.Context(), "p", fmt.Errorf("x: %w", context.Canceled)); !errors.Is(err, context.Canceled) {
		t.Errorf("the error inside does not show: %v", err)
	}
}

func TestTheGatesWordIsHeardOnTheOtherSide(t *testing.T) {
	for what, c := range map[string]struct{ err, want error }{
		"gated there":           {&network.StreamError{ErrorCode: network.StreamGated, Remote: true}, ErrNotAdmitted},
		"busy there":            {&network.StreamError{ErrorCode: network.StreamRateLimited, Remote: true}, ErrBusy},
		"too many there":        {&network.StreamError{ErrorCode: network.StreamResourceLimitExceeded, Remote: true}, ErrTooMany},
		"wrapped":               {fmt.Errorf("x: %w", &network.StreamError{ErrorCode: network.StreamGated, Remote: true}), ErrNotAdmitted},
		"gated here":            {&network.StreamError{ErrorCode: network.StreamGated}, nil},
		"another word":          {&network.StreamError{ErrorCode: network.StreamShutdown, Remote: true}, nil},
		"an error of a network": {net.ErrClosed, nil},
	} {
		got := gated(c.err)
		if c.want != nil && !errors.Is(got, c.want) || c.want == nil && !errors.Is(got, c.err) {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// The gate's counts are held against maps that forget nothing.
func TestTheGateLetsInAsManyAsItSaysAndForgetsWhoLeft(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		g := newGate(Config{Admitted: func(string) bool { return false }})
		strangers, admitted := map[peer.ID]int{}, map[opened]int{}
		for range rapid.IntRange(0, 200).Draw(r, "steps") {
			p := rapid.SampledFrom([]peer.ID{"a", "b", "c", "d", "e", "f"}).Draw(r, "peer")
			o := opened{p, "/x/1"}
			switch rapid.SampledFrom([]string{"enter", "enter", "leave", "open", "close"}).Draw(r, "step") {
			case "enter":
				want := strangers[p] < strangerStreams
				if got := g.enter(p); got != want {
					r.Fatalf("%s enters: %t, want %t with %v", p, got, want, strangers)
				}
				if want {
					strangers[p]++
				}
			case "leave":
				if strangers[p] > 0 {
					strangers[p]--
					g.leave(p)
				}
			case "open":
				if g.enterAdmitted(o) {
					admitted[o]++
				}
			case "close":
				if admitted[o] > 0 {
					admitted[o]--
					g.leaveAdmitted(o)
				}
			}
		}
		for p, n := range strangers {
			if _, kept := g.streams[p]; g.streams[p] != n || kept != (n > 0) {
				r.Fatalf("%s has %d, want %d", p, g.streams[p], n)
			}
		}
		for o, n := range admitted {
			if _, kept := g.open[o]; g.open[o] != n || kept != (n > 0) {
				r.Fatalf("%v has %d, want %d", o, g.open[o], n)
			}
		}
	})
	g, o := newGate(Config{Admitted: func(string) bool { return false }}), opened{"a", "/x/1"}
	for i := range admittedStreams + 1 {
		if got := g.enterAdmitted(o); got != (i < admittedStreams) {
			t.Fatalf("stream %d: %t", i+1, got)
		}
	}
	if !g.enterAdmitted(opened{"a", "/y/1"}) || !g.enterAdmitted(opened{"b", "/x/1"}) {
		t.Error("one protocol of one peer keeps out others")
	}
}

func TestABlockedPeerPassesInNoDirection(t *testing.T) {
	friend, other := anID(t), anID(t)
	g := newGate(Config{Admitted: func(string) bool { return false }})
	g.blocked[friend] = true
	for _, dir := range []network.Direction{network.DirInbound, network.DirOutbound} {
		if g.InterceptSecured(dir, friend, nil) || g.InterceptPeerDial(friend) {
			t.Error("a blocked peer passes")
		}
		if !g.InterceptSecured(dir, other, nil) || !g.InterceptPeerDial(other) {
			t.Error("another does not")
		}
	}
}

func TestADeadlineOfAStrangerIsNeverMovedBeyondItsEnd(t *testing.T) {
	last := time.Unix(100, 0)
	stranger, friend := &conn{last: last}, &conn{}
	for _, at := range []time.Time{{}, last.Add(time.Second), last} {
		if got := stranger.capped(at); !got.Equal(last) {
			t.Errorf("%v became %v", at, got)
		}
		if got := friend.capped(at); !got.Equal(at) {
			t.Errorf("an admitted peer's %v became %v", at, got)
		}
	}
	if early := last.Add(-time.Second); !stranger.capped(early).Equal(early) {
		t.Error("an earlier one does not hold")
	}
}

func TestAConfigThatLeavesThingsOutIsCautious(t *testing.T) {
	key, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Config{Key: key}.withDefaults()
	if err != nil || c.Admitted(somePeer) || c.Peers != 500 || c.RelayCheck != 5*time.Minute || c.Log == nil {
		t.Errorf("%+v, %v", c, err)
	}
	for says, bad := range map[string]Config{
		"needs a key": {},
	} {
		if _, err := bad.withDefaults(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
