package quorum_test

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/wire"
)

const day = 24 * time.Hour

// set sets the clock of a peer's machine, as a person does: no time passes.
func (fl *cluster) set(id string, off time.Duration) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if fl.clocks == nil {
		fl.clocks = map[string]time.Duration{}
	}
	fl.clocks[id] = off
}

// clock is that of a peer's machine.
func (fl *cluster) clock(id string) func() time.Time {
	return func() time.Time {
		fl.mu.Lock()
		defer fl.mu.Unlock()
		return time.Now().Add(fl.clocks[id])
	}
}

// allRead has the members say that they read this program's dialect.
func (fl *cluster) allRead(ids ...string) {
	for _, id := range ids {
		fl.insist(ledger.Command{Reads: &ledger.ReadsDialect{Peer: id, Dialect: wire.Dialect}})
	}
	fl.settle()
}

// ahead is how far the newest stamp is ahead of the right time.
func (fl *cluster) ahead() time.Duration {
	var stamp int64
	fl.leader().Replica().Read(func(s *ledger.State) { stamp = s.Stamp() })
	return time.Until(time.UnixMilli(stamp))
}

// decides proposes at whichever peer leads, and returns how far the ledger is ahead then.
func (fl *cluster) decides(n int) time.Duration {
	fl.insist(job(n))
	fl.await("the decision there", func() bool { l := fl.leader(); return l != nil && has(l, n) })
	return fl.ahead()
}

func TestACoordinatorWhoseClockIsSetForwardStampsNoMoreThanFiveMinutesAheadAndHandsLeadershipOn(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		fl.allRead("a", "b", "c")
		time.Sleep(5 * time.Second)
		wrong := fl.leader()
		fl.set(wrong.id, 2*day)
		fl.propose(wrong, job(1)) // before it can have noticed
		if ahead := fl.ahead(); ahead < 4*time.Minute || ahead > 5*time.Minute+time.Second {
			t.Errorf("the first stamp is %v ahead", ahead)
		}
		fl.await("another voter leads", func() bool { l := fl.leader(); return l != nil && l.id != wrong.id })
		fl.settle()
		time.Sleep(time.Minute)
		if l := fl.leader(); l.id == wrong.id {
			t.Error("the peer with the wrong clock leads again")
		}
		if ahead := fl.decides(2); ahead > 5*time.Minute+time.Second {
			t.Errorf("the ledger is %v ahead", ahead)
		}
	})
}

func TestAVoterThatComesToLeadWithAWrongClockStampsByTheOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		fl.allRead("a", "b", "c")
		ids := []string{"a", "b", "c"}
		for n, id := range ids { // whoever is elected after all have stopped: no voter has heard another's clock
			for _, x := range ids {
				fl.set(x, 0)
			}
			fl.set(id, 400*day)
			for _, x := range ids {
				fl.kill(x)
				fl.see(x, "1", false)
			}
			for _, x := range ids {
				fl.run(fl.start(x, "1"))
				fl.see(x, "1", true)
			}
			fl.await("a leader", func() bool { return fl.leader() != nil })
			for range 2 {
				if ahead := fl.decides(n); ahead > 5*time.Minute+time.Second {
					t.Fatalf("%s is wrong: the ledger is %v ahead", id, ahead)
				}
			}
			fl.await("a voter with a right clock leads", func() bool { l := fl.leader(); return l != nil && l.id != id })
			fl.settle()
		}
	})
}

func TestMachinesWithoutABatteryClockDoNotHoldTheLedgerUp(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		fl.allRead("a", "b", "c")
		right := fl.leader()
		for _, id := range []string{"a", "b", "c"} {
			if id != right.id {
				fl.set(id, -30*365*day)
			}
		}
		time.Sleep(time.Minute)
		fl.set(right.id, 3*day) // as if all had been off for three days
		if ahead := fl.decides(1); ahead < 3*day {
			t.Errorf("the ledger's time is %v from now", ahead)
		}
		time.Sleep(time.Minute)
		if l := fl.leader(); l != right {
			t.Errorf("%v leads, not the peer with the right clock", l)
		}
	})
}

func TestWithOneOrTwoVotersTheCoordinatorsClockIsTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(1, "a", "b")
		fl.allRead("a", "b")
		fl.set("a", 2*day)
		if ahead := fl.decides(1); ahead < 2*day {
			t.Errorf("the ledger is %v ahead", ahead)
		}
		if l := fl.leader(); l.id != "a" {
			t.Errorf("%s leads", l.id)
		}
	})
}

func TestSettingTheTimeBackHasTheCoordinatorBeginAnewAtThatTime(t *testing.T) {
	for _, voters := range []int{1, 3} {
		inBubble(t, func(t *testing.T, fl *cluster) {
			ids := []string{"a", "b", "c"}[:voters]
			fl.grow(voters, ids...)
			fl.set(fl.leader().id, 400*day)
			fl.decides(1) // before the cluster speaks of clocks, nothing bounds them
			fl.allRead(ids...)
			fl.set(fl.leader().id, 0)
			if ahead := fl.decides(2); ahead < 400*day {
				t.Fatalf("the ledger is %v ahead", ahead)
			}
			terms := fl.leader().terms()
			fl.insist(ledger.Command{SetTime: &ledger.SetTime{To: time.Now().UnixMilli()}})
			fl.await("the coordinator begins anew", func() bool { l := fl.leader(); return l != nil && l.terms() > terms })
			if ahead := fl.decides(3); ahead.Abs() > time.Second {
				t.Errorf("%d voters: the ledger is %v ahead", voters, ahead)
			}
			time.Sleep(time.Minute)
			if ahead := fl.decides(4); ahead.Abs() > time.Second {
				t.Errorf("%d voters: the ledger is %v ahead a minute later", voters, ahead)
			}
			fl.settle()
		})
	}
}
