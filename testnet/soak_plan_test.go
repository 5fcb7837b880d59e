package testnet

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTheSameSeedDrawsTheSamePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		if !reflect.DeepEqual(soakPlan(seed, 5, time.Minute), soakPlan(seed, 5, time.Minute)) {
			t.Fatal("two plans of one seed differ")
		}
	})
}

func TestAPlanFillsItsTimeWithBoundedHurts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := time.Duration(rapid.IntRange(1, 600).Draw(t, "seconds")) * time.Second
		total := time.Duration(0)
		for _, a := range soakPlan(rapid.Uint64().Draw(t, "seed"), 5, length) {
			if total >= length {
				t.Fatal("an act begins after the end")
			}
			total += a.length()
			for _, h := range a.Hurts {
				if h.Hold > soakHold {
					t.Fatalf("%s lasts too long", h)
				}
			}
		}
		if total < length {
			t.Fatalf("the plan ends after %s of %s", total, length)
		}
	})
}

func TestVictimsAreDistinctAndIncludeTheCoordinatorExactlyIfSaid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		boss := rapid.IntRange(0, 5).Draw(t, "boss")
		for _, a := range soakPlan(rapid.Uint64().Draw(t, "seed"), 5, time.Minute) {
			for _, h := range a.Hurts {
				v := h.victims(boss)
				if len(slices.Compact(slices.Clone(v))) != len(v) || len(v) == 0 || len(v) > 5 {
					t.Fatalf("victims %v of %s", v, h)
				}
				if boss > 0 && slices.Contains(v, boss) != h.Boss {
					t.Fatalf("victims %v of %s, coordinator %d", v, h, boss)
				}
			}
		}
	})
}

func TestEveryKindOfHurtIsDrawn(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range soakPlan(1, 5, 2*time.Hour) {
		for _, h := range a.Hurts {
			h.Hold = 0
			seen[h.String()] = true
		}
	}
	if len(seen) != len(hurtKinds) {
		t.Fatalf("drawn in two hours: %v", seen)
	}
}
