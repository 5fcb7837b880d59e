package admission_test

import (
	"path/filepath"
	"testing"

	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/memnet"
)

const cluster = "aaaabbbbccccdddd"

// cluster signs entries as the peers of one cluster would; At counts up by itself.
type testCluster struct {
	t   *testing.T
	net *memnet.Network
	at  int64
}

func newCluster(t *testing.T) *testCluster {
	n := memnet.New()
	t.Cleanup(func() { _ = n.Close() })
	return &testCluster{t: t, net: n}
}

// admit makes the entry of peer, signed by by; without roles it is a voter.
func (f *testCluster) admit(by, peer string, roles ...admission.Role) admission.Entry {
	if len(roles) == 0 {
		roles = admission.AllRoles()
	}
	f.at++
	return f.sign(by, admission.Entry{Cluster: cluster, Peer: peer, Name: ("name-" + peer)[:min(60, len(peer)+5)], Roles: roles, At: f.at})
}

func (f *testCluster) remove(by, peer string) admission.Entry {
	f.at++
	return f.sign(by, removal(admission.Entry{Cluster: cluster, Peer: peer, Roles: admission.AllRoles(), At: f.at}))
}

// removal makes an entry a tombstone, of a decision.
func removal(e admission.Entry) admission.Entry {
	e.Removed, e.Index, e.Generation, e.Term = true, 7, 1, 1
	return e
}

// believing has a roster believe that these peers hold a seat.
func believing(r *admission.Roster, seated ...string) *admission.Roster {
	c, err := admission.OpenSeats("", nil, memnet.Verify)
	if err != nil {
		panic(err)
	}
	c.Assume(seated)
	r.Believe(c, nil, nil)
	return r
}

func (f *testCluster) sign(by string, e admission.Entry) admission.Entry {
	f.t.Helper()
	e, err := e.Signed(f.net.Host(by))
	if err != nil {
		f.t.Fatal(err)
	}
	return e
}

// roster opens a fresh roster that trusts entries. Those called v1 to v4 hold a seat.
func (f *testCluster) roster(entries ...admission.Entry) *admission.Roster {
	f.t.Helper()
	r, err := admission.OpenRoster(filepath.Join(f.t.TempDir(), "roster"), memnet.Verify)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := r.Trust(entries...); err != nil {
		f.t.Fatal(err)
	}
	return believing(r, "v1", "v2", "v3", "v4")
}

func peers(r *admission.Roster) (in []string) {
	for _, e := range r.All() {
		if !e.Removed {
			in = append(in, e.Peer)
		}
	}
	return in
}
