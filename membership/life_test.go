package membership_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/taskstate"
)

func TestASilentPeerIsMissedInAboutThreeSeconds(t *testing.T) {
	for _, n := range []int{2, 3, 5, 10} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, f *cluster) {
				victim := fmt.Sprintf("p%d", n-1)
				for id := range f.peers {
					if id != victim {
						f.net.Cut(id, victim)
					}
				}
				took := f.within(6*time.Second, "the silent peer is dead for all", func() bool { return f.all(victim, membership.Dead) })
				t.Logf("dead after %s", took)
				if took < time.Second {
					t.Errorf("claimed gone after %s", took)
				}
			})
		})
	}
}

func TestASilentPeerIsSuspectBeforeItIsDead(t *testing.T) {
	bubble(t, 3, func(t *testing.T, f *cluster) {
		f.net.Cut("p0", "p2")
		f.net.Cut("p1", "p2")
		f.within(3*time.Second, "p2 is suspect", func() bool { return f.all("p2", membership.Suspect) })
		f.net.Heal()
		f.within(2*time.Second, "p2 is alive again", f.complete)
	})
}

func TestAQuietClusterAccusesNobody(t *testing.T) {
	bubble(t, 5, func(t *testing.T, f *cluster) {
		f.net.Delay(20 * time.Millisecond)
		for id, p := range f.peers {
			defer p.Observe(func(v *membership.View) {
				for _, m := range v.Members {
					if m.Verdict != membership.Alive {
						t.Errorf("%s holds %s %s", id, m.ID, m.Verdict)
					}
				}
			})()
		}
		time.Sleep(10 * time.Minute)
		if rtt := f.peers["p0"].View().Members[1].RTT; rtt < 30*time.Millisecond || rtt > 60*time.Millisecond {
			t.Errorf("round trip of 40 ms measured as %s", rtt)
		}
	})
}

func TestRefusedOnTwoSidesIsDeadAtOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, f *cluster) {
		f.kill("p2")
		for _, p := range f.peers {
			p.Probe("p2")
		}
		took := f.within(300*time.Millisecond, "p2 is dead for all", func() bool { return f.all("p2", membership.Dead) })
		t.Logf("dead after %s", took)
	})
}

func TestRefusedOnOneSideIsOnlySuspicion(t *testing.T) {
	bubble(t, 2, func(t *testing.T, f *cluster) {
		f.kill("p1")
		f.peers["p0"].Probe("p1")
		f.within(100*time.Millisecond, "p1 is suspect", func() bool { return f.all("p1", membership.Suspect) })
		time.Sleep(500 * time.Millisecond)
		if v := f.peers["p0"].View().Verdict("p1"); v != membership.Suspect {
			t.Errorf("without a second witness p1 is %s", v)
		}
		f.within(4*time.Second, "silence makes it dead", func() bool { return f.all("p1", membership.Dead) })
	})
}

func TestATimeoutIsNoEvidence(t *testing.T) {
	bubble(t, 3, func(t *testing.T, f *cluster) {
		f.net.Cut("p0", "p2")
		f.peers["p0"].Probe("p2")
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			if v := f.peers["p0"].View().Verdict("p2"); v == membership.Dead {
				t.Fatal("p2 is dead for p0, though p1 reaches it")
			}
		}
	})
}

func TestAProbeOfALivingPeerChangesNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, f *cluster) {
		before, _ := f.peers["p0"].View().Get("p2")
		f.peers["p0"].Probe("p2")
		f.peers["p0"].Probe("nobody")
		time.Sleep(5 * time.Second)
		after, _ := f.peers["p0"].View().Get("p2")
		if after.Verdict != membership.Alive || !after.Since.Equal(before.Since) {
			t.Errorf("was %v, is %v", before, after)
		}
	})
}

func TestARestartedPeerIsBackWithinASecondAtItsNewAddress(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Second, 10 * time.Second, 10 * time.Minute} {
		for _, n := range []int{2, 3, 5} {
			t.Run(fmt.Sprintf("%d peers, away %s", n, pause), func(t *testing.T) {
				bubble(t, n, func(t *testing.T, f *cluster) {
					f.kill("p1")
					f.peers["p0"].Probe("p1")
					time.Sleep(pause)
					f.net.Revive("p1")
					f.start("p1", "b") // finds the others in its book
					took := f.within(time.Second, "p1 is back for all", func() bool {
						for _, p := range f.peers {
							m, _ := p.View().Get("p1")
							if m.Verdict != membership.Alive || len(m.Addrs) != 1 || m.Addrs[0] != "/mem/p1/b" {
								return false
							}
						}
						return f.complete()
					})
					t.Logf("back after %s", took)
				})
			})
		}
	}
}

func TestAWipedPeerIsSeenWithItsNewIncarnation(t *testing.T) {
	bubble(t, 3, func(t *testing.T, f *cluster) {
		f.kill("p1")
		f.net.Revive("p1")
		p := f.start("p1", "a", func(c *membership.Config) { c.Incarnation, c.Book = "inc-new", "" })
		if err := p.Join(context.Background(), []membership.PeerAddr{{ID: "p2"}}); err != nil {
			t.Fatal(err)
		}
		f.within(time.Second, "all see the new incarnation", func() bool {
			for _, p := range f.peers {
				if m, _ := p.View().Get("p1"); m.Incarnation != "inc-new" || m.Verdict != membership.Alive {
					return false
				}
			}
			return true
		})
	})
}

func TestAGoodbyeIsDeadAtOnceAndNotForever(t *testing.T) {
	bubble(t, 3, func(t *testing.T, f *cluster) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := f.peers["p1"].Leave(ctx); err != nil {
			t.Fatal(err)
		}
		took := time.Since(start)
		f.kill("p1")
		f.within(50*time.Millisecond, "p1 is dead for all", func() bool { return f.all("p1", membership.Dead) })
		if m, _ := f.peers["p0"].View().Get("p1"); m.Since.Before(start) || took > time.Second {
			t.Errorf("goodbye took %s, dead since %s before it", took, start.Sub(m.Since))
		}
		time.Sleep(3 * time.Second)
		f.net.Revive("p1")
		f.start("p1", "a")
		f.within(time.Second, "p1 is back", f.complete)
	})
}

// Gossip passes nothing on to the dead: a goodbye that begins while one is suspect, and the last to
// be heard, finds nobody.
func TestAGoodbyeThatNobodyCanHearDelaysAnEndLittle(t *testing.T) {
	for gone := time.Duration(0); gone < 5*time.Second; gone += 250 * time.Millisecond {
		bubble(t, 3, func(t *testing.T, f *cluster) {
			f.kill("p1")
			f.kill("p2")
			time.Sleep(gone)
			start := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			err := f.peers["p0"].Leave(ctx)
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("%s after the others are gone it took %s: %v", gone, took, err)
			}
		})
	}
}

func TestALongPartitionHealsByItself(t *testing.T) {
	for _, cut := range []time.Duration{20 * time.Second, 2 * time.Minute, time.Hour} {
		t.Run(cut.String(), func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, f *cluster) {
				for _, a := range []string{"p0", "p1"} {
					for _, b := range []string{"p2", "p3", "p4"} {
						f.net.Cut(a, b)
					}
				}
				time.Sleep(cut)
				if !f.all("p0", membership.Dead, "p1") || !f.all("p4", membership.Dead, "p2", "p3") {
					t.Fatal("the sides do not hold each other dead")
				}
				f.net.Heal()
				took := f.within(30*time.Second, "everybody sees everybody", f.complete)
				t.Logf("healed after %s", took)
			})
		})
	}
}

func TestALonePeerFindsTheOthersInSeconds(t *testing.T) {
	bubble(t, 3, func(t *testing.T, f *cluster) {
		f.net.Cut("p0", "p2")
		f.net.Cut("p1", "p2")
		time.Sleep(5 * time.Minute)
		f.net.Heal()
		f.within(6*time.Second, "p2 is back", f.complete)
	})
}

func TestPeersOfTheBookThatDoNotAnswerAreDeadAfterAWhile(t *testing.T) {
	bubble(t, 3, func(t *testing.T, f *cluster) {
		f.kill("p2")
		f.kill("p1")
		f.net.Revive("p1")
		p := f.start("p1", "a")
		f.within(time.Second, "p0 is there", func() bool { return p.View().Verdict("p0") == membership.Alive })
		f.within(10*time.Second, "p2 is dead for p1", func() bool { return p.View().Verdict("p2") == membership.Dead })
		if m, _ := p.View().Get("p2"); m.Name != "name-p2" {
			t.Errorf("the book forgot its name: %+v", m)
		}
	})
}

func TestTheHighestHintWinsEverywhere(t *testing.T) {
	bubble(t, 10, func(t *testing.T, f *cluster) {
		old := membership.Hint{Epoch: taskstate.At(1, 3), Coordinator: "p1"}
		newer := membership.Hint{Epoch: taskstate.At(1, 4), Coordinator: "p2"}
		f.peers["p1"].SetHint(old)
		f.peers["p2"].SetHint(newer)
		f.peers["p3"].SetHint(old)
		took := f.within(300*time.Millisecond, "all know p2", func() bool { return f.hinted(newer) })
		t.Logf("known after %s", took)
		got := make(chan membership.Hint, 8)
		p := f.start("p99", "a")
		defer p.OnHint(func(h membership.Hint) { got <- h })()
		if err := p.Join(context.Background(), []membership.PeerAddr{{ID: "p5"}}); err != nil {
			t.Fatal(err)
		}
		if h := <-got; h != newer {
			t.Errorf("a newcomer hears %v", h)
		}
	})
}

func TestStrangersAreNotMembersUntilTheyAreAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newCluster(t, 2)
		defer f.close()
		f.joinAll()
		f.within(time.Second, "two see each other", f.complete)
		f.admit("p2", false)
		p2 := f.start("p2", "a")
		_ = p2.Join(context.Background(), []membership.PeerAddr{{ID: "p0"}, {ID: "p1"}})
		time.Sleep(20 * time.Second)
		for _, id := range []string{"p0", "p1"} {
			if v := f.peers[id].View().Verdict("p2"); v != 0 {
				t.Errorf("%s holds the stranger %s", id, v)
			}
		}
		f.admit("p2", true)
		f.peers["p0"].Recheck()
		f.peers["p1"].Recheck()
		f.within(3*time.Second, "the newcomer is a member", f.complete)

		f.admit("p2", false)
		f.peers["p0"].Recheck()
		if v := f.peers["p0"].View().Verdict("p2"); v != 0 {
			t.Errorf("a removed peer is %s", v)
		}
		f.admit("p2", true)
	})
}

func TestAChangedAddressReachesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newCluster(t, 2)
		defer f.close()
		addr := make(chan string, 1)
		addr <- "/mem/p2/one"
		f.start("p2", "", func(c *membership.Config) {
			c.Addrs = func() []string {
				a := <-addr
				addr <- a
				return []string{a}
			}
		})
		f.joinAll()
		f.within(time.Second, "everybody sees everybody", f.complete)
		<-addr
		addr <- "/mem/p2/two"
		f.within(7*time.Second, "the new address is known", func() bool {
			a, _ := f.peers["p0"].View().Get("p2")
			b, _ := f.peers["p1"].View().Get("p2")
			return a.Addrs[0] == "/mem/p2/two" && b.Addrs[0] == "/mem/p2/two"
		})
		for _, p := range f.peers["p0"].Peers() {
			if p.ID == "p2" && p.Addrs[0] != "/mem/p2/two" {
				t.Errorf("tickets would name %v", p)
			}
		}
	})
}
