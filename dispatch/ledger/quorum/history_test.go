package quorum_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/internal/long"
)

// client is one caller that submits jobs of its own, one after the other, wherever somebody
// coordinates, and remembers which were acknowledged and at which index.
type client struct {
	acked map[int]uint64
	tries int
}

func (c *client) run(ctx context.Context, from int, leader func() *testNode) {
	for i := from; ctx.Err() == nil; i++ {
		for ctx.Err() == nil {
			l := leader()
			if l == nil {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			c.tries++
			index, res, err := l.Propose(ctx, []ledger.Command{job(i)})
			if err == nil && len(res) == 1 && res[0].Refused == "" {
				c.acked[i] = index
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Eight callers propose at once while coordinators are killed, cut off and restarted. Whatever was
// acknowledged is in every copy afterwards, a repetition included; and all copies are equal to the
// byte.
func TestNoAcknowledgedDecisionIsLostWhateverHappensToCoordinators(t *testing.T) {
	seeds := uint64(2)
	if long.Tests {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, fl *cluster) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				fl.grow(3, "a", "b", "c", "d")
				ctx, cancel := context.WithCancel(context.Background())
				var wg sync.WaitGroup
				clients := make([]client, 8)
				for i := range clients {
					clients[i].acked = map[int]uint64{}
					wg.Go(func() { clients[i].run(ctx, (i+1)*100_000, fl.leader) })
				}
				for range 6 {
					time.Sleep(time.Duration(100+rnd.IntN(400)) * time.Millisecond)
					l := fl.leader()
					if l == nil {
						continue
					}
					switch rnd.IntN(3) {
					case 0: // a crash
						fl.kill(l.id)
						time.Sleep(time.Duration(rnd.IntN(2000)) * time.Millisecond)
						fl.run(fl.start(l.id, "1"))
					case 1: // a cable
						for _, id := range []string{"a", "b", "c", "d"} {
							if id != l.id {
								fl.net.Cut(l.id, id)
							}
						}
						time.Sleep(time.Duration(500+rnd.IntN(5000)) * time.Millisecond)
						fl.net.Heal()
					case 2: // on purpose
						hctx, done := context.WithTimeout(ctx, 5*time.Second)
						_ = l.Handover(hctx)
						done()
					}
				}
				time.Sleep(2 * time.Second)
				cancel()
				wg.Wait()
				synctest.Wait() // what a caller no longer waited for is decided, too
				fl.settle()
				acked := 0
				for _, c := range clients {
					for i := range c.acked {
						acked++
						for id, b := range fl.nodes {
							if !has(b, i) {
								t.Errorf("%s lost job %d, acknowledged at index %d", id, i, c.acked[i])
							}
						}
					}
				}
				want, err := fl.nodes["d"].Replica().Encode()
				if err != nil {
					t.Fatal(err)
				}
				for id, b := range fl.nodes {
					if got, _ := b.Replica().Encode(); !bytes.Equal(got, want) {
						t.Errorf("the copies of %s and d differ", id)
					}
				}
				t.Log(acked, "acknowledged, terms up to", fl.leader().now)
			})
		})
	}
}

func TestConcurrentCallersShareEntriesAndGetTheirOwnResults(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		a := fl.found("a")
		before := a.Replica().Applied()
		thaw := fl.disk("a").hang()
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				cmds := []ledger.Command{job(i / 2), {Revoke: &ledger.Revoke{ID: "nothing"}}}
				_, res, err := a.Propose(t.Context(), cmds)
				if err != nil || len(res) != 2 || res[0].Refused != "" || res[1].Refused != ledger.CodeUnknown {
					t.Errorf("call %d: %v %v", i, res, err)
				}
			})
		}
		synctest.Wait()
		thaw()
		wg.Wait()
		if n := a.Replica().Applied() - before; n > 10 {
			t.Errorf("200 calls made %d entries", n)
		}
	})
}

func TestAVoterThatJoinsAfterTheLogWasCutGetsASnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		a := fl.found("a", "b", "c")
		for i := range 1500 {
			fl.propose(a, job(i))
		}
		if err := a.SnapshotNow(); err != nil {
			t.Fatal(err)
		}
		if first, err := a.FirstLogIndex(); err != nil || first < 100 {
			t.Fatalf("the log begins at %d: %v", first, err)
		}
		for _, id := range []string{"b", "c"} {
			fl.run(fl.start(id, "1", "a"))
			fl.see(id, "1", true)
		}
		fl.await("three voters", func() bool { return len(fl.voting()) == 3 })
		fl.kill("a")
		fl.insist(job(5000))
		l := fl.leader()
		if !has(l, 1499) {
			t.Error("the new coordinator lacks what was in the snapshot")
		}
		fl.run(fl.start("a", "1"))
		fl.settle()
	})
}

func TestATooLargeProposalIsRefusedAndHarmsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		a := fl.found("a")
		c := job(1)
		c.Submit.Job.Each = []string{string(bytes.Repeat([]byte("x"), 9<<20))}
		if _, _, err := a.Propose(t.Context(), []ledger.Command{c}); !errors.Is(err, quorum.ErrTooLarge) {
			t.Errorf("nine MiB: %v", err)
		}
		fl.propose(a, job(2))
	})
}

func TestAFolderIsFoundedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		a := fl.found("a")
		if err := a.Found(t.Context(), founding("a")); err == nil {
			t.Error("founded twice")
		}
		fl.stop("a")
		b := fl.start("a", "1")
		if err := b.Found(t.Context(), founding("a")); err == nil {
			t.Error("founded again after a restart")
		}
	})
}
