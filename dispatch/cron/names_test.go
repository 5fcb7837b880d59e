package cron_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/cron"
	"github.com/coveyproject/covey/taskstate"
)

func TestWhatIsDueIsAMomentThatTheScheduleNames(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := &taskstate.Schedule{
			Cron: rapid.SampledFrom([]string{"* * * * *", "*/7 * * * *", "0 3 * * *", "30 2 * * *", "15 */2 * * 1-5", "0 0 1 * *"}).Draw(r, "cron"),
			Zone: rapid.SampledFrom([]string{"", "UTC", "Europe/Berlin", "Australia/Lord_Howe"}).Draw(r, "zone"),
		}
		now := rapid.Int64Range(1_600_000_000_000, 1_900_000_000_000).Draw(r, "now")
		next, err := cron.Next(s, now)
		if err != nil {
			r.Fatal(err)
		}
		if !cron.Names(s, next) {
			r.Fatalf("it starts at %d, and does not name that", next)
		}
		if at, due, err := cron.Due(s, next-1, next+time.Second.Milliseconds()); err != nil || !due || !cron.Names(s, at) {
			r.Fatalf("due at %d (%t, %v)", at, due, err)
		}
		if now != next && now%60_000 != 0 && cron.Names(s, now) {
			r.Fatalf("%d is named, and is no full minute", now)
		}
	})
}
