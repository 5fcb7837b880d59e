package taskstate_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/coveyproject/covey/p2p/wire"
	. "github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

func drawResources(t *rapid.T, name string) Resources {
	counts := rapid.MapOfN(rapid.SampledFrom([]string{"gpus", "license", "a-b", "seats_2"}), rapid.Int64Range(0, 9), 0, 4).Draw(t, name+" counts")
	return Resources{MilliCPU: rapid.Int64Range(0, 9000).Draw(t, name+" cpus"), Memory: rapid.Int64Range(0, 1<<40).Draw(t, name+" memory"), Disk: rapid.Int64Range(0, 1<<40).Draw(t, name+" disk"), Others: CountsOf(counts)}
}

func TestResourcesAreCountedLikeNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawResources(t, "a"), drawResources(t, "b"), drawResources(t, "c")
		if a.Add(b) != b.Add(a) || a.Add(b).Add(c) != a.Add(b.Add(c)) {
			t.Fatal("the order of sums matters")
		}
		if got := a.Add(b).Sub(b); got != a {
			t.Fatalf("taken and given back: %+v, was %+v", got, a)
		}
		if a.Sub(a) != (Resources{}) || a.Times(0) != (Resources{}) || a.Times(1) != a || a.Times(3) != a.Add(a).Add(a) {
			t.Fatal("several times is not the sum")
		}
	})
}

func TestWhatFitsStillFitsWhereThereIsMoreAndTakesNoMoreThanThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		need, free, more := drawResources(t, "need"), drawResources(t, "free"), drawResources(t, "more")
		fits := need.Fits(free)
		if fits && !need.Fits(free.Add(more)) {
			t.Fatal("it does not fit where there is more")
		}
		left := free.Sub(need)
		whole := left.MilliCPU >= 0 && left.Memory >= 0 && left.Disk >= 0
		for _, n := range left.Others.Map() {
			whole = whole && n >= 0
		}
		if fits != whole {
			t.Fatalf("fits: %v, but %+v would be left", fits, left)
		}
		if !(Resources{}).Fits(free.Sub(more)) {
			t.Fatal("nothing does not fit")
		}
	})
}

func TestResourcesSurviveTheWayThroughJSONAndCBOR(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawResources(t, "r")
		var fromJSON, fromCBOR Resources
		b, err := json.Marshal(r)
		if err == nil {
			err = json.Unmarshal(b, &fromJSON)
		}
		if err != nil || fromJSON != r {
			t.Fatalf("%s became %+v, %v", b, fromJSON, err)
		}
		c, err := wire.Marshal(r)
		if err == nil {
			err = wire.Unmarshal(c, &fromCBOR)
		}
		if err != nil || fromCBOR != r || r.Others.Check() != nil {
			t.Fatalf("%x became %+v, %v", c, fromCBOR, err)
		}
	})
}

func TestATaskHasOneSpelling(t *testing.T) {
	number := rapid.OneOf(rapid.SampledFrom([]string{"1", "01", "+1", "0", "-1", "1e3", "٣", "", " 1", "1_0", "9223372036854775807", "9223372036854775808"}), rapid.Custom(func(t *rapid.T) string {
		return strconv.Itoa(rapid.IntRange(-2, 1_000_000).Draw(t, "n"))
	}))
	read := 0
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom([]string{"k3v5q7x2ab", "", "a b", "ä"}).Draw(t, "job") + "." + number.Draw(t, "slot") + "." + number.Draw(t, "attempt")
		id, err := ParseTaskID(s)
		if err != nil {
			return
		}
		read++
		if id.String() != s || id.Slot < 1 || id.Attempt < 1 || id.Job == "" {
			t.Fatalf("%q was read as %v", s, id)
		}
	})
	if read == 0 {
		t.Error("nothing was read")
	}
}
