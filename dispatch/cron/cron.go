// Package cron tells when a schedule starts its job: a pure function of the schedule, the start
// before and the time. A coordinator that was away makes up for at most one start, the newest it
// missed.
//
// Where clocks are set forward or back, a start at hours that are named (30 2 * * *) comes once on
// every day there is: at the end of the hour that is left out if it would have been in it, the
// first time in the hour that comes twice. Starts of every hour (*/15 * * * *) go on as if nothing
// had happened.
package cron

import (
	"errors"
	"fmt"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// MaxLate is how late a start may be: what was missed for longer waits for the next one.
const MaxLate = 24 * time.Hour

func location(s *taskstate.Schedule) (*time.Location, error) {
	if s.Zone == "" {
		return time.UTC, nil
	}
	if s.Zone == "Local" {
		return nil, errors.New("a peer's local time differs from another's: name the zone, as in Europe/Berlin")
	}
	zone, err := time.LoadLocation(s.Zone)
	if err != nil {
		return nil, fmt.Errorf("there is no time zone %q; zones are named as in Europe/Berlin or UTC", s.Zone)
	}
	return zone, nil
}

// Next is the first start after a moment. Moments are milliseconds since 1970.
func Next(s *taskstate.Schedule, after int64) (int64, error) {
	zone, err := location(s)
	if err != nil {
		return 0, err
	}
	t, err := next(s.Cron, time.UnixMilli(after).In(zone))
	if err != nil {
		return 0, fmt.Errorf("%q never comes again: %w", s.Cron, err)
	}
	return t.UnixMilli(), nil
}

// Names tells whether a moment is one at which the schedule starts its job; true of a schedule that
// cannot be read here, as without its time zone.
func Names(s *taskstate.Schedule, at int64) bool {
	next, err := Next(s, at-1)
	return err != nil || next == at
}

// Due tells whether a start is due: the newest that lies after last (the start before, or when the
// schedule was accepted), is not in the future and not too late.
func Due(s *taskstate.Schedule, last, now int64) (at int64, due bool, err error) {
	from := max(last, now-MaxLate.Milliseconds())
	if at, err = Next(s, from); err != nil || at > now {
		return 0, false, err
	}
	// The newest is looked for from now on backwards, in spans that grow: where starts are many, a
	// short one has some.
	for span := time.Minute.Milliseconds(); ; span *= 8 {
		since := max(from, now-span)
		at, err = Next(s, since)
		for t := at; err == nil && t <= now; t, err = Next(s, t) {
			at, due = t, true
		}
		if due || err != nil {
			return at, due, err
		}
	}
}
