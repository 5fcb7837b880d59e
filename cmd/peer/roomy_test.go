package main

import (
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestAPeerCollectsLessGarbageInItsFirstMomentsOnly(t *testing.T) {
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	t.Setenv("GOGC", "")
	synctest.Test(t, func(t *testing.T) {
		was := percent()
		end := roomy()
		if now := percent(); now <= was {
			t.Errorf("at first it collects at %d %%", now)
		}
		time.Sleep(roomyTime + time.Second)
		if now := percent(); now != was {
			t.Errorf("afterwards it collects at %d %%, not %d", now, was)
		}
		end()
	})
	t.Setenv("GOGC", "50")
	was := percent()
	if roomy(); percent() != was {
		t.Error("what GOGC says does not count")
	}
}
