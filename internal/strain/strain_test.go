package strain

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestAWaitGrowsWithHowLateTimersAreAndHasABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "d"))
		late := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "late"))
		more := time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "more"))
		got := grown(d, late)
		if got < d || got > Most*d || late <= usual && got != d || grown(d, late+more) < got {
			t.Fatalf("%v with timers %v late is %v, with %v it is %v", d, late, got, late+more, grown(d, late+more))
		}
	})
}

func TestAWaitOfAProcessThatHasTimeIsAsLongAsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := Timeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		child, end := context.WithCancel(ctx)
		defer end()
		<-child.Done()
		if took := time.Since(began); took != 300*time.Millisecond || !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(child.Err(), context.DeadlineExceeded) {
			t.Errorf("it ends after %v with %v, its child with %v", took, ctx.Err(), child.Err())
		}
		if at, ok := ctx.Deadline(); !ok || at.Sub(began) != Most*300*time.Millisecond {
			t.Errorf("its deadline is %v after the start", at.Sub(began))
		}
	})
}

func TestAWaitLastsLongerWhenATimerWasLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := Timeout(t.Context(), time.Second)
		defer cancel()
		c := ctx.(*waiting)
		c.mu.Lock()
		c.due = c.due.Add(-60 * time.Millisecond)
		c.mu.Unlock()
		<-ctx.Done()
		if took := time.Since(began); took != time.Second+wakes*60*time.Millisecond {
			t.Errorf("it ends after %v", took)
		}
		if !Recent() {
			t.Error("a timer that was 60 ms late is not noticed")
		}
		time.Sleep(recentAge)
		if Recent() {
			t.Error("it is noticed for ever")
		}
	})
}

func TestAWaitEndsWithItsCallerAndWithWhoItIsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := Timeout(t.Context(), time.Second)
		cancel()
		if <-ctx.Done(); !errors.Is(ctx.Err(), context.Canceled) {
			t.Error(ctx.Err())
		}
		parent, end := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer end()
		began := time.Now()
		ctx, cancel = Timeout(parent, time.Second)
		defer cancel()
		if at, _ := ctx.Deadline(); at.Sub(began) != 100*time.Millisecond {
			t.Errorf("its deadline is %v after the start", at.Sub(began))
		}
		if <-ctx.Done(); time.Since(began) != 100*time.Millisecond || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("%v after %v", ctx.Err(), time.Since(began))
		}
	})
}
