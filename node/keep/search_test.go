package keep_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/taskstate"
)

// fate is what a candidate does once it is asked: it goes on every so often, so many times, and
// then answers, or is silent.
type fate struct {
	every   time.Duration
	moves   int
	answers bool
	refuses bool
}

// dumb plays a search second by second, by the letter of what is promised.
func dumb(need int, fates []fate) (kept, asked []string, took int) {
	type run struct{ i, since, moved int }
	var under []run
	next := 0
	for second := 0; ; second++ {
		late := second >= int(keep.Patience/time.Second)
		if late { // before anything else of that second is heard
			under = nil
		}
		var on []run
		for _, r := range under {
			f, name := fates[r.i], fmt.Sprint("p", r.i)
			every := int(f.every / time.Second)
			step := 0
			if age := second - r.since; age > 0 && age%every == 0 {
				step = age / every
			}
			switch {
			case step == f.moves+1 && f.answers:
				if !f.refuses {
					kept = append(kept, name)
				}
				continue
			case step > 0 && step <= f.moves:
				r.moved = second
			}
			if second-r.moved < int(keep.Stall/time.Second) {
				on = append(on, r)
			}
		}
		under = on
		for !late && len(kept)+len(under) < need && next < len(fates) && next < max(keep.MaxAsked, need+1) {
			under = append(under, run{next, second, second})
			asked = append(asked, fmt.Sprint("p", next))
			next++
		}
		if len(under) == 0 {
			return kept, asked, second
		}
	}
}

func TestASearchAsksWhomADumbOneAsks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		need := rapid.IntRange(0, 4).Draw(t, "need")
		fates := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) fate {
			return fate{
				every: time.Duration(rapid.SampledFrom([]int{1, 7, 30, 59, 61, 200}).Draw(t, "every")) * time.Second,
				moves: rapid.IntRange(0, 12).Draw(t, "moves"), answers: rapid.Bool().Draw(t, "answers"), refuses: rapid.Bool().Draw(t, "refuses"),
			}
		}), 0, 7).Draw(t, "fates")
		wantKept, wantAsked, wantTook := dumb(need, fates)

		var names, asked []string
		for i := range fates {
			names = append(names, fmt.Sprint("p", i))
		}
		begin := time.Unix(1000, 0)
		s := keep.NewSearch(need, names, begin)
		since := map[int]int{} // when each was asked
		second := 0
		do := func(ev keep.Event) keep.Effects {
			out := s.Step(ev, begin.Add(time.Duration(second)*time.Second))
			for _, name := range out.Drop {
				delete(since, slices.Index(names, name))
			}
			for _, name := range out.Ask {
				asked = append(asked, name)
				since[slices.Index(names, name)] = second
			}
			return out
		}
		out := do(keep.Event{})
		for !out.Over {
			if second++; second == int(keep.Patience/time.Second) {
				out = do(keep.Event{})
			}
			for i, f := range fates {
				at, on := since[i]
				age, every := second-at, int(f.every/time.Second)
				if !on || age == 0 || age%every != 0 {
					continue
				}
				switch step := age / every; {
				case step == f.moves+1 && f.answers:
					ev := keep.Event{Peer: names[i], Done: true}
					if f.refuses {
						ev.Err = errors.New("no")
					}
					delete(since, i)
					out = do(ev)
				case step <= f.moves:
					out = do(keep.Event{Peer: names[i], Bytes: int64(step)})
				}
			}
			if at := begin.Add(time.Duration(second) * time.Second); !out.Over && !at.Before(out.Wake) {
				out = do(keep.Event{})
			}
		}
		kept, no := s.Kept()
		slices.Sort(kept)
		slices.Sort(wantKept)
		if !slices.Equal(kept, wantKept) || !slices.Equal(asked, wantAsked) || second != wantTook {
			t.Fatalf("kept %v after %d s, asked %v; the dumb one: %v after %d s, asked %v", kept, second, asked, wantKept, wantTook, wantAsked)
		}
		if len(kept)+len(no) != len(asked) {
			t.Fatalf("%d of %d have a fate", len(kept)+len(no), len(asked))
		}
		if again := s.Step(keep.Event{Peer: "p0", Done: true}, begin); !again.Over || len(again.Ask) > 0 {
			t.Fatalf("it goes on after its end: %+v", again)
		}
	})
}

func TestTheSubmitterIsAskedFirstAndTheOthersInTurn(t *testing.T) {
	others := []taskstate.PeerID{"a", "b", "c", "d"}
	first := map[taskstate.PeerID]int{}
	for slot := 1; slot <= 400; slot++ {
		task := taskstate.Task("k3v5q7x2ab", slot, 1)
		got := keep.Order(task, "c", others)
		if got[0] != "c" || !slices.Equal(slices.Sorted(slices.Values(got)), others) {
			t.Fatalf("%v", got)
		}
		if again := keep.Order(task, "elsewhere", []taskstate.PeerID{"d", "c", "b", "a"}); !slices.Equal(again, keep.Order(task, "", others)) {
			t.Fatalf("%v: the order depends on more than names", again)
		}
		first[keep.Order(task, "", others)[0]]++
	}
	for _, p := range others {
		if first[p] < 50 {
			t.Errorf("of 400 tasks %s is asked first for %d", p, first[p])
		}
	}
}
