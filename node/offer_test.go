package node

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

func TestAPeerIsDescribedByItsOwnAddressesAndNotThoseOfRelays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ multiaddrs, want string }{
		{"/ip4/127.0.0.1/tcp/1 /ip4/127.0.0.1/udp/1/quic-v1", "127.0.0.1"},
		{"/ip4/192.168.1.7/tcp/1 /ip4/10.0.0.2/tcp/1 /ip4/10.0.0.2/udp/1/quic-v1 /ip4/127.0.0.1/tcp/1", "10.0.0.2 192.168.1.7"},
		{"/ip6/fd00::7/tcp/1 /ip6/::1/tcp/1 /ip6/fe80::1/tcp/1", "fd00::7"},
		{"/ip6/::ffff:10.0.0.2/tcp/1", "10.0.0.2"},
		{"/dns/box.example.org/tcp/1 /ip4/127.0.0.1/tcp/1", "127.0.0.1"},
		{"/ip4/203.0.113.9/tcp/1/p2p/12D3KooW/p2p-circuit /ip4/10.0.0.2/tcp/1", "10.0.0.2"},
		{"/ip4/0.0.0.0/tcp/1 nonsense /ip4", ""},
	} {
		if got := strings.Join(hostIPs(strings.Fields(c.multiaddrs)), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.multiaddrs, got, c.want)
		}
	}
	var many []string
	for i := range 100 {
		many = append(many, "/ip4/10.0.0."+string(rune('0'+i/10))+string(rune('0'+i%10))+"/tcp/1")
	}
	if got := hostIPs(many); len(got) > maxOfferedIPs {
		t.Errorf("%d addresses", len(got))
	}
}

// A peer that moves to another network is described anew in the session it has.
func TestChangedAddressesReachTheCoordinatorInTheSession(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	elsewhere := func() (bool, string) {
		peers, err := all[0].coord.Peers(timed(t))
		if err != nil {
			return false, err.Error()
		}
		for _, p := range peers {
			if p.Peer == all[1].self {
				return slices.Equal(p.Offer.Addrs, []string{"10.1.2.3"}), strings.Join(p.Offer.Addrs, " ")
			}
		}
		return false, "not there"
	}
	if ok, at := elsewhere(); ok || at != "127.0.0.1" {
		t.Fatal(at)
	}
	moved := membership.Member{ID: all[1].self, Addrs: []string{"/ip4/10.1.2.3/tcp/4000", "/ip4/127.0.0.1/tcp/4000"}}
	eventually(t, "the coordinator knows the new address", func() (bool, string) {
		if o, changed := all[1].offer.moved(moved.Addrs); changed { // a real view may say otherwise in between
			all[1].worker.SetOffer(o)
		}
		return elsewhere()
	})
}

func TestOfADiskItsFreeRoomIsOfferedButForATenthOfItUnlessSaidOtherwise(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ free, total, said, want int64 }{
		{free: 60, total: 100, want: 50},
		{free: 9, total: 100, want: 0},
		{free: 60, total: 100, said: 7, want: 7},
		{free: 60, total: 100, said: -1, want: 0},
		{free: 1 << 60, total: 1 << 60, want: session.MaxResources},
	} {
		free := x.free
		f := offering{cfg: Config{Disk: x.said, Machine: Machine{Room: func() (supervise.Room, error) { return supervise.Room{Free: free, Total: x.total}, nil }}}}
		f.measure("")
		free-- // what tasks write is counted once
		if o := f.now(); o.Resources.Disk != x.want || o.Check() != nil {
			t.Errorf("%+v: %d, %v", x, o.Resources.Disk, o.Check())
		}
	}
	var f offering
	f.cfg.Machine.Room = func() (supervise.Room, error) { return supervise.Room{}, errors.ErrUnsupported }
	if f.measure(""); f.now().Resources.Disk != 0 {
		t.Errorf("of a disk nobody can measure %d bytes are offered", f.now().Resources.Disk)
	}
}

func TestLabelsThatNoConstraintCouldAskForAreRefused(t *testing.T) {
	t.Parallel()
	for _, l := range []api.Labels{
		{},
		{Set: map[string]string{"": "x"}},
		{Set: map[string]string{"a b": "x"}},
		{Set: map[string]string{"zone": strings.Repeat("x", calls.MaxLabelValue+1)}},
		{Set: map[string]string{"zone": "a\nb"}},
		{Set: map[string]string{"zone": "\xff"}},
		{Unset: []string{"a=b"}},
		{Set: map[string]string{"zone": "a"}, Unset: []string{"zone"}},
	} {
		if e := calls.CheckLabels(l.Set, l.Unset); e == nil || e.Code != api.Usage {
			t.Errorf("%+v: %v", l, e)
		}
	}
	if e := calls.CheckLabels(map[string]string{"zone": "", "k8s.io/a_b-c": strings.Repeat("x", calls.MaxLabelValue)}, []string{"other"}); e != nil {
		t.Error(e)
	}
}

func TestAPeerMayLabelItselfWhateverItsRoles(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one", Labels: map[string]string{"zone": "own", "disk": "ssd"}})
	worker, admin := newPuppet(t), newPuppet(t)
	l.admit(worker, admission.Worker)
	l.admit(admin, admission.Admin)
	label := func(who, of taskstate.PeerID, k string) calls.Call {
		return calls.Call{From: who, Label: &ledger.Label{Peer: of, Set: map[string]string{k: "x"}}}
	}
	if r := worker.asks(l.self, label(worker.Self(), worker.Self(), "zone")); r.Error != nil || r.Lost {
		t.Errorf("itself: %+v", r)
	}
	if r := worker.asks(l.self, label(worker.Self(), l.self, "zone")); r.Error == nil || r.Error.Code != api.Refused {
		t.Errorf("another: %+v", r)
	}
	if r := admin.asks(l.self, label(admin.Self(), worker.Self(), "two words")); r.Error == nil || r.Error.Code != api.Usage {
		t.Errorf("no label: %+v", r)
	}
	p, err := l.SetLabels(timed(t), "self", api.Labels{Set: map[string]string{"zone": "west"}, Unset: []string{"disk"}})
	if err != nil || len(p.Peer.Labels) != 1 || p.Peer.Labels["zone"] != "west" {
		t.Errorf("%+v %v", p.Peer.Labels, err)
	}
	many := api.Labels{Set: map[string]string{}}
	for i := range ledger.MaxLabels {
		many.Set["k"+strings.Repeat("i", i)] = "v"
	}
	_, err = l.SetLabels(timed(t), "self", many)
	wants(t, err, api.Usage, "more than 100 labels")
}
