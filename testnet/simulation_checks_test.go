package testnet_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/testnet/sim"
)

// seldom is where the search begins for what few lives notice: at the first seed that does.
var seldom = map[sim.Break]uint64{sim.BreakPatient: 40, sim.BreakUnfence: 10}

// TestTheSimulationNoticesWhatIsMadeWrongOnPurpose breaks each invariant once, and expects to be
// told so within a hundred lives.
func TestTheSimulationNoticesWhatIsMadeWrongOnPurpose(t *testing.T) {
	long.Test(t)
	for broken, rules := range map[sim.Break]string{
		sim.BreakLoseAcked:     "I1",
		sim.BreakOverwrite:     "I2",
		sim.BreakUnfence:       "I3",
		sim.BreakSameTerm:      "I3",
		sim.BreakNoSync:        "I4 I2 I1",
		sim.BreakBlankJournal:  "I4",
		sim.BreakOldJournal:    "I4",
		sim.BreakPatient:       "I1",
		sim.BreakForgetWait:    "I4",
		sim.BreakNoDigest:      "I5",
		sim.BreakReplaceAtOnce: "I6",
		sim.BreakDeaf:          "I7",
		sim.BreakFill:          "I9",
		sim.BreakBlame:         "I1",
		sim.BreakNoRetry:       "I1",
		sim.BreakKeepTask:      "I7",
		sim.BreakNoAck:         "I9",
		sim.BreakOversell:      "I10",
		sim.BreakAhead:         "clients",
		sim.BreakSayYes:        "clients I1", // who asks again, or the job's end: whoever looks first
		sim.BreakAllAtOnce:     "I11",
		sim.BreakOneTooMany:    "I11",
		sim.BreakNeverMind:     "I12",
		sim.BreakLoseDrain:     "I13",
		sim.BreakOneTooFew:     "I13",
		sim.BreakTwice:         "I14",
		sim.BreakRestartFast:   "I15",
		sim.BreakRestartOften:  "I15",
		sim.BreakRunAgain:      "I4",
		sim.BreakDropSaving:    "I4",
		sim.BreakSilentSave:    "I10",
		sim.BreakEmptyWord:     "I16",
		sim.BreakNoCopies:      "I16",
		sim.BreakForgetful:     "I16",
		sim.BreakBelieve:       "I17",
		sim.BreakNoInputs:      "I17",
		sim.BreakOverfill:      "I18",
		sim.BreakEvictLeased:   "I18",
		sim.BreakTrusting:      "I19",
		sim.BreakLoose:         "I19",
		sim.BreakBelieveAll:    "I19",
		sim.BreakTellAll:       "I20",
	} {
		t.Run(string(broken), func(t *testing.T) {
			var mu sync.Mutex
			lives, caught := 0, false
			each(100, max(seldom[broken], 1), func(seed uint64) bool {
				r := sim.Run(sim.Config{Seed: seed, Break: broken})
				mu.Lock()
				defer mu.Unlock()
				lives++
				if r.Violation != nil && !caught {
					caught = slices.Contains(strings.Fields(rules), r.Violation.Rule)
					t.Logf("noticed in life %d, with seed %d: %v", lives, seed, r.Violation)
				}
				return !caught
			})
			if !caught {
				t.Errorf("not noticed in %d lives", lives)
			}
		})
	}
}

// TestTheSameSeedIsTheSameLife replays whole lives.
func TestTheSameSeedIsTheSameLife(t *testing.T) {
	long.Test(t)
	var mu sync.Mutex
	seen := map[uint64]uint64{}
	each(6, 1000, func(seed uint64) bool {
		a, b := sim.Run(sim.Config{Seed: seed}), sim.Run(sim.Config{Seed: seed})
		mu.Lock()
		defer mu.Unlock()
		if a.Hash != b.Hash || a.Stats != b.Stats {
			t.Errorf("seed %d: %x %+v, and again: %x %+v", seed, a.Hash, a.Stats, b.Hash, b.Stats)
		}
		if other, ok := seen[a.Hash]; ok {
			t.Errorf("seeds %d and %d are the same life", seed, other)
		}
		seen[a.Hash] = seed
		return true
	})
}

// TestSmallClustersLiveToo simulates one to five peers: where most people begin, and where such
// systems behave worst.
func TestSmallClustersLiveToo(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	n := 5 // each size once
	if long.Tests {
		n = 40
	}
	each(n, 1, func(seed uint64) bool {
		cfg := sim.Config{Seed: seed, Peers: 1 + int(seed%5)}
		r := sim.Run(cfg)
		mu.Lock()
		defer mu.Unlock()
		if r.Violation != nil {
			t.Errorf("with %d peers: %s", cfg.Peers, report(cfg, r))
		}
		return !t.Failed()
	})
}
