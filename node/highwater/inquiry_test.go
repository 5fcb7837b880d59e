package highwater

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"
)

func TestTheQuestionAboutAWorkerIsAskedAsItsVersionHasIt(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: Protocol, Frames: map[string]any{"ask": &ask{}, "word": &Remembered{}}})
}

// Whatever a majority remembers is found, in whichever order the others answer, or do not.
func TestWhatAMajorityRemembersIsFoundByAnyMajority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1000, 0)
		seats := rapid.IntRange(1, 7).Draw(t, "seats")
		words := make([]uint64, seats) // the first is the coordinator's
		for i := range words {
			words[i] = rapid.Uint64Range(0, 9).Draw(t, "number")
		}
		seated, others := 0, indices(seats)
		if len(others) > 0 && rapid.Bool().Draw(t, "the worker's peer holds a seat") {
			seated, others = 1, others[1:]
		}
		q := Inquire(SessionRequest{Registered: true, Last: 9, Seated: seated == 1}, Remembered{Number: words[0]}, seats, now)
		told, best := 1, words[0]
		order := rapid.Permutation(others).Draw(t, "order")
		for _, i := range order {
			next := q.Next(now)
			if next.IsZero() {
				break
			}
			if rapid.IntRange(0, 3).Draw(t, "time passes") == 0 {
				if now = next; q.Next(now).IsZero() {
					break
				}
			}
			if rapid.IntRange(0, 2).Draw(t, "silent") == 0 {
				q.Silent()
				continue
			}
			q.Told(Remembered{Number: words[i]})
			told, best = told+1, max(best, words[i])
		}
		for next := q.Next(now); !next.IsZero(); next = q.Next(now) {
			if !next.After(now) || next.Sub(now) > patience {
				t.Fatalf("at %v it waits until %v", now, next)
			}
			now = next
		}
		got, ok := q.Outcome()
		if ok != (told+seated > seats/2) || got.Number != best {
			t.Fatalf("%d of %d told at most %d: %v, %t", told, seats, best, got, ok)
		}
		remember := 0
		for i, n := range words {
			if n >= 7 && (seated == 0 || i != 1) {
				remember++
			}
		}
		if told > seats/2 && remember > seats/2 && got.Number < 7 {
			t.Fatalf("%v, of which a majority remembers 7 or more: %v", words, got)
		}
	})
}

// indices are those of all but the first.
func indices(n int) (all []int) {
	for i := 1; i < n; i++ {
		all = append(all, i)
	}
	return all
}

func TestNobodyIsAskedAboutAWorkerOfWhichNobodyCanSayMore(t *testing.T) {
	for name, c := range map[string]SessionRequest{
		"the ledger does not know it":           {Last: 3},
		"it goes on with a session":             {Registered: true, Resumes: true, Last: 3},
		"it knows less than is remembered here": {Registered: true, Last: 2},
	} {
		q := Inquire(c, Remembered{Number: 3}, 5, time.Unix(0, 0))
		if got, ok := q.Outcome(); q.Asks() || !q.Next(time.Unix(0, 0)).IsZero() || !ok || got.Number != 3 {
			t.Errorf("%s: asks %t, %v, %t", name, q.Asks(), got, ok)
		}
	}
}

// board is voters over a network in memory, each with a number that it remembers.
func board(t *testing.T, numbers ...uint64) (*memnet.Network, []*Asker) {
	t.Helper()
	names := []string{"a", "b", "c", "d", "e"}[:len(numbers)]
	net, all := memnet.New(), []*Asker(nil)
	for i, name := range names {
		h := net.Host(name)
		a := NewAsker(AskerConfig{Self: name, Dial: h.Dial, Seats: func() []taskstate.PeerID { return names }, Known: func(_ taskstate.PeerID, inc taskstate.Incarnation) Remembered {
			if inc != "life" {
				return Remembered{}
			}
			return Remembered{Number: numbers[i], Sum: []byte(name)}
		}})
		h.Handle(Protocol, a.Serve)
		all = append(all, a)
	}
	t.Cleanup(func() { net.Close() })
	return net, all
}

var comesBack = SessionRequest{Registered: true, Last: 3}

func TestACoordinatorThatWasAwayLearnsWhatTheOthersRemember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, all := board(t, 3, 7, 5)
		began := time.Now()
		w, err := all[0].Of(t.Context(), "worker", "life", comesBack)
		if err != nil || w.Number != 7 || string(w.Sum) != "b" || time.Since(began) > 0 {
			t.Errorf("%+v, %v after %v", w, err, time.Since(began))
		}
	})
}

func TestOneDeadVoterKeepsNoWorkerWaitingForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, all := board(t, 3, 7, 5)
		net.Cut("a", "b")
		began := time.Now()
		w, err := all[0].Of(t.Context(), "worker", "life", comesBack)
		if err != nil || w.Number != 5 || time.Since(began) > soon {
			t.Errorf("%+v, %v after %v", w, err, time.Since(began))
		}
	})
}

// A voter that comes back while another one is away is welcomed by the third: with its own vote
// they are a majority, and there is nobody else to ask.
func TestTheWorkersOwnSeatIsNotAskedAndNoneWaitsForItsWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, all := board(t, 3, 7, 5)
		if w, err := all[0].Of(t.Context(), "b", "life", comesBack); err != nil || w.Number != 5 {
			t.Errorf("%+v, %v", w, err)
		}
		net.Cut("a", "c")
		began := time.Now()
		if w, err := all[0].Of(t.Context(), "b", "life", comesBack); err != nil || w.Number != 3 || time.Since(began) > patience {
			t.Errorf("%+v, %v after %v", w, err, time.Since(began))
		}
	})
}

func TestAWorkerIsNotWelcomedOnTheWordOfAMinority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, all := board(t, 3, 7, 5)
		net.Cut("a", "b")
		net.Cut("a", "c")
		began := time.Now()
		if w, err := all[0].Of(t.Context(), "worker", "life", comesBack); err == nil || time.Since(began) > patience {
			t.Errorf("%+v after %v", w, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		began = time.Now()
		if w, err := all[0].Of(ctx, "worker", "life", comesBack); err == nil || time.Since(began) > time.Millisecond {
			t.Errorf("its term is over, and it waits for %v: %+v", time.Since(began), w)
		}
	})
}
