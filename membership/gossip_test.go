package membership_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/taskstate"
)

// counting is a network that counts what is written to neighbours' packet streams.
type counting struct {
	p2p.Net
	writes *atomic.Int64
}

func (c counting) Dial(ctx context.Context, peer, protocol string) (net.Conn, error) {
	conn, err := c.Net.Dial(ctx, peer, protocol)
	if err != nil || protocol != membership.PacketProtocol {
		return conn, err
	}
	return countingConn{conn, c.writes}, nil
}

type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countingConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// counted is a cluster whose writes to packet streams are counted.
func counted(t *testing.T, ids ...string) (*cluster, *atomic.Int64) {
	f := newCluster(t, 0)
	var writes atomic.Int64
	for _, id := range ids {
		f.start(id, "a", func(c *membership.Config) { c.Net = counting{c.Net, &writes} })
	}
	f.joinAll()
	f.within(5*time.Second, "everybody sees everybody", f.complete)
	return f, &writes
}

func TestAClusterWithoutNewsSendsProbesAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, writes := counted(t, "p0", "p1", "p2")
		defer f.close()
		time.Sleep(30 * time.Second) // what there was to tell has been told
		before := writes.Load()
		const seconds = 70
		time.Sleep(seconds * time.Second)
		// Each of three probes one other every 700 ms and is answered.
		if got, most := writes.Load()-before, int64(3*2*seconds*10/7+6); got > most {
			t.Errorf("%d packets in %d s, want at most %d", got, seconds, most)
		}
	})
}

func TestNewsReachesEverybodyAtOnceAndThenThereIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, writes := counted(t, "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9")
		defer f.close()
		time.Sleep(30 * time.Second)
		late := f.start("late", "a")
		if err := late.Join(context.Background(), []membership.PeerAddr{{ID: "p0", Addrs: []string{"/mem/p0/a"}}}); err != nil {
			t.Fatal(err)
		}
		// Two or three rounds; with a look for news every 350 ms it was one second.
		t.Logf("seen by all after %s", f.within(500*time.Millisecond, "everybody sees the newcomer", f.complete))
		time.Sleep(10 * time.Second)
		before := writes.Load()
		time.Sleep(7 * time.Second)
		if got, most := writes.Load()-before, int64(11*2*10+22); got > most {
			t.Errorf("%d packets in seven seconds, long after the news, want at most %d", got, most)
		}
	})
}

func TestAHintReachesEverybodyWithoutWaitingForAProbe(t *testing.T) {
	bubble(t, 10, func(t *testing.T, f *cluster) {
		time.Sleep(10 * time.Second)
		h := membership.Hint{Coordinator: "p0", Epoch: taskstate.Epoch{Generation: 1, Term: 7}}
		f.peers["p0"].SetHint(h)
		f.within(200*time.Millisecond, "everybody knows", func() bool { return f.hinted(h) })
	})
}
