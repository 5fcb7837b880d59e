package taskstate_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

func countsGen() *rapid.Generator[map[string]int64] {
	return rapid.MapOf(rapid.SampledFrom([]string{"gpus", "license", "slots", "a-b_c"}), rapid.Int64Range(-5, 5))
}

func TestCountsAreOneTextForOneMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := countsGen().Draw(t, "m")
		c := taskstate.CountsOf(m)
		maps.DeleteFunc(m, func(_ string, n int64) bool { return n == 0 })
		if got := c.Map(); !maps.Equal(got, m) {
			t.Fatalf("%v became %q and then %v", m, c, got)
		}
		if again := taskstate.CountsOf(c.Map()); again != c {
			t.Fatalf("%q became %q", c, again)
		}
	})
}

func TestCountsAddLikeTheirNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := taskstate.CountsOf(countsGen().Draw(t, "a")), taskstate.CountsOf(countsGen().Draw(t, "b"))
		sum := a.Add(b)
		for _, name := range []string{"gpus", "license", "slots", "a-b_c"} {
			if sum.Of(name) != a.Of(name)+b.Of(name) {
				t.Fatalf("%q + %q = %q", a, b, sum)
			}
		}
		if back := sum.Add(b.Times(-1)); back != a {
			t.Fatalf("%q + %q - %q = %q", a, b, b, back)
		}
		if a.Add(b) != b.Add(a) {
			t.Fatalf("the order of %q and %q matters", a, b)
		}
	})
}

func TestANeedFitsWhereNothingAskedForIsMissing(t *testing.T) {
	for _, x := range []struct {
		need, free taskstate.Counts
		fits       bool
	}{
		{"", "", true},
		{"", "gpus=-1", true},
		{"gpus=1", "", false},
		{"gpus=2", "gpus=2", true},
		{"gpus=3", "gpus=2", false},
		{"gpus=1,license=1", "gpus=4", false},
		{"gpus=1", "gpus=1,license=-2", true},
	} {
		if got := x.need.Fits(x.free); got != x.fits {
			t.Errorf("%q in %q: %v", x.need, x.free, got)
		}
	}
}

func TestCountsFromOutsideAreChecked(t *testing.T) {
	for _, bad := range []taskstate.Counts{"gpus", "gpus=", "gpus=0", "gpus=-1", "b=1,a=1", "a=1,a=2", "GPU=1", "=1", "a=1,", "a=9999999", taskstate.Counts(strings.Repeat("x", 64) + "=1")} {
		if bad.Check() == nil {
			t.Errorf("%q passed", bad)
		}
	}
	for _, good := range []taskstate.Counts{"", "gpus=1", "a-b=3,gpus=1048576"} {
		if err := good.Check(); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

func TestCountsAreAnObjectInJSON(t *testing.T) {
	b, err := json.Marshal(taskstate.Resources{Others: "gpus=2,license=1"})
	if want := `{"others":{"gpus":2,"license":1}}`; err != nil || string(b) != want {
		t.Fatalf("%s, %v", b, err)
	}
	var r taskstate.Resources
	if err := json.Unmarshal(b, &r); err != nil || r.Others != "gpus=2,license=1" {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, bad := range []string{`{"GPU":1}`, `{"a=1,b":2}`, `{"a,b":1}`, `{"a=1":1}`, `{"":1}`, `{"a":-1}`, `{"a":1048577}`, `{"a":1.5}`, `["a"]`} {
		if err := json.Unmarshal([]byte(`{"others":`+bad+`}`), &r); err == nil {
			t.Errorf("%s passed as %q", bad, r.Others)
		}
	}
}

func TestAMatrixGivesEachSlotItsOwnPointAndTheLastAxisTurnsFastest(t *testing.T) {
	j := taskstate.Job{Count: 6, Matrix: []taskstate.Axis{{Name: "size", Values: []string{"s", "l"}}, {Name: "seed", Values: []string{"1", "2", "3"}}}}
	var got []string
	for n := 1; n <= 6; n++ {
		got = append(got, j.Item(n))
	}
	if want := "s,1 s,2 s,3 l,1 l,2 l,3"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if j.Point(0) != nil || j.Point(7) != nil || (&taskstate.Job{Count: 1}).Point(1) != nil {
		t.Error("a point where there is none")
	}
}
