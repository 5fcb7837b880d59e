package digest_test

import (
	"fmt"
	"testing"

	"github.com/coveyproject/covey/membership/digest"

	"pgregory.net/rapid"
)

// alone is a store that holds batch 1 of one incarnation of an author, and knows that this one
// counts.
func alone(author, inc string) *digest.Store {
	s := digest.NewStore(0)
	s.Current(author, inc)
	s.Add(sized(author, inc, 1, 10))
	return s
}

func TestTheIncarnationThatCountsGivesWayToNoneThatIsOver(t *testing.T) {
	s := alone("a", "now")
	for i := range 100 {
		s.Add(sized("a", fmt.Sprint(i), 1, 10))
	}
	if _, ok := s.Held("a", "now", 1); !ok {
		t.Error("what nobody else may have was pushed out by what is over")
	}
	if n := len(s.Marks()); n > 8 {
		t.Errorf("%d streams of one author are kept", n)
	}
	for _, inc := range []string{"98", "99"} {
		if _, ok := s.Held("a", inc, 1); !ok {
			t.Errorf("incarnation %s, which may be about to count, was not taken in", inc)
		}
	}
}

func TestAnIncarnationThatCountsNoLongerGivesWayAgain(t *testing.T) {
	s := alone("a", "before")
	s.Current("a", "now")
	s.Add(sized("a", "now", 1, 10))
	for i := range 8 {
		s.Add(sized("a", fmt.Sprint(i), 1, 10))
	}
	if _, ok := s.Held("a", "before", 1); ok {
		t.Error("the incarnation before is still held")
	}
	if _, ok := s.Held("a", "now", 1); !ok {
		t.Error("the incarnation that counts is not held")
	}
}

func TestAFullStoreKeepsTheIncarnationsThatCount(t *testing.T) {
	s := alone("worker", "now")
	for i := range 4200 {
		s.Add(sized(fmt.Sprint("author", i), "i", 1, 0))
	}
	if n := len(s.Marks()); n != 4096 {
		t.Errorf("%d streams are kept, want as many as fit", n)
	}
	if _, ok := s.Held("worker", "now", 1); !ok {
		t.Error("the stream that counts was pushed out")
	}
}

func TestAForgottenAuthorHasNoIncarnationThatCounts(t *testing.T) {
	s := alone("a", "now")
	s.Forget("a")
	s.Add(sized("a", "now", 1, 10))
	for i := range 8 {
		s.Add(sized("a", fmt.Sprint(i), 1, 10))
	}
	if _, ok := s.Held("a", "now", 1); ok {
		t.Error("it still counts")
	}
}

func TestAnExchangeMakesRoomOnlyForTheIncarnationThatCounts(t *testing.T) {
	s := digest.NewStore(0)
	for i := range 8 {
		s.Add(sized("a", fmt.Sprint(i), 1, 10))
	}
	theirs := []digest.Mark{
		{Stream: digest.Stream{Author: "a", Incarnation: "now"}, Contiguous: 3, Top: 3},
		{Stream: digest.Stream{Author: "a", Incarnation: "over"}, Contiguous: 3, Top: 3},
	}
	if got := s.Wants(theirs); len(got) != 0 {
		t.Errorf("before anything is known of %v, it wants %v", theirs, got)
	}
	s.Current("a", "now")
	if got := s.Wants(theirs); len(got) != 1 || got[0].Stream.Incarnation != "now" {
		t.Errorf("it wants %v", got)
	}
	s.Believe("a", []digest.Mark{{Stream: theirs[1].Stream, Floor: 2, Contiguous: 3, Top: 3}})
	if _, ok := s.Held("a", "0", 1); !ok || s.Mark("a", "over").Floor != 0 {
		t.Error("what its author has settled of an incarnation that is over pushed another out")
	}
}

// TestWhatCountsReachesEverybodyPastAllThatIsOver: an author with many incarnations, of which
// everybody holds others, and the newest, of which some heard a part while its author has all.
// Exchanges bring all of the newest to everybody, and come to rest.
func TestWhatCountsReachesEverybodyPastAllThatIsOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const batches = 4
		peers := rapid.IntRange(2, 4).Draw(t, "peers")
		stores := make([]*digest.Store, peers)
		for i := range stores {
			stores[i] = digest.NewStore(0)
			for n := range batches { // its own worker heard itself first, as long ago as can be
				if i == 0 || rapid.Bool().Draw(t, "heard") {
					stores[i].Add(sized("p0", "now", uint64(n+1), 10))
				}
			}
			if i == 0 {
				stores[i].Current("p0", "now") // its own; the others hear of it from the ledger, sooner or later
			}
			for _, inc := range rapid.SliceOfNDistinct(rapid.IntRange(10, 40), 0, 12, rapid.ID).Draw(t, "over") {
				stores[i].Add(sized("p0", fmt.Sprint(inc), 1, 10))
			}
		}
		round := func() (moved int) {
			for i := range stores {
				j := (i + 1) % peers
				atI, atJ := level(stores[i], stores[j], fmt.Sprint("p", i), fmt.Sprint("p", j))
				moved += len(atI) + len(atJ)
			}
			return moved
		}
		for range rapid.IntRange(0, 3).Draw(t, "rounds before") {
			round()
		}
		for _, s := range stores {
			s.Current("p0", "now")
		}
		round()
		round()
		for i, s := range stores {
			if m := s.Mark("p0", "now"); m.Contiguous != batches {
				t.Errorf("p%d has %d of %d batches that count", i, m.Contiguous, batches)
			}
		}
		if moved := round(); moved != 0 {
			t.Errorf("%d batches are still exchanged", moved)
		}
	})
}
