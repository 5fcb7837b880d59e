package membership_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/membership"
)

// A machine whose cores are taken by other work answers late, now and then very late. That is no
// reason to call anybody dead.
func TestNobodyIsCalledDeadInTenMinutesOnBusyMachines(t *testing.T) {
	bubble(t, 5, func(t *testing.T, f *cluster) {
		for id, p := range f.peers {
			defer p.Observe(func(v *membership.View) {
				for _, m := range v.Members {
					if m.Verdict == membership.Dead {
						t.Errorf("%s calls %s dead", id, m.ID)
					}
				}
			})()
		}
		r := rand.New(rand.NewPCG(7, 11))
		was := time.Duration(0)
		for begin := time.Now(); time.Since(begin) < 10*time.Minute; {
			slow := time.Duration(r.IntN(80)) * time.Millisecond
			if was < 100*time.Millisecond && r.IntN(10) == 0 {
				slow = time.Duration(100+r.IntN(300)) * time.Millisecond
			}
			was = slow
			f.net.Delay(slow)
			time.Sleep(time.Duration(200+r.IntN(800)) * time.Millisecond)
		}
		f.net.Delay(0)
		f.within(5*time.Second, "everybody is alive", f.complete)
	})
}

// All machines of a large cluster come back at the same time, each at another address.
func TestALargeClusterThatRestartsAtOnceFindsItselfAgain(t *testing.T) {
	n := 40
	switch {
	case testing.Short() || raceDetector:
		n = 20
	case long.Tests:
		n = 200
	}
	dir := memory(t) // so many books on a disk that syncs would take minutes
	synctest.Test(t, func(t *testing.T) {
		f := clusterIn(t, dir, n)
		defer f.close()
		f.joinAll()
		took := f.within(2*time.Minute, "everybody sees everybody", f.complete)
		t.Logf("all know each other after %s", took)
		time.Sleep(2 * time.Second) // books are written
		ids := slices.Collect(maps.Keys(f.peers))
		f.net.Kill(ids...)
		for _, p := range f.peers {
			p.stop()
		}
		clear(f.peers)
		f.net.Revive(ids...)
		for _, id := range ids {
			f.start(id, "b")
		}
		took = f.within(2*time.Minute, "everybody sees everybody again, where they are now", func() bool {
			return f.completeAs(func(m membership.Member) bool { return m.Addrs[0] == "/mem/"+m.ID+"/b" })
		})
		t.Logf("and again after %s", took)
	})
}

// Everybody is in the book of a peer that comes back. The first it reaches tell it of the rest.
func TestAPeerThatComesBackDoesNotAskAllOfALargeCluster(t *testing.T) {
	long.Test(t)
	const n = 60
	synctest.Test(t, func(t *testing.T) {
		f := clusterIn(t, memory(t), n)
		defer f.close()
		f.joinAll()
		f.within(time.Minute, "everybody sees everybody", f.complete)
		time.Sleep(2 * time.Second) // books are written
		f.net.Delay(5 * time.Millisecond)
		f.kill("p7")
		time.Sleep(time.Second)
		f.net.Revive("p7")
		var asked atomic.Int64
		f.start("p7", "b", func(c *membership.Config) { c.Net = countingSyncs{c.Net, &asked} })
		f.within(2*time.Second, "everybody sees everybody again", f.complete)
		if k := asked.Load(); k < 1 || k > n/3 {
			t.Errorf("it asked %d times to hear of %d peers", k, n-1)
		}
	})
}

// memory is a folder in memory where there is one.
func memory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "covey-membership")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
