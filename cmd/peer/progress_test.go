package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coveyproject/covey/node/api"

	"pgregory.net/rapid"
)

// drawn is a progress on a terminal of a width, with a clock that the test sets.
func drawn(w io.Writer, width int) (p *progress, clock *time.Time) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return &progress{w: w, on: true, width: func() int { return width }, now: func() time.Time { return at }}, &at
}

// A line that is longer than the terminal is wide leaves one behind with each drawing.
func TestALineOfProgressFitsAnyTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(8, 300).Draw(t, "width")
		var b bytes.Buffer
		p, clock := drawn(&b, width)
		count := rapid.IntRange(2, 2_000_000).Draw(t, "count")
		for range 3 {
			*clock = clock.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
			b.Reset()
			j := api.Job{Count: count, Tasks: map[string]int{}, Waiting: rapid.StringMatching(`[a-zé ]{0,60}`).Draw(t, "why")}
			for _, s := range []string{"complete", "failed", "shutdown", "running"} {
				j.Tasks[s] = rapid.IntRange(0, count).Draw(t, s)
			}
			p.last = time.Time{}
			p.show(j, api.Task{ID: "j.1.1", State: "running", Peer: "x", PeerName: strings.Repeat("long", 20)})
			line := strings.ReplaceAll(b.String(), "\r\x1b[K", "")
			if n := utf8.RuneCountInString(line); n >= width || strings.ContainsAny(line, "\r\n") {
				t.Fatalf("%d columns of %d: %q", n, width, line)
			}
		}
	})
}

func TestProgressSaysHowFastItGoesAndHowLongStill(t *testing.T) {
	for width, want := range map[int]string{
		80: "━━━━━━━━━━━━━━━━━━──────────────  350/600  ✗10  16.7/s  15s left  nas 10 mini 8",
		44: "━━━━━━─────  350/600  ✗10  16.7/s  15s left",
		24: "350/600  ✗10  16.7/s",
	} {
		var b bytes.Buffer
		p, clock := drawn(&b, width)
		var tasks []api.Task
		for i := range 18 {
			name := "nas"
			if i >= 10 {
				name = "mini"
			}
			tasks = append(tasks, api.Task{ID: fmt.Sprintf("j.%d.1", i), State: "running", Peer: name, PeerName: name})
		}
		p.show(api.Job{Count: 600, Tasks: map[string]int{"complete": 250}}, tasks...)
		*clock = clock.Add(6 * time.Second)
		b.Reset()
		p.show(api.Job{Count: 600, Tasks: map[string]int{"complete": 340, "failed": 10, "running": 18}})
		got := strings.TrimPrefix(b.String(), "\r\x1b[K")
		if got != want {
			t.Errorf("at %d columns\n%s\nnot\n%s", width, got, want)
		}
	}
}

func TestProgressSaysHowManyTasksAreHome(t *testing.T) {
	for width, want := range map[int]string{
		80: "━━━━────────  96/240  12/s  12s left  4 saving  home 88 of 96 (1.2GiB, 84MiB/s)",
		64: "━━━━━━━━━━━──────────────────  96/240  12/s  12s left  4 saving",
	} {
		var b bytes.Buffer
		p, clock := drawn(&b, width)
		p.extra = func() string { return "home 88 of 96 (1.2GiB, 84MiB/s)" }
		p.show(api.Job{Count: 240, Tasks: map[string]int{"complete": 24}})
		*clock = clock.Add(6 * time.Second)
		b.Reset()
		p.show(api.Job{Count: 240, Tasks: map[string]int{"complete": 96, "saving": 4}})
		if got := strings.TrimPrefix(b.String(), "\r\x1b[K"); got != want {
			t.Errorf("at %d columns\n%s\nnot\n%s", width, got, want)
		}
	}
}

func TestAJobThatWaitsSaysWhyInsteadOfWhere(t *testing.T) {
	var b bytes.Buffer
	p, _ := drawn(&b, 80)
	p.show(api.Job{Count: 9, Tasks: map[string]int{"complete": 3}, Waiting: "needs 64 cpus"})
	if got := b.String(); !strings.HasSuffix(got, "  3/9  needs 64 cpus") {
		t.Errorf("%q", got)
	}
}

// Whatever the steps in which tasks end, the rate is that of the last half minute.
func TestTheRateIsThatOfTheLastHalfMinute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pace
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		rate := rapid.Float64Range(0.5, 5000).Draw(t, "rate")
		begin := now
		for range rapid.IntRange(100, 400).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(1, 600).Draw(t, "ms")) * time.Millisecond)
			p.heard(int(rate*now.Sub(begin).Seconds()), now)
		}
		if len(p.samples) > int(paceSpan/paceGrain)*2+4 {
			t.Fatalf("%d samples are kept", len(p.samples))
		}
		if span := now.Sub(p.samples[0].at); span > paceSpan+time.Second {
			t.Fatalf("it looks back %s", span)
		}
		span := now.Sub(p.samples[0].at).Seconds()
		if got := p.at(now); span > 5 && math.Abs(got-rate) > rate/5+1 {
			t.Fatalf("%g a second, not %g", got, rate)
		}
	})
}

func TestWhatBecameOfAJobIsOneSentence(t *testing.T) {
	end := time.Date(2026, 3, 1, 12, 0, 14, 0, time.UTC)
	for want, x := range map[string]struct {
		j    api.Job
		on   []string
		off  bool
		stop int
	}{
		"120 of 123 done, 3 failed in 14s on 2 peers; see `peer tasks k3 --failed`\n": {j: api.Job{ID: "k3", Count: 123, Tasks: map[string]int{"complete": 120, "failed": 2, "orphaned": 1}}, on: []string{"a", "b", "a"}},
		"2 of 2 done in 14s\n":                                  {j: api.Job{Count: 2, Tasks: map[string]int{"complete": 2}}},
		"1 of 3 done, 2 stopped in 14s on 1 peer\n":             {j: api.Job{Count: 3, Tasks: map[string]int{"complete": 1, "shutdown": 2}}, on: []string{"a"}},
		"1 of 13 done, 12 stopped (3 of them running) in 14s\n": {j: api.Job{Count: 13, Tasks: map[string]int{"complete": 1, "shutdown": 12}}, stop: 3},
		"": {j: api.Job{Count: 2, Tasks: map[string]int{"complete": 2}}, off: true},
	} {
		var b bytes.Buffer
		p, _ := drawn(&b, 80)
		p.on, p.stopped = !x.off, x.stop
		for i, name := range x.on {
			p.run.heard([]api.Task{{ID: fmt.Sprint(i), State: "complete", Peer: name, PeerName: name}})
		}
		x.j.Submitted, x.j.Ended = end.Add(-14*time.Second), &end
		if shown := p.summary(x.j); b.String() != want || shown == x.off {
			t.Errorf("%q, not %q", b.String(), want)
		}
	}
}

func TestAJobOfOneTaskAndAFileInPlaceOfATerminalHaveNoProgress(t *testing.T) {
	var one, file bytes.Buffer
	p, _ := drawn(&one, 80)
	p.show(api.Job{Count: 1, Tasks: map[string]int{"running": 1}})
	newProgress(&file).show(api.Job{Count: 5})
	if one.Len()+file.Len() > 0 {
		t.Errorf("%q, %q", one.String(), file.String())
	}
	p.show(api.Job{Count: 2})
	p.done()
	p.done()
	if n := strings.Count(one.String(), "\x1b[K"); n != 1 {
		t.Errorf("it is cleared %d times", n)
	}
}
