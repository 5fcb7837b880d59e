package blob

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/p2p"
)

func host(t *testing.T, admitted func(string) bool) *p2p.Host {
	t.Helper()
	key, err := p2p.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	h, err := p2p.New(p2p.Config{Key: key, Listen: []string{"127.0.0.1:0"}, Admitted: admitted})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// Not even whether it is there: what a stranger hears is the same for what is and for what is not.
//
// Acceptance case 31.
func TestOverRealConnectionsMembersGetFilesAndOthersHearNothing(t *testing.T) {
	b := noise(2*piece.Size+1, 1)
	from, _ := disk(t, b)
	all := func(string) bool { return true }
	member, stranger := host(t, all), host(t, all)
	var removed atomic.Bool
	admitted := func(p string) bool { return p == member.Self() && !removed.Load() }
	source := host(t, admitted)
	srv := Serve(source, Shelved(from), ServerConfig{Admitted: admitted})
	defer srv.Close()
	get := func(h *p2p.Host, b []byte) (Report, error) {
		h.SetAddrs(source.Self(), source.Addrs())
		to, _ := disk(t)
		keep := Keep(to, true)
		defer keep.Close()
		f := Fetcher{Net: h, Self: h.Self(), Keep: keep}
		return f.Fetch(t.Context(), Request{Peers: func() []string { return []string{source.Self()} }, Wants: slices.Values([]Want{want(b)})})
	}
	refused := func(who string, h *p2p.Host) {
		t.Helper()
		for _, blob := range [][]byte{b, noise(100, 2)} {
			r, err := get(h, blob)
			var m *Missing
			if !errors.As(err, &m) || r.Bytes != 0 || len(m.Absent) != 0 || m.Failed[source.Self()] == "" {
				t.Errorf("%s hears %v", who, err)
			}
		}
	}
	refused("a stranger", stranger)
	var err error
	for range 20 { // dials have three seconds, which may be too few for a busy machine
		if _, err = get(member, b); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	removed.Store(true)
	source.Recheck()
	refused("a removed peer", member)
}
