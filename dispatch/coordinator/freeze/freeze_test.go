package freeze

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func lostAt(seconds ...int) (out []Vanished) {
	for i, s := range seconds {
		out = append(out, Vanished{fmt.Sprint("p", i), time.Unix(int64(s), 0)})
	}
	return out
}

func TestReplacementFreezesWhenAtLeastThreeAndMoreThanHalfVanishWithinAMinute(t *testing.T) {
	for _, c := range []struct {
		why    string
		lost   []Vanished
		others int
		want   string
	}{
		{"nobody", nil, 4, ""},
		{"coordinator and worker of five, seen by the next coordinator", lostAt(1, 1), 4, ""},
		{"two of two: fewer than three", lostAt(1, 1), 2, ""},
		{"three of four", lostAt(1, 2, 3), 4, "3 of 4 [p0 p1 p2]"},
		{"three of six: half is not more than half", lostAt(1, 2, 3), 6, ""},
		{"three of five", lostAt(1, 2, 3), 5, "3 of 5 [p0 p1 p2]"},
		{"one a minute too late", lostAt(1, 2, 62), 4, ""},
		{"just within the minute", lostAt(1, 2, 61), 4, "3 of 4 [p0 p1 p2]"},
		{"one by one over hours", lostAt(1, 1000, 2000, 3000), 5, ""},
		{"most of those that were left", lostAt(1, 2, 1000, 1001, 1002), 7, "3 of 5 [p2 p3 p4]"},
		{"long ago, and not back", lostAt(1, 2, 3, 5000), 5, "3 of 5 [p0 p1 p2]"},
		{"all", lostAt(5, 4, 3, 2, 1), 5, "5 of 5 [p0 p1 p2 p3 p4]"},
	} {
		f := Of(c.lost, c.others)
		got := ""
		if f.Active() {
			got = fmt.Sprintf("%d of %d %v", len(f.Gone), f.Of, f.Gone)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.why, got, c.want)
		}
		if (f.String() != "") != f.Active() {
			t.Errorf("%s: says %q", c.why, f)
		}
	}
}

// The quick way agrees with trying every minute that begins with a loss.
func TestFreezingAgreesWithItsDumbTwin(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		at := rapid.SliceOfN(rapid.IntRange(0, 200), 0, 12).Draw(r, "lost")
		others := len(at) + rapid.IntRange(0, 6).Draw(r, "alive")
		most := 0
		for _, from := range at {
			gone, before := 0, 0
			for _, x := range at {
				switch {
				case x < from:
					before++
				case x <= from+60:
					gone++
				}
			}
			if gone >= 3 && gone > (others-before)/2 {
				most = max(most, gone)
			}
		}
		f := Of(lostAt(at...), others)
		if len(f.Gone) != most || !slices.IsSorted(f.Gone) {
			r.Fatalf("%d, want %d: %v", len(f.Gone), most, f)
		}
	})
}

func TestABucketNeverGivesMoreThanItsBurstAndWhatWasRefilled(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		burst := rapid.IntRange(1, 5).Draw(r, "burst")
		const every = 5 * time.Second
		var b bucket
		var taken []time.Time
		now := time.Unix(1000, 0)
		for _, gap := range rapid.SliceOfN(rapid.IntRange(0, 9000), 1, 60).Draw(r, "gaps") {
			now = now.Add(time.Duration(gap) * time.Millisecond)
			ok, next := b.take(now, burst, every)
			if ok {
				taken = append(taken, now)
				continue
			}
			if !next.After(now) || next.Sub(now) > every {
				r.Fatalf("refused at %v until %v", now, next)
			}
			if got, _ := b.take(next, burst, every); !got {
				r.Fatalf("refused at %v, and again at %v, when it was to be had", now, next)
			}
			now = next
			taken = append(taken, now)
		}
		for i := range taken {
			for k := i; k < len(taken); k++ {
				if most := burst + int(taken[k].Sub(taken[i])/every); k-i+1 > most {
					r.Fatalf("%d taken within %v", k-i+1, taken[k].Sub(taken[i]))
				}
			}
		}
	})
}

func TestAComebackWaitsForTheOthersAnewWithEachReturnAndEndsWithTheLast(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	back := func(ids ...string) func(string) bool { return func(id string) bool { return slices.Contains(ids, id) } }
	var b comeback
	if b.look(back(), at(0)) {
		t.Fatal("it ends what never began")
	}
	b.begin([]string{"p", "q", "r"}, at(0))
	if over := b.look(back("p"), at(4)); over || !b.until.Equal(at(9)) {
		t.Fatalf("%+v, over %t", b, over)
	}
	if over := b.look(back("p"), at(8)); over || !b.until.Equal(at(9)) {
		t.Fatalf("nobody else is back: %+v, over %t", b, over)
	}
	if other := b; !other.look(back("p"), at(9)) || !other.until.IsZero() {
		t.Fatalf("it is not over in time: %+v", other)
	}
	if again := b; again.look(back("q"), at(8)) || again.look(back("q", "r"), at(8)) || !again.until.Equal(at(13)) {
		t.Fatalf("one that vanished again is not waited for: %+v", again)
	}
	if !b.look(back("p", "q", "r"), at(8)) {
		t.Fatalf("all are back: %+v", b)
	}
	rapid.Check(t, func(r *rapid.T) {
		gone := []string{"p", "q", "r", "s"}
		var b comeback
		b.begin(gone, at(0))
		now := 0
		for i := range gone { // one after the other, as slowly as it bears
			now += rapid.IntRange(0, 4).Draw(r, "pause")
			if over := b.look(back(gone[:i+1]...), at(now)); over != (i == len(gone)-1) {
				r.Fatalf("over %t after %d of %d", over, i+1, len(gone))
			}
		}
	})
	b.begin(make([]string, 100), at(0))
	for i := range b.gone {
		b.gone[i] = fmt.Sprint(i)
	}
	last := 0
	for returned := []string{}; !b.until.IsZero(); last++ { // who goes on coming back does not hold the others up for ever
		returned = append(returned, fmt.Sprint(last))
		if b.look(back(returned...), at(last)); last > 60 {
			t.Fatalf("after %d s: %+v", last, b.until)
		}
	}
	if last < 60 {
		t.Fatalf("with a return each second it ends after %d s", last)
	}
}
