package quorum

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestWhoRestsIsWokenByWhateverBeginsToMove(t *testing.T) {
	for range 2000 {
		synctest.Test(t, func(*testing.T) { // a wake that is lost is a deadlock here
			s := parker{wake: make(chan struct{}, 1)}
			var busy atomic.Bool
			go func() {
				busy.Store(true)
				s.unpark()
			}()
			if s.park(busy.Load) {
				<-s.wake
			}
			if !busy.Load() {
				t.Fatal("woken, and nothing moves")
			}
		})
	}
}

func TestWhatMovesWakesNobodyWhoIsAwake(t *testing.T) {
	s := parker{wake: make(chan struct{}, 1)}
	s.unpark()
	if s.park(func() bool { return true }) {
		t.Error("rests although something moves")
	}
	s.unpark()
	if len(s.wake) > 0 {
		t.Error("somebody was woken who did not sleep")
	}
	if !s.park(func() bool { return false }) {
		t.Error("does not rest although nothing moves")
	}
	s.unpark()
	s.unpark()
	if len(s.wake) != 1 {
		t.Error("nobody was woken")
	}
	var nobody *parker
	nobody.unpark()
}
