package testnet_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/testnet/stack"
)

// TestTheWholeStacksChecksNoticeWhatIsMadeWrongOnPurpose breaks one thing at a time, and expects to
// be told so within a few lives.
func TestTheWholeStacksChecksNoticeWhatIsMadeWrongOnPurpose(t *testing.T) {
	long.Test(t)
	for broken, rules := range map[stack.Break]string{
		stack.BreakDropAcked: "I1 clients",
		stack.BreakAhead:     "clients",
		stack.BreakSayYes:    "clients",
		stack.BreakBackwards: "I2",
		stack.BreakTwice:     "I4",
		stack.BreakOversell:  "I10",
		stack.BreakDeaf:      "I1",
		stack.BreakAllDisks:  "I1 clients",
		stack.BreakOldFolder: "I4",
		stack.BreakStaleSeat: "I1 I3 I4 clients",
		stack.BreakTwoOfOne:  "I4",
		stack.BreakFill:      "I9",
		stack.BreakBelieve:   "I8",
		stack.BreakPuppet:    "I8",
		stack.BreakNoWake:    "I1",
		stack.BreakStillCut:  "I5",
		stack.BreakLoseFiles: "I16",
		stack.BreakChanged:   "I19",
		stack.BreakLoose:     "I19",
		stack.BreakForged:    "I19",
		stack.BreakReplayed:  "I19",
		stack.BreakRunAgain:  "I4",
		stack.BreakGullible:  "I19",
	} {
		t.Run(string(broken), func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 10; seed++ {
				r := liveStack(t, stack.Config{Seed: seed, Break: broken})
				if r.Violation == nil {
					continue
				}
				if !slices.Contains(strings.Fields(rules), r.Violation.Rule) {
					t.Errorf("expected %s, not %v", rules, r.Violation)
				}
				t.Logf("noticed with seed %d: %s: %.200s", seed, r.Violation.Rule, r.Violation.What)
				return
			}
			t.Error("not noticed in ten lives")
		})
	}
}
