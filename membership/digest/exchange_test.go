package digest_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/p2p/wire"
)

// node is one peer's store and exchange, and what it was given.
type node struct {
	*digest.Exchange
	store *digest.Store
	mu    sync.Mutex
	got   map[string]int
}

func (n *node) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.got)
}

// nodes runs n peers named p0, p1, … in a bubble.
func nodes(t *testing.T, n int, body func(net *memnet.Network, ps []*node)) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		ctx, cancel := context.WithCancel(context.Background())
		var work sync.WaitGroup
		var ps []*node
		for i := range n {
			p := &node{store: digest.NewStore(0), got: map[string]int{}}
			self := fmt.Sprint("p", i)
			p.Exchange = digest.New(digest.Config{
				Net: network.Host(self), Store: p.store, Verify: memnet.Verify,
				Deliver: func(e digest.Envelope) {
					p.mu.Lock()
					defer p.mu.Unlock()
					p.got[string(e.Body)]++
				},
				Accept: func(author string) bool { return author != "stranger" },
				Peers: func() (others []string) {
					for j := range n {
						if j != i {
							others = append(others, fmt.Sprint("p", j))
						}
					}
					return others
				},
			})
			ps = append(ps, p)
			work.Go(func() { _ = p.Run(ctx) })
		}
		synctest.Wait()
		body(network, ps)
		cancel()
		work.Wait()
		network.Close()
	})
}

func TestTheTimerBringsWhatGossipLost(t *testing.T) {
	nodes(t, 3, func(_ *memnet.Network, ps []*node) {
		for n := range uint64(100) {
			ps[0].Offer(batch("p0", n+1))
		}
		time.Sleep(time.Minute)
		for i, p := range ps[1:] {
			if m := p.store.Mark("p0", "i"); m.Contiguous != 100 || p.count() != 100 {
				t.Errorf("p%d has %+v and was given %d", i+1, m, p.count())
			}
		}
	})
}

func TestAGapIsFilledWithinAMoment(t *testing.T) {
	nodes(t, 2, func(_ *memnet.Network, ps []*node) {
		for n := range uint64(10) {
			ps[0].Offer(batch("p0", n+1))
		}
		ps[1].Offer(batch("p0", 1))
		ps[1].Offer(batch("p0", 10))
		time.Sleep(150 * time.Millisecond)
		if m := ps[1].store.Mark("p0", "i"); m.Contiguous != 10 || ps[1].count() != 8 {
			t.Errorf("mark %+v, given %d", m, ps[1].count())
		}
	})
}

func TestAHoleNobodyCanFillCostsLittle(t *testing.T) {
	nodes(t, 2, func(network *memnet.Network, ps []*node) {
		var asked atomic.Int64
		network.Host("p1").Handle(digest.Protocol, func(_ string, c net.Conn) { asked.Add(1); c.Close() })
		for n := range uint64(1000) {
			ps[0].Offer(batch("p1", n+2))
			time.Sleep(10 * time.Millisecond)
		}
		if n := asked.Load(); n > 15 {
			t.Errorf("asked %d times in ten seconds", n)
		}
	})
}

func TestMeetingBringsBothSidesLevel(t *testing.T) {
	nodes(t, 2, func(_ *memnet.Network, ps []*node) {
		const big, many = 400_000, 36 // what one author may have, and bring in at once
		for n := range uint64(many) { // more than one turn holds
			ps[0].Offer(sized("p0", "i", n+1, big))
			ps[1].Offer(sized("p1", "i", n+1, big))
		}
		ps[0].Meet("p1")
		synctest.Wait()
		for i, p := range ps {
			if a, b := p.store.Mark("p0", "i"), p.store.Mark("p1", "i"); a.Contiguous != many || b.Contiguous != many {
				t.Errorf("p%d has %+v and %+v", i, a, b)
			}
		}
	})
}

func TestAFloodOfOneAuthorIsTakenInAtABoundedPaceAndKeepsNobodyOut(t *testing.T) {
	nodes(t, 2, func(_ *memnet.Network, ps []*node) {
		big := 400_000
		for n := range uint64(400) { // 160 MB
			ps[0].Offer(sized("p0", "i", n+1, big))
			if n%10 == 0 {
				e := sized("p0", "i", n+1000, big)
				e.Author = "p2" // what p2 floods p0 with
				if ps[0].Allows(e) {
					ps[0].Offer(e)
				}
			}
		}
		for range 60 {
			ps[0].Meet("p1")
			time.Sleep(time.Second)
		}
		if bytes, _ := ps[1].store.Size(); bytes > 40<<20 {
			t.Errorf("p1 holds %d bytes", bytes)
		}
		ps[1].Offer(batch("p1", 1))
		time.Sleep(30 * time.Second)
		if m := ps[0].store.Mark("p1", "i"); m.Contiguous != 1 {
			t.Errorf("p1's own word does not get through: %+v", m)
		}
	})
}

func TestWhatIsSettledElsewhereIsNotAskedForAgain(t *testing.T) {
	nodes(t, 2, func(_ *memnet.Network, ps []*node) {
		for n := range uint64(10) {
			ps[0].Offer(batch("p0", n+1))
		}
		ps[0].store.Retire("p0", "i", 9)
		ps[1].Meet("p0")
		synctest.Wait()
		if m := ps[1].store.Mark("p0", "i"); m.Contiguous != 10 || ps[1].count() != 1 {
			t.Errorf("mark %+v, given %d", m, ps[1].count())
		}
	})
}

// An author whose journal was turned back learns from its own signature which numbers it has used,
// also where all of them are settled.
func TestAnAuthorGetsItsNewestEnvelopeBackThoughAllIsSettled(t *testing.T) {
	nodes(t, 3, func(_ *memnet.Network, ps []*node) {
		for n := range uint64(10) {
			ps[1].Offer(batch("p0", n+1))
		}
		ps[1].store.Retire("p0", "i", 11) // the last was lost on its way here
		ps[0].store.Retire("p0", "i", 7)  // what it remembers
		ps[0].Meet("p1")
		ps[2].Meet("p1")
		synctest.Wait()
		if ps[0].count() != 1 || ps[0].got[string(batch("p0", 10).Body)] != 1 {
			t.Errorf("it was given %v, want its newest alone", ps[0].got)
		}
		if ps[2].count() != 0 {
			t.Errorf("another was given %v of what is settled", ps[2].got)
		}
		ps[0].Meet("p1")
		synctest.Wait()
		if _, n := ps[1].store.Size(); n != 1 || ps[0].count() != 1 || ps[0].got[string(batch("p0", 10).Body)] != 1 {
			t.Errorf("after another exchange %d are held, and it was given %v", n, ps[0].got)
		}
	})
}

func TestForgedAndUnwantedEnvelopesAreNotTaken(t *testing.T) {
	nodes(t, 2, func(network *memnet.Network, ps []*node) {
		forged := batch("p0", 1)
		forged.Sig = []byte("nonsense")
		ps[0].store.Add(forged)
		ps[0].store.Add(batch("stranger", 1))
		ps[1].Meet("p0")
		synctest.Wait()
		if ps[1].count() != 0 {
			t.Errorf("given %v", ps[1].got)
		}
	})
}

func TestASilentPartnerHoldsNothingUp(t *testing.T) {
	nodes(t, 3, func(network *memnet.Network, ps []*node) {
		network.Cut("p1", "p2")
		ps[0].Offer(batch("p0", 1))
		ps[1].Meet("p2")
		ps[1].Meet("p0")
		synctest.Wait()
		if ps[1].count() != 1 {
			t.Error("p1 waits for p2")
		}
		c, err := network.Host("p2").Dial(context.Background(), "p0", digest.Protocol)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		time.Sleep(10 * time.Second) // says nothing
		var v any
		if err := wire.NewReader(c, 0).Read(&v); err == nil {
			t.Errorf("was told %v without asking", v)
		}
	})
}

func TestAPeerThatDawdlesDoesNotKeepTheOthersOut(t *testing.T) {
	nodes(t, 2, func(network *memnet.Network, ps []*node) {
		for range 50 { // streams on which nothing is said
			if _, err := network.Host("dawdler").Dial(context.Background(), "p0", digest.Protocol); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		ps[0].Offer(batch("p0", 1))
		if err := ps[1].With(context.Background(), "p0"); err != nil || ps[1].count() != 1 {
			t.Errorf("%d envelopes came, %v", ps[1].count(), err)
		}
	})
}
