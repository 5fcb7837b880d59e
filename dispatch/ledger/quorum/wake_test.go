package quorum

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestWhoRestsIsWokenByWhateverBeginsToMove(t *testing.T) {
	for range 2000 {
		synctest.Test(t, func(*testing.T) { // a wake that is lost is a deadlock here
			s := stir{wake: make(chan struct{}, 1)}
			var busy atomic.Bool
			go func() {
				busy.Store(true)
				s.moved()
			}()
			if s.rest(busy.Load) {
				<-s.wake
			}
			if !busy.Load() {
				t.Fatal("woken, and nothing moves")
			}
		})
	}
}

func TestWhatMovesWakesNobodyWhoIsAwake(t *testing.T) {
	s := stir{wake: make(chan struct{}, 1)}
	s.moved()
	if s.rest(func() bool { return true }) {
		t.Error("rests although something moves")
	}
	s.moved()
	if len(s.wake) > 0 {
		t.Error("somebody was woken who did not sleep")
	}
	if !s.rest(func() bool { return false }) {
		t.Error("does not rest although nothing moves")
	}
	s.moved()
	s.moved()
	if len(s.wake) != 1 {
		t.Error("nobody was woken")
	}
	var nobody *stir
	nobody.moved()
}
