package starts

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestEachStartNamesTheOneBeforeIt(t *testing.T) {
	var s Start
	for range 1000 {
		next := s.Next()
		if next.IsZero() || next.Before != s.Number || next.Number == s.Number {
			t.Fatalf("%+v follows %+v", next, s)
		}
		s = next
	}
}

// However the connections to some processes are asked in turn, as many processes are found as there
// are: also when they go by one number, and when others ask them, too.
func TestAsManyProcessesAreFoundAsAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := Start{}.Next()
		shared := new(History)
		for range rapid.IntRange(0, 100).Draw(t, "before the machine was stopped and copied") {
			shared.Answer(rand.Uint64())
		}
		n := rapid.IntRange(1, 4).Draw(t, "processes")
		histories := make([]*History, n)
		numbers := make([]Start, n)
		for i := range histories {
			histories[i] = &History{recent: slices.Clone(shared.recent)}
			numbers[i] = start
			if rapid.Bool().Draw(t, "started anew") {
				numbers[i] = start.Next()
			}
		}
		var answers []Answer
		asked := map[int]bool{}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, n-1), 1, 12).Draw(t, "connections") {
			for range rapid.IntRange(0, 3).Draw(t, "asked by others meanwhile") {
				histories[i].Answer(rand.Uint64())
			}
			nonce := rand.Uint64()
			answers = append(answers, Answer{Nonce: nonce, Proof: Proof{Start: numbers[i], Recent: histories[i].Answer(nonce)}})
			asked[i] = true
		}
		if got := Processes(answers); len(got) != len(asked) {
			t.Fatalf("%d processes answered, %d are found", len(asked), len(got))
		}
	})
}
