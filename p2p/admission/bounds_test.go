package admission_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/memnet"
)

func TestAMachineWithMoreAddressesThanAnybodyNeedsJoinsWithItsFirst(t *testing.T) {
	bubble(t, func(t *testing.T, f *testCluster) {
		secret, r := admission.NewSecret(), f.roster(f.admit("v1", "v1"))
		var seen []string
		f.serve("v1", admitter(func(ctx context.Context, from string, req admission.JoinRequest) (admission.JoinAnswer, error) {
			seen = req.Addrs
			return f.knows(secret, r)(ctx, from, req)
		}), r)
		var all []string
		for n := range 70 { // bridges of containers have an address each, over TCP and over QUIC
			all = append(all, fmt.Sprintf("/ip4/172.17.%d.1/tcp/26839", n))
		}
		if _, err := admission.Join(t.Context(), f.net.Host("x"), "v1", admission.JoinRequest{Secret: secret, Addrs: all}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(seen, all[:32]) {
			t.Errorf("%d addresses arrived: %v", len(seen), seen)
		}
	})
}

// What is adopted can be read back: a file with more entries than a roster may have would be set
// aside as damaged.
func TestAdoptingKeepsTheRosterWithinItsCap(t *testing.T) {
	f := newCluster(t)
	r, err := admission.OpenRoster("", memnet.Verify)
	if err != nil {
		t.Fatal(err)
	}
	founder := f.admit("v1", "v1")
	held := []admission.Entry{founder}
	for n := range admission.MaxRoster - 1 {
		e := founder // the ledger's word is not verified again
		e.Peer = fmt.Sprint("held-", n)
		held = append(held, e)
	}
	if err := r.Trust(held...); err != nil {
		t.Fatal(err)
	}
	mine := f.admit("v1", "x")
	if err := r.Adopt(admission.JoinAnswer{Entry: mine, Roster: []admission.Entry{founder}, Cluster: cluster}); err != nil {
		t.Fatal(err)
	}
	if n := len(r.All()); n != admission.MaxRoster || !r.Admitted("x") || !r.Admitted("v1") {
		t.Errorf("%d entries, the newcomer's is there: %v, the founder's: %v", n, r.Admitted("x"), r.Admitted("v1"))
	}
	if err := r.Trust(f.admit("v1", "one more")); err == nil {
		t.Error("a full roster takes one more")
	}
}

func TestARequestBeyondItsLimitsIsRefused(t *testing.T) {
	long := func(n int) string { return string(slices.Repeat([]byte("x"), n)) }
	for what, q := range map[string]admission.JoinRequest{
		"key": {Key: make([]byte, 200)}, "proof": {Proof: make([]byte, 300)}, "cluster": {Cluster: long(129)}, "incarnation": {Incarnation: long(129)}, "name": {Name: long(65)},
		"no text": {Name: "\xff"}, "addresses": {Addrs: make([]string, 33)},
	} {
		if q.Check() == nil {
			t.Errorf("%s: passed", what)
		}
	}
	if err := (admission.JoinRequest{Key: make([]byte, 32), Proof: make([]byte, 64), Cluster: long(128), Incarnation: long(128), Name: long(64), Addrs: make([]string, 32)}).Check(); err != nil {
		t.Errorf("all at their limits: %v", err)
	}
}
