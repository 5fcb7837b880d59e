package cron_test

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/cron"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"

	"pgregory.net/rapid"
)

func at(s string) int64 {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t.UnixMilli()
}

func TestAStartIsDueOnceAndNotBeforeItsTime(t *testing.T) {
	s := &taskstate.Schedule{Cron: "0 3 * * *"}
	for _, x := range []struct {
		last, now string
		want      string
	}{
		{"2026-11-20T12:00:00Z", "2026-11-21T02:59:59Z", ""},
		{"2026-11-20T12:00:00Z", "2026-11-21T03:00:00Z", "2026-11-21T03:00:00Z"},
		{"2026-11-21T03:00:00Z", "2026-11-21T03:00:30Z", ""},
		{"2026-11-21T03:00:00Z", "2026-11-22T02:59:59Z", ""},
		{"2026-11-10T03:00:00Z", "2026-11-21T09:00:00Z", "2026-11-21T03:00:00Z"}, // of many missed, the newest
	} {
		got, due, err := cron.Due(s, at(x.last), at(x.now))
		if err != nil || due != (x.want != "") || due && got != at(x.want) {
			t.Errorf("last %s, now %s: %s, %v, %v", x.last, x.now, time.UnixMilli(got).UTC(), due, err)
		}
	}
}

func TestWhatWasMissedForMoreThanADayWaitsForTheNextTime(t *testing.T) {
	s := &taskstate.Schedule{Cron: "0 3 1 * *"}
	if at, due, err := cron.Due(s, at("2026-10-15T00:00:00Z"), at("2026-11-21T09:00:00Z")); due || err != nil {
		t.Errorf("due at %d, %v", at, err)
	}
}

func TestAScheduleKeepsItsTimeZoneThroughTheYear(t *testing.T) {
	s := &taskstate.Schedule{Cron: "0 3 * * *", Zone: "Europe/Berlin"}
	for after, want := range map[string]string{
		"2026-07-01T12:00:00Z": "2026-07-02T01:00:00Z",
		"2026-12-01T12:00:00Z": "2026-12-02T02:00:00Z",
	} {
		if got, err := cron.Next(s, at(after)); err != nil || got != at(want) {
			t.Errorf("after %s: %s, %v", after, time.UnixMilli(got).UTC(), err)
		}
	}
}

func TestAStartThatIsDueLiesBetweenTheLastAndNowAndIsTheNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &taskstate.Schedule{
			Cron: rapid.SampledFrom([]string{"* * * * *", "*/15 * * * *", "0 3 * * *", "30 6 * * 1-5", "0 0 1 * *", "5,35 */2 * * *"}).Draw(t, "cron"),
			Zone: rapid.SampledFrom([]string{"", "Europe/Berlin", "America/New_York", "Asia/Kolkata"}).Draw(t, "zone"),
		}
		now := at("2026-01-01T00:00:00Z") + rapid.Int64Range(0, 365*24*3600*1000).Draw(t, "now")
		last := now - rapid.Int64Range(0, 3*24*3600*1000).Draw(t, "ago")
		got, due, err := cron.Due(s, last, now)
		if err != nil {
			t.Fatal(err)
		}
		if !due {
			if next, err := cron.Next(s, max(last, now-cron.MaxLate.Milliseconds())); err != nil || next <= now {
				t.Fatalf("nothing due, but %d was (%v)", next, err)
			}
			return
		}
		if got <= last || got > now || got%60_000 != 0 {
			t.Fatalf("due at %d, last %d, now %d", got, last, now)
		}
		if next, err := cron.Next(s, got); err != nil || next <= now {
			t.Fatalf("%d is due, but %d is newer (%v)", got, next, err)
		}
		if _, again, _ := cron.Due(s, got, now); again {
			t.Fatal("due twice")
		}
	})
}

// scheduled is a job that a schedule starts: checked where jobs are.
func scheduled(s taskstate.Schedule) *taskstate.Job {
	j := &taskstate.Job{Run: taskstate.Run{Noop: &taskstate.Noop{}}, Schedule: &s}
	jobfile.Defaults(j)
	return j
}

func TestASchedulesMistakesAreSaid(t *testing.T) {
	for _, bad := range []taskstate.Schedule{
		{},
		{Cron: "hourly"},
		{Cron: "@daily"},
		{Cron: "0 3 * *"},
		{Cron: "0 25 * * *"},
		{Cron: "61 * * * *"},
		{Cron: "0 0 0 3 * *"},
		{Cron: "0 3 * * *", Zone: "Europe/Atlantis"},
		{Cron: "0 3 * * *", Zone: "Local"},
		{Cron: "0 0 31 2 *"},
	} {
		if jobfile.Validate(scheduled(bad)) == nil {
			t.Errorf("%+v passed", bad)
		}
	}
	for _, good := range []taskstate.Schedule{{Cron: "0 3 * * *"}, {Cron: "*/5 * * * MON-FRI", Zone: "Europe/Berlin"}} {
		if err := jobfile.Validate(scheduled(good)); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
}
