package membership_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"
)

// cluster is some peers on one in-memory network, inside a bubble.
type cluster struct {
	doomed sync.Map // ids of peers that may be suspected: they are about to be killed
	t      *testing.T
	net    *memnet.Network
	dir    string
	peers  map[string]*peer
	shut   map[string]bool // not admitted
	mu     sync.Mutex

	partial *membership.View // one that lacks somebody
}

type peer struct {
	*membership.Membership
	id   string
	stop func()
}

func newCluster(t *testing.T, n int) *cluster { return clusterIn(t, t.TempDir(), n) }

// clusterIn keeps its files in dir.
func clusterIn(t *testing.T, dir string, n int) *cluster {
	f := &cluster{t: t, net: memnet.New(), dir: dir, peers: map[string]*peer{}, shut: map[string]bool{}}
	for i := range n {
		f.start(fmt.Sprintf("p%d", i), "a")
	}
	return f
}

// start gives a peer a life; moved is part of its address and incarnation.
func (f *cluster) start(id, moved string, tweak ...func(*membership.Config)) *peer {
	h := f.net.Host(id)
	cfg := membership.Config{
		Net: h, Host: h, Name: "name-" + id, Incarnation: taskstate.Incarnation("inc-" + id),
		Addrs: func() []string { return []string{"/mem/" + id + "/" + moved} }, Version: "test",
		Book: filepath.Join(f.dir, id+".book"), Admitted: f.admitted, Sign: h.Sign, Verify: memnet.Verify, Log: slog.New(slog.DiscardHandler),
	}
	for _, w := range tweak {
		w(&cfg)
	}
	m, err := membership.New(cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := m.Run(ctx); err != nil {
			f.t.Error(err)
		}
	}()
	p := &peer{Membership: m, id: id, stop: func() { cancel(); <-done }}
	f.peers[id] = p
	return p
}

// hinted tells whether everybody knows a hint.
func (f *cluster) hinted(h membership.Hint) bool {
	for _, p := range f.peers {
		if p.Hint() != h {
			return false
		}
	}
	return true
}

func (f *cluster) admitted(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.shut[id]
}

func (f *cluster) admit(id string, yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shut[id] = !yes
}

// joinAll makes everybody know the first one.
func (f *cluster) joinAll() {
	f.t.Helper()
	for id, p := range f.peers {
		if id != "p0" {
			f.join(p)
		}
	}
}

// join makes a peer know the first one.
func (f *cluster) join(p *peer) {
	f.t.Helper()
	if err := p.Join(context.Background(), []membership.PeerAddr{{ID: "p0", Addrs: []string{"/mem/p0/a"}}}); err != nil {
		f.t.Fatal(err)
	}
}

// kill is kill -9: streams reset, dials refused, nothing said.
func (f *cluster) kill(id string) {
	f.net.Kill(id)
	f.peers[id].stop()
	delete(f.peers, id)
}

func (f *cluster) close() {
	for _, p := range f.peers {
		p.stop()
	}
	f.net.Close()
	time.Sleep(5 * time.Second) // memberlist's own timers
}

// within waits, in virtual time, until ok holds and says how long it took.
func (f *cluster) within(d time.Duration, what string, ok func() bool) time.Duration {
	f.t.Helper()
	start := time.Now()
	for time.Since(start) < d {
		synctest.Wait()
		if ok() {
			return time.Since(start)
		}
		time.Sleep(5 * time.Millisecond)
	}
	for id, p := range f.peers {
		f.t.Logf("%s sees %s", id, p.View())
	}
	f.t.Fatalf("not within %s: %s", d, what)
	return 0
}

// all tells whether every peer but the named ones has this verdict about id.
func (f *cluster) all(id string, v membership.Verdict, but ...string) bool {
	for other, p := range f.peers {
		if other != id && !slices.Contains(but, other) && p.View().Verdict(id) != v {
			return false
		}
	}
	return true
}

// complete tells whether everybody sees everybody alive.
func (f *cluster) complete() bool { return f.completeAs(func(membership.Member) bool { return true }) }

// completeAs is complete where each is seen as is accepts.
func (f *cluster) completeAs(is func(membership.Member) bool) bool {
	for _, p := range f.peers {
		v := p.View()
		if v == f.partial { // looked at before: of many peers that would be most of the work
			return false
		}
		alive := 0
		for _, m := range v.Members {
			if f.peers[m.ID] != nil && m.Verdict == membership.Alive && is(m) {
				alive++
			}
		}
		if alive < len(f.peers) {
			f.partial = v
			return false
		}
	}
	return true
}

func bubble(t *testing.T, n int, body func(t *testing.T, f *cluster)) {
	synctest.Test(t, func(t *testing.T) {
		f := newCluster(t, n)
		defer f.close()
		f.joinAll()
		f.within(5*time.Second, "everybody sees everybody", f.complete)
		body(t, f)
	})
}

func TestPeersThatJoinOneSeeAllWithinASecond(t *testing.T) {
	for _, n := range []int{2, 3, 10} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newCluster(t, n)
				defer f.close()
				f.joinAll()
				f.within(time.Second, "everybody sees everybody", f.complete)
				m, _ := f.peers["p1"].View().Get("p0")
				if m.Name != "name-p0" || m.Incarnation != "inc-p0" || m.Addrs[0] != "/mem/p0/a" || m.Version != "test" {
					t.Errorf("p0 introduces itself as %+v", m)
				}
			})
		})
	}
}
