package membership_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/taskstate"
)

// meetings counts the pairs of peers that dialled each other.
type meetings struct {
	mu    sync.Mutex
	pairs map[[2]string]bool
}

func (m *meetings) note(a, b string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pairs[[2]string{min(a, b), max(a, b)}] = true
}

func (m *meetings) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pairs)
}

// noted is the network and host of a peer whose dials are counted.
type noted struct {
	p2p.Net
	membership.Host
	all *meetings
}

func (n noted) Dial(ctx context.Context, peer, protocol string) (net.Conn, error) {
	n.all.note(n.Self(), peer)
	return n.Net.Dial(ctx, peer, protocol)
}

func (n noted) Connect(ctx context.Context, peer string, addrs []string) error {
	n.all.note(n.Self(), peer)
	return n.Host.Connect(ctx, peer, addrs)
}

// large is a cluster of n that has settled, and who of it met whom.
func large(t *testing.T, n int, body func(f *cluster, all *meetings), tweak ...func(*membership.Config)) {
	if raceDetector && n > 24 {
		t.Skip("the race detector ends itself over so much at once; clusters of 20 are large, too, and run with it")
	}
	synctest.Test(t, func(t *testing.T) {
		f, all := clusterIn(t, memory(t), 0), &meetings{pairs: map[[2]string]bool{}}
		defer f.close()
		for i := range n {
			p := f.start(fmt.Sprintf("p%d", i), "a", func(c *membership.Config) {
				both := noted{c.Net, c.Host, all}
				c.Net, c.Host = both, both
				for _, w := range tweak {
					w(c)
				}
			})
			if i > 0 {
				f.join(p)
			}
			time.Sleep(100 * time.Millisecond)
		}
		f.within(time.Minute, "everybody sees everybody", f.complete)
		body(f, all)
	})
}

func TestALargeClusterMakesFewConnectionsForEachMember(t *testing.T) {
	const n = 60
	large(t, n, func(f *cluster, all *meetings) {
		time.Sleep(2 * time.Minute) // a minute is enough to probe everybody
		if k := all.count(); k > n*(n-1)/4 {
			t.Errorf("%d of %d pairs met", k, n*(n-1)/2)
		} else {
			t.Logf("%d of %d pairs met", k, n*(n-1)/2)
		}
	})
}

func TestALargeClusterNoticesWhoIsSilent(t *testing.T) {
	large(t, 60, func(f *cluster, _ *meetings) {
		time.Sleep(10 * time.Second)
		for id := range f.peers {
			if id != "p7" {
				f.net.Cut("p7", id)
			}
		}
		took := f.within(15*time.Second, "p7 is gone for all others", func() bool { return f.all("p7", membership.Dead, "p7") })
		t.Logf("all know after %s", took)
		f.net.Heal()
		took = f.within(time.Minute, "everybody sees everybody again", f.complete)
		t.Logf("and that it is back after %s", took)
	})
}

func TestALargeClusterNoticesSoonWhoWasKilled(t *testing.T) {
	large(t, 60, func(f *cluster, _ *meetings) {
		time.Sleep(10 * time.Second)
		f.kill("p7")
		took := f.within(10*time.Second, "p7 is gone for all others", func() bool { return f.all("p7", membership.Dead, "p7") })
		t.Logf("all know after %s", took)
	})
}

// Some cannot reach a member that lives: a broken route is no reason to call it dead.
func TestALargeClusterKeepsAMemberThatTwoCannotReach(t *testing.T) {
	large(t, 60, func(f *cluster, _ *meetings) {
		f.net.Cut("p7", "p9")
		f.net.Cut("p7", "p20")
		for id, p := range f.peers {
			defer p.Observe(func(v *membership.View) {
				if v.Verdict("p7") == membership.Dead {
					t.Errorf("%s calls p7 dead", id)
				}
			})()
		}
		time.Sleep(time.Minute)
	})
}

// Answers come later than a probe waits, and no peer gets the time to tell whose fault that is.
func TestPeersWithoutTimeHoldNobodyDeadForBeingLate(t *testing.T) {
	large(t, 24, func(f *cluster, _ *meetings) {
		f.net.Delay(600 * time.Millisecond)
		for id, p := range f.peers {
			defer p.Observe(func(v *membership.View) {
				for _, m := range v.Members {
					if m.Verdict == membership.Dead {
						t.Errorf("%s calls %s dead", id, m.ID)
					}
				}
			})()
		}
		time.Sleep(3 * time.Minute)
	}, membership.WithoutTime)
}

func TestPeersWithoutTimeNoticeInTheEndWhoIsSilent(t *testing.T) {
	large(t, 24, func(f *cluster, _ *meetings) {
		for id := range f.peers {
			if id != "p7" {
				f.net.Cut("p7", id)
			}
		}
		took := f.within(time.Minute, "p7 is gone for all others", func() bool { return f.all("p7", membership.Dead, "p7") })
		t.Logf("all know after %s", took)
	}, membership.WithoutTime)
}

// Who knew of many members when it started tells news like the others.
func TestNewsReachesAllThatStartedInALargeCluster(t *testing.T) {
	large(t, 24, func(f *cluster, _ *meetings) {
		h := membership.Hint{Epoch: taskstate.Epoch{Generation: 1, Term: 7}, Coordinator: "p3"}
		f.peers["p9"].SetHint(h)
		took := f.within(time.Second, "all know who coordinates", func() bool { return f.hinted(h) })
		t.Logf("all know after %s", took)
	}, func(c *membership.Config) { c.Expect = 2 * membership.LargeCluster })
}
