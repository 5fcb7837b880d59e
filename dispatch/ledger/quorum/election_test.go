package quorum

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAVoterLetsOneStandAtATime(t *testing.T) {
	var s permits
	now := time.Unix(1000, 0)
	steps := []struct {
		who   string
		after time.Duration
		want  bool
	}{
		{"a", 0, true},
		{"b", time.Millisecond, false},
		{"a", 2 * time.Millisecond, true}, // again: for a while from now
		{"b", 101 * time.Millisecond, false},
		{"b", 102 * time.Millisecond, true},
		{"a", 103 * time.Millisecond, false},
	}
	for _, x := range steps {
		if got := s.grant(x.who, 7, now.Add(x.after), 100*time.Millisecond); got != x.want {
			t.Errorf("%s after %v: %v", x.who, x.after, got)
		}
	}
	s.withdraw("a")
	if s.grant("a", 7, now.Add(104*time.Millisecond), time.Second) {
		t.Error("a gave back a word that was b's")
	}
	s.withdraw("b")
	if !s.grant("a", 7, now.Add(104*time.Millisecond), time.Second) {
		t.Error("b gave its word back, and a was not let")
	}
}

func TestAWordAboutAnEarlierTermBindsNobody(t *testing.T) {
	var s permits
	now := time.Unix(1000, 0)
	if !s.grant("a", 7, now, time.Second) || !s.grant("b", 8, now, time.Second) {
		t.Error("b was not let after the election that a stood in")
	}
	if s.grant("c", 7, now.Add(time.Minute), time.Second) {
		t.Error("c was let stand after a term that is past")
	}
}

// However questions and withdrawals interleave within one while, no two are let by a majority at
// the same time.
func TestNoTwoAreLetByAMajority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "voters")
		voters := make([]permits, n)
		now := time.Unix(1000, 0)
		lets := map[int]map[int]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			who, at := rapid.IntRange(0, n-1).Draw(t, "who"), rapid.IntRange(0, n-1).Draw(t, "at")
			name := string(rune('a' + who))
			if rapid.IntRange(0, 5).Draw(t, "drop") == 0 {
				for i := range voters {
					voters[i].withdraw(name)
				}
				delete(lets, who)
				continue
			}
			if voters[at].grant(name, 7, now, time.Second) {
				if lets[who] == nil {
					lets[who] = map[int]bool{}
				}
				lets[who][at] = true
			}
			majorities := 0
			for _, by := range lets {
				if 2*len(by) > n {
					majorities++
				}
			}
			if majorities > 1 {
				t.Fatalf("%v", lets)
			}
		}
	})
}
