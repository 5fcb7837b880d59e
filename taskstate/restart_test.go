package taskstate_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

const start = int64(1_800_000_000_000) // some day in 2027, in milliseconds

func onFailure(attempts int, delay, window int64) *taskstate.Restart {
	return &taskstate.Restart{Condition: taskstate.RestartOnFailure, Attempts: attempts, Delay: delay, Window: window}
}

// waits is the delay after each of n ends in a row.
func waits(r *taskstate.Restart, n int, ran int64) (out []int64) {
	var h taskstate.History
	now := start
	for range n {
		v := r.Next(h, taskstate.Failed, ran, now)
		if !v.Again {
			return append(out, -1)
		}
		out, h, now = append(out, v.NotBefore-now), v.History, v.NotBefore+max(ran, 0)
	}
	return out
}

func TestWhatFailsAtOnceWaitsTwiceAsLongEachTimeUpToAMinute(t *testing.T) {
	for _, c := range []struct {
		delay, ran int64
		want       []int64
	}{
		{0, 5, []int64{0, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000}},
		{0, 9_999, []int64{0, 1000, 2000, 4000}},
		{0, -7, []int64{0, 1000, 2000}},
		{0, 10_000, []int64{0, 0, 0}},
		{1000, 0, []int64{1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000}},
		{1000, 10_000, []int64{1000, 1000, 1000}},
		{90_000, 0, []int64{90_000, 90_000, 90_000}},
		{-5, 0, []int64{0, 1000}},
	} {
		if got := waits(onFailure(0, c.delay, 0), len(c.want), c.ran); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("delay %d, running for %d: waits %v, want %v", c.delay, c.ran, got, c.want)
		}
	}
}

func TestAGoodRunEndsTheBackoff(t *testing.T) {
	r := onFailure(0, 0, 0)
	var h taskstate.History
	for range 5 {
		h = r.Next(h, taskstate.Failed, 1, start).History
	}
	v := r.Next(h, taskstate.Failed, taskstate.QuickEnd.Milliseconds(), start)
	if v.NotBefore != start || v.History.Quick != 0 || v.History.Restarts != 6 {
		t.Fatalf("after a run of ten seconds: %+v", v)
	}
}

func TestWhichEndsAreAnswered(t *testing.T) {
	answered := map[taskstate.RestartCondition]string{
		"": "", taskstate.RestartNone: "", "someday": "", taskstate.RestartOnFailure: "failed rejected ", taskstate.RestartAny: "complete failed rejected orphaned ",
	}
	for condition, want := range answered {
		got := ""
		for _, end := range taskstate.States() {
			v := (&taskstate.Restart{Condition: condition}).Next(taskstate.History{Quick: 1}, end, 0, start)
			if v.Again {
				got += end.String() + " "
			} else if v.Spent || v.NotBefore != 0 || v.History != (taskstate.History{Quick: 1}) {
				t.Errorf("%q after %v: %+v", condition, end, v)
			}
		}
		if got != want {
			t.Errorf("%q answers %q, want %q", condition, got, want)
		}
	}
	var none *taskstate.Restart
	if v := none.Next(taskstate.History{}, taskstate.Failed, 0, start); v != (taskstate.RestartDecision{}) {
		t.Errorf("no policy: %+v", v)
	}
}

func TestAttemptsForEverAreUsedUpOnce(t *testing.T) {
	if got := fmt.Sprint(waits(onFailure(3, 0, 0), 5, 0)); got != "[0 1000 2000 -1]" {
		t.Errorf("got %s", got)
	}
	r := onFailure(3, 0, 0)
	v := r.Next(taskstate.History{Restarts: 3}, taskstate.Failed, 0, start)
	if v.Again || !v.Spent || v.History.Restarts != 3 {
		t.Errorf("used up: %+v", v)
	}
	if v := r.Next(taskstate.History{Restarts: 3}, taskstate.Complete, 0, start); v.Spent {
		t.Errorf("a success asks for nothing: %+v", v)
	}
}

func TestAttemptsComeBackWhenTheWindowHasPassed(t *testing.T) {
	r := onFailure(2, 0, 60_000)
	first := r.Next(taskstate.History{}, taskstate.Failed, 20_000, start)
	second := r.Next(first.History, taskstate.Failed, 20_000, start+20_000)
	if v := r.Next(second.History, taskstate.Failed, 20_000, start+59_999); v.Again || !v.Spent {
		t.Fatalf("a third within the minute: %+v", v)
	}
	third := r.Next(second.History, taskstate.Failed, 20_000, start+60_000)
	if !third.Again {
		t.Fatalf("the first is a minute old: %+v", third)
	}
	if v := r.Next(third.History, taskstate.Failed, 20_000, start+61_000); v.Again {
		t.Fatalf("the second is not: %+v", v)
	}
}

// drawPolicy draws any policy, sensible or not.
func drawPolicy(t *rapid.T) *taskstate.Restart {
	return &taskstate.Restart{
		Condition: rapid.SampledFrom([]taskstate.RestartCondition{"none", "on-failure", "any", ""}).Draw(t, "condition"),
		Attempts:  rapid.IntRange(-1, 6).Draw(t, "attempts"),
		Delay:     rapid.Int64Range(-1, 100_000).Draw(t, "delay"),
		Window:    rapid.SampledFrom([]int64{0, 1, 5_000, 60_000, 3_600_000}).Draw(t, "window"),
	}
}

func TestThePolicyIsNeverOverstepped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawPolicy(t)
		var h taskstate.History
		var granted []int64
		now := start
		for range rapid.IntRange(1, 40).Draw(t, "ends") {
			now += rapid.Int64Range(0, 30_000).Draw(t, "later")
			end := rapid.SampledFrom(taskstate.States()).Draw(t, "end")
			v := r.Next(h, end, rapid.Int64Range(-1, 20_000).Draw(t, "ran"), now)
			h = v.History
			switch {
			case v.Again && v.Spent:
				t.Fatalf("both: %+v", v)
			case !v.Again:
				continue
			case r.Condition != taskstate.RestartAny && (r.Condition != taskstate.RestartOnFailure || end == taskstate.Complete):
				t.Fatalf("%+v restarts after %v", r, end)
			case v.NotBefore < now+r.Delay || v.NotBefore > now+max(r.Delay, taskstate.MaxBackoff.Milliseconds()):
				t.Fatalf("%+v at %d: not before %d", r, now, v.NotBefore)
			}
			granted = append(granted, now)
			within := 0
			for _, at := range granted {
				if r.Window <= 0 || now-at < r.Window {
					within++
				}
			}
			if r.Attempts > 0 && within > r.Attempts {
				t.Fatalf("%d restarts within %d ms, allowed are %d", within, r.Window, r.Attempts)
			}
			if h.Restarts != len(granted) {
				t.Fatalf("%d granted, it remembers %d", len(granted), h.Restarts)
			}
		}
		if err := h.Check(); err != nil {
			t.Fatal(err)
		}
		b, err := wire.Marshal(h)
		var back taskstate.History
		if err != nil || wire.Unmarshal(b, &back) != nil || back != h {
			t.Fatalf("%+v came back as %+v: %v", h, back, err)
		}
	})
}

func TestASpentSlotIsSpentOnlyAsLongAsItsAttemptsAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := onFailure(rapid.IntRange(1, 5).Draw(t, "attempts"), 0, 60_000)
		var h taskstate.History
		now := start
		for {
			v := r.Next(h, taskstate.Failed, 0, now)
			h = v.History
			if v.Spent {
				break
			}
			now += rapid.Int64Range(0, 5_000).Draw(t, "later")
		}
		if v := r.Next(h, taskstate.Failed, 0, now+60_000); !v.Again {
			t.Fatalf("a whole window later: %+v", v)
		}
		if v := r.Next(taskstate.History{}, taskstate.Failed, 0, now); !v.Again || v.NotBefore != now {
			t.Fatalf("a cleared history starts over: %+v", v)
		}
	})
}

func TestAnythingAtAllIsDecided(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &taskstate.Restart{Condition: taskstate.RestartAny, Attempts: rapid.Int().Draw(t, "attempts"), Delay: rapid.Int64().Draw(t, "delay"), Window: rapid.Int64().Draw(t, "window")}
		h := taskstate.History{
			Restarts: rapid.Int().Draw(t, "restarts"), Quick: rapid.IntRange(0, math.MaxInt32).Draw(t, "quick"),
			Recent: taskstate.Stamps(rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9a-z]{1,13}(,[0-9a-z]{1,13}){0,5}`)).Draw(t, "recent")),
		}
		now := rapid.Int64().Draw(t, "now")
		v := r.Next(h, taskstate.Failed, rapid.Int64().Draw(t, "ran"), now)
		if v.Again == v.Spent || v.NotBefore < 0 {
			t.Fatalf("%+v", v)
		}
		if v.Again && len(v.History.Recent) > 16*taskstate.MaxRestartAttempts {
			t.Fatalf("it remembers %d bytes", len(v.History.Recent))
		}
	})
}

func TestAHistoryIsBoundedByTheAttemptsItAllows(t *testing.T) {
	r := onFailure(taskstate.MaxRestartAttempts, 0, math.MaxInt64)
	var h taskstate.History
	for i := range taskstate.MaxRestartAttempts + 10 {
		h = r.Next(h, taskstate.Failed, 0, start+int64(i)*60_000).History
	}
	if h.Restarts != taskstate.MaxRestartAttempts || h.Check() != nil || len(h.Recent) > 6*taskstate.MaxRestartAttempts {
		t.Fatalf("%d restarts in %d bytes, %v", h.Restarts, len(h.Recent), h.Check())
	}
}

func TestAHistoryFromOutsideIsChecked(t *testing.T) {
	for what, h := range map[string]taskstate.History{
		"letters": {Recent: "x,!"}, "empty parts": {Recent: "5,,6"}, "going back": {Recent: "5,-1"}, "too far": {Recent: "zzzzzzzzzzzz"},
		"another spelling": {Recent: "05"}, "a sign": {Recent: "+5"}, "restarts below zero": {Restarts: -1}, "quick below zero": {Quick: -1},
	} {
		if h.Check() == nil {
			t.Errorf("%s: %+v passes", what, h)
		}
	}
	if err := (taskstate.History{Restarts: 2, Quick: 1, Recent: "5,0,zz"}).Check(); err != nil {
		t.Error(err)
	}
}

func TestOnlyWhatLastsIsRestartedUnlessTheJobSaysSo(t *testing.T) {
	if r := taskstate.DefaultRestart(taskstate.BatchJob); r != nil {
		t.Errorf("batch: %+v", r)
	}
	for _, ty := range []taskstate.JobType{taskstate.ServiceJob, taskstate.GlobalJob} {
		if r := taskstate.DefaultRestart(ty); *r != (taskstate.Restart{Condition: taskstate.RestartAny, Delay: 1000}) {
			t.Errorf("%s: %+v", ty, r)
		}
	}
}
