//go:build unix

package testnet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"

	"pgregory.net/rapid"
)

func TestAQuantileIsTheSmallestValueThatEnoughAreNotAbove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(rapid.IntRange(0, 20).Draw(t, "d")) }), 1, 300).Draw(t, "all")
		q := rapid.SampledFrom([]float64{0, 0.25, 0.5, 0.75, 0.99, 1}).Draw(t, "q")
		before := slices.Clone(all)
		got := quantile(all, q)
		below, most := 0, 0
		for _, d := range all {
			if d < got {
				below++
			}
			if d <= got {
				most++
			}
		}
		enough := int(math.Ceil(q * float64(len(all))))
		if !slices.Contains(all, got) || most < enough || below > 0 && below >= enough {
			t.Fatalf("of %v the %v quantile is %d", all, q, got)
		}
		if !slices.Equal(all, before) {
			t.Fatal("it sorted what it was given")
		}
	})
	if d := quantile(nil, 0.5); d != 0 {
		t.Errorf("of nothing: %s", d)
	}
}

func TestOneInAHundredDoesNotMakeTheTail(t *testing.T) {
	took := make([]time.Duration, 100)
	for i := range took {
		took[i] = time.Duration(i+1) * time.Millisecond
	}
	if m, want := spreadOf("x", took), (Measure{Name: "x", Value: 50, P99: 99, Max: 100, Unit: "ms", N: 100}); m != want {
		t.Errorf("%+v", m)
	}
}

func TestAMeasureIsShownAsItIsTaken(t *testing.T) {
	var talk bytes.Buffer
	b := &bench{cfg: BenchConfig{Talk: &talk, Only: []string{"noop"}}}
	b.add(Measure{Name: "rate", Value: 12345.678, Unit: "tasks/s", N: 3})
	b.add(Measure{Name: "time", Value: 1.5, P99: 2.25, Max: 3, Unit: "ms", N: 3})
	want := fmt.Sprintf("%-46s %10s tasks/s\n%-46s %10s ms  p99 2.25  max 3\n", "rate", "1.235e+04", "time", "1.5")
	if talk.String() != want || len(b.report.Measures) != 2 {
		t.Errorf("shown\n%snot\n%s", talk.String(), want)
	}
	if !b.wants("noop") || b.wants("kills") || !(&bench{}).wants("kills") {
		t.Error("it measures what it was not asked for, or not what it was")
	}
}

func TestAStatusHasSpreadWhenAllPeersShowIt(t *testing.T) {
	w := newWitness(2)
	end := api.Event{Kind: "task", Task: "j.1.1", State: "complete", Time: time.Now().Add(-time.Second)}
	see := func(events ...api.Event) {
		t.Helper()
		for _, e := range events {
			if err := w.saw(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	see(api.Event{Kind: "snapshot"})
	if w.listening() {
		t.Error("one of two listens")
	}
	see(api.Event{Kind: "snapshot"}, api.Event{Kind: "task", Task: "j.2.1", State: "running"}, api.Event{Kind: "job", Job: "j", State: "complete"}, end)
	if !w.listening() || w.whole() != 0 {
		t.Errorf("listening %v, whole %d", w.listening(), w.whole())
	}
	late := end
	late.Time = time.Now() // another peer's word for when it was written does not count
	see(late)
	if d := w.delays(); w.whole() != 1 || len(d) != 1 || d[0] < time.Second {
		t.Errorf("whole %d, after %v", w.whole(), d)
	}
}

func TestWhoIsAskedOfAKillIsNotItsVictim(t *testing.T) {
	net, all := twins(t, 3)
	b := &bench{net: net}
	for _, x := range []struct {
		out  []int
		want int
	}{{nil, 1}, {[]int{1}, 2}, {[]int{2, 1}, 3}, {[]int{1, 2, 3}, 0}} {
		if k := b.notOneOf(x.out...); k != x.want {
			t.Errorf("not one of %v: %d", x.out, k)
		}
	}
	all[0].end()
	all[1].status.Coordinator = all[2].proc.id
	if k, err := b.coordinator(t.Context()); k != 3 || err != nil {
		t.Errorf("%d, %v", k, err)
	}
	all[1].end()
	all[2].end()
	if _, err := b.coordinator(t.Context()); err == nil {
		t.Error("with nobody up")
	}
}

func TestThePlainCopyIsACopy(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int64{0, 1, 1 << 20, 3<<20 + 7} {
		from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
		want, err := io.ReadAll(noiseOf(size))
		if err == nil {
			err = os.WriteFile(from, want, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := RawCopy(t.Context(), from, to)
		if err != nil || r.Seconds <= 0 {
			t.Fatal(r, err)
		}
		if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes came of %d, %v", len(got), size, err)
		}
	}
	if _, err := RawCopy(t.Context(), filepath.Join(dir, "none"), filepath.Join(dir, "to")); err == nil {
		t.Error("what is not there was copied")
	}
}

func TestACopysFiguresAreOfItsSizeAndTheirMiddle(t *testing.T) {
	c := newCopied(2e9, 4*time.Second, 6)
	if c.rate != 500 || c.cpu != 3 {
		t.Errorf("%+v", c)
	}
	all := []copied{{rate: 5}, {rate: 1}, {rate: 3}}
	if m := middle(all, func(c copied) float64 { return c.rate }); m != 3 {
		t.Errorf("%v", m)
	}
}

func TestAProcessThatCannotBeStartedIsNoMeasure(t *testing.T) {
	if _, err := plainProcesses(t.TempDir(), "/none", 5, 2); err == nil {
		t.Error("it was measured")
	}
	if d, err := plainProcesses(t.TempDir(), "/bin/true", 5, 2); err != nil || d <= 0 {
		t.Errorf("%s, %v", d, err)
	}
	if _, err := plainProcesses("/none", "/bin/true", 1, 1); err == nil || errors.Unwrap(err) == nil || !strings.Contains(err.Error(), "/none") {
		t.Errorf("%v", err)
	}
}
