package cron

import (
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// next is the first start after t, in t's zone. The library compares the fields of a clock on the
// wall, so it is only asked about times between two changes of that clock, and the changes are seen
// to here.
func next(expr string, t time.Time) (time.Time, error) {
	named := !everyHour(expr)
	for too := false; ; too = true { // too: t itself may be the start
		_, offset := t.Zone()
		at, err := gronx.NextTickAfter(expr, t.In(time.FixedZone("", offset)), too)
		if err != nil {
			return time.Time{}, err
		}
		_, change := t.ZoneBounds()
		if change.IsZero() || at.Before(change) {
			return at, nil
		}
		_, later := change.Zone()
		forward := time.Duration(later-offset) * time.Second
		if named && at.Before(change.Add(forward)) {
			return change, nil // the hour it is in does not come today
		}
		t = change
		if named && forward < 0 {
			t = change.Add(-forward) // the hour that comes again has had its starts
		}
	}
}

// everyHour tells whether the hour of an expression is not named: * or */2.
func everyHour(expr string) bool {
	fields := strings.Fields(expr)
	return len(fields) == 5 && strings.HasPrefix(fields[1], "*")
}
