package cron_test

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/cron"
	"github.com/coveyproject/covey/taskstate"

	"github.com/adhocore/gronx"
	"pgregory.net/rapid"
)

// change is a day on which the clocks of a zone are set.
type change struct{ zone, day string }

// changes are forward and back, by an hour and by half of one, at night and at midnight, north and
// south.
func changes() []change {
	return []change{
		{"Europe/Berlin", "2026-03-29"},
		{"Europe/Berlin", "2026-10-25"},
		{"America/New_York", "2026-03-08"},
		{"America/New_York", "2026-11-01"},
		{"America/Havana", "2026-03-08"},
		{"America/Havana", "2026-11-01"},
		{"Africa/Cairo", "2026-04-24"},
		{"Africa/Cairo", "2026-10-29"},
		{"Australia/Lord_Howe", "2026-04-05"},
		{"Australia/Lord_Howe", "2026-10-04"},
		{"Asia/Kolkata", "2026-06-01"}, // none
	}
}

func (c change) noon(t interface{ Fatal(...any) }) time.Time {
	zone, err := time.LoadLocation(c.zone)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.ParseInLocation(time.DateTime, c.day+" 12:00:00", zone)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// starts are those of a schedule after from, up to to.
func starts(t *testing.T, s *taskstate.Schedule, from, to time.Time) (out []time.Time) {
	t.Helper()
	for at := from.UnixMilli(); len(out) < 10_000; {
		next, err := cron.Next(s, at)
		if err != nil || next <= at {
			t.Fatalf("%+v: after %d comes %d, %v", *s, at, next, err)
		}
		if next > to.UnixMilli() {
			break
		}
		at = next
		out = append(out, time.UnixMilli(at).In(from.Location()))
	}
	return out
}

func TestAStartAtANamedHourComesOnceOnEveryDay(t *testing.T) {
	for _, c := range changes() {
		noon := c.noon(t)
		for _, expr := range []string{"0 0 * * *", "30 0 * * *", "30 1 * * *", "59 1 * * *", "0 2 * * *", "15 2 * * *", "30 2 * * *", "0 3 * * *", "45 23 * * *"} {
			seen := map[string]int{}
			for _, at := range starts(t, &taskstate.Schedule{Cron: expr, Zone: c.zone}, noon.AddDate(0, 0, -2), noon.AddDate(0, 0, 2)) {
				seen[at.Format(time.DateOnly)]++
			}
			for day, n := range seen {
				if n != 1 {
					t.Errorf("%s in %s: %d starts on %s", expr, c.zone, n, day)
				}
			}
			if len(seen) != 4 {
				t.Errorf("%s in %s, around %s: on %d of four days", expr, c.zone, c.day, len(seen))
			}
		}
	}
}

func TestStartsOfEveryHourGoOnAsIfNoClockHadBeenSet(t *testing.T) {
	for _, c := range changes() {
		noon := c.noon(t)
		for expr, pace := range map[string]time.Duration{"*/15 * * * *": 15 * time.Minute, "7-59/30 * * * *": 30 * time.Minute, "20 * * * *": time.Hour} {
			if pace == time.Hour && c.zone == "Australia/Lord_Howe" { // half an hour is no whole pace
				continue
			}
			last := time.Time{}
			for _, at := range starts(t, &taskstate.Schedule{Cron: expr, Zone: c.zone}, noon.AddDate(0, 0, -1), noon.AddDate(0, 0, 1)) {
				if d := at.Sub(last); !last.IsZero() && d != pace {
					t.Errorf("%s in %s: %s after %s", expr, c.zone, at, last)
				}
				last = at
			}
		}
	}
}

func TestWhatTheClockLeavesOutStartsAtItsEnd(t *testing.T) {
	for expr, want := range map[string]string{
		"30 2 * * *": "2026-03-29T03:00:00+02:00", "0 2 * * *": "2026-03-29T03:00:00+02:00", "0 3 * * *": "2026-03-29T03:00:00+02:00", "30 3 * * *": "2026-03-29T03:30:00+02:00",
		"*/15 2 * * *": "2026-03-29T03:00:00+02:00", "30 * * * *": "2026-03-29T01:30:00+01:00", "30 2 * * 0": "2026-03-29T03:00:00+02:00", "30 2 29 3 *": "2026-03-29T03:00:00+02:00",
		"30 2 * * 1": "2026-03-30T02:30:00+02:00",
	} {
		got, err := cron.Next(&taskstate.Schedule{Cron: expr, Zone: "Europe/Berlin"}, at("2026-03-29T01:00:00+01:00"))
		if err != nil || got != at(want) {
			t.Errorf("%s: %s, %v; want %s", expr, time.UnixMilli(got).UTC(), err, want)
		}
	}
}

func TestWhatTheClockShowsTwiceStartsTheFirstTime(t *testing.T) {
	s := &taskstate.Schedule{Cron: "30 2 * * *", Zone: "Europe/Berlin"}
	first, again := at("2026-10-25T02:30:00+02:00"), at("2026-10-25T02:30:00+01:00")
	if got, err := cron.Next(s, at("2026-10-24T12:00:00Z")); err != nil || got != first {
		t.Errorf("%s, %v", time.UnixMilli(got).UTC(), err)
	}
	if got, err := cron.Next(s, first); err != nil || got != at("2026-10-26T02:30:00+01:00") {
		t.Errorf("after it: %s, %v", time.UnixMilli(got).UTC(), err)
	}
	if at, due, err := cron.Due(s, first, again+60_000); due || err != nil {
		t.Errorf("due a second time: %d, %v", at, err)
	}
}

func TestTheNextStartIsTheFirstOneAfterAnyMoment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(changes()).Draw(t, "change")
		s := &taskstate.Schedule{Zone: c.zone, Cron: rapid.SampledFrom([]string{
			"* * * * *", "*/15 * * * *", "0 * * * *", "30 2 * * *", "0 0 * * *", "59 23 * * *", "*/30 1-3 * * *", "15 1,2,3 * * 0", "0 2 1 * *", "0 */2 * * *", "5 0-4/2 * * *",
		}).Draw(t, "cron")}
		from := c.noon(t).UnixMilli() + rapid.Int64Range(-36*3600, 36*3600).Draw(t, "seconds")*1000
		first, err := cron.Next(s, from)
		if err != nil || first <= from || first%60_000 != 0 {
			t.Fatalf("after %d: %d, %v", from, first, err)
		}
		between := rapid.Int64Range(from, first-1).Draw(t, "between")
		if again, err := cron.Next(s, between); err != nil || again != first {
			t.Fatalf("after %d comes %d, but after %d comes %d (%v)", from, first, between, again, err)
		}
		if at, due, err := cron.Due(s, from, first); err != nil || !due || at != first {
			t.Fatalf("at %d it is due: %d, %v, %v", first, at, due, err)
		}
		if _, due, _ := cron.Due(s, from, first-1); due {
			t.Fatal("due too early")
		}
	})
}

func TestWithoutChangesOfTheClockTheLibraryIsRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		expr := rapid.SampledFrom([]string{"0 0 29 2 *", "0 0 31 * *", "*/7 3 * * *", "0 12 * * MON-FRI", "5 4 1,15 * *", "0 0 13 * 5", "1 1 1 1 *"}).Draw(t, "cron")
		from := time.Unix(rapid.Int64Range(1_700_000_000, 4_000_000_000).Draw(t, "from"), 0).UTC()
		want, err := gronx.NextTickAfter(expr, from, false)
		if got, err2 := cron.Next(&taskstate.Schedule{Cron: expr}, from.UnixMilli()); err != nil || err2 != nil || got != want.UnixMilli() {
			t.Fatalf("%s after %s: %d, want %s (%v, %v)", expr, from, got, want, err, err2)
		}
	})
}
