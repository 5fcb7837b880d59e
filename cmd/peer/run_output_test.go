package main

import (
	"slices"
	"testing"

	"github.com/coveyproject/covey/node/api"

	"pgregory.net/rapid"
)

// Whatever the order in which tasks end, with failures that are tried again in between, each slot
// is shown once, in order, and with the end that counts.
func TestOutputInOrderShowsEachSlotOnceWithItsLastEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "slots")
		again := rapid.Bool().Draw(t, "restarts")
		var slots []int
		for s := range n {
			slots = append(slots, s+1)
		}
		attempts, last := map[int]int{}, map[int]int{}
		o := newOutputOrder(true)
		var shown []api.Task
		for _, slot := range rapid.Permutation(slots).Draw(t, "order") {
			failures := 0
			if again {
				failures = rapid.IntRange(0, 2).Draw(t, "failures")
			}
			for range failures {
				attempts[slot]++
				shown = append(shown, o.ended(api.Task{Slot: slot, Attempt: attempts[slot], State: "failed"}, again)...)
			}
			attempts[slot]++
			state := "complete"
			if rapid.IntRange(0, 4).Draw(t, "for good") == 0 {
				state = "failed"
			}
			last[slot] = attempts[slot]
			shown = append(shown, o.ended(api.Task{Slot: slot, Attempt: attempts[slot], State: state}, again)...)
		}
		shown = append(shown, o.rest()...)
		var got []int
		for _, s := range shown {
			got = append(got, s.Slot)
			if s.Attempt != last[s.Slot] {
				t.Fatalf("slot %d is shown with attempt %d of %d", s.Slot, s.Attempt, last[s.Slot])
			}
		}
		if !slices.Equal(got, slots) {
			t.Fatalf("shown %v", got)
		}
	})
}

func TestWithoutOrderOutputIsShownAsItComes(t *testing.T) {
	o := newOutputOrder(false)
	for _, slot := range []int{3, 1, 2} {
		if got := o.ended(api.Task{Slot: slot, State: "failed"}, true); len(got) != 1 || got[0].Slot != slot {
			t.Errorf("%v", got)
		}
	}
	if len(o.rest()) != 0 {
		t.Error("something was kept back")
	}
}
