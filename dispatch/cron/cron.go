// Package cron tells when a schedule starts its job: a pure function of the schedule, the start before and the time. A coordinator that
// was away makes up for at most one start, the newest it missed.
package cron

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"covey/taskstate"

	"github.com/adhocore/gronx"
)

// MaxLate is how late a start may be: what was missed for longer waits for the next one.
const MaxLate = 24 * time.Hour

// Check tells what is wrong with a schedule, for people.
func Check(s *taskstate.Schedule) error {
	if n := len(strings.Fields(s.Cron)); n != 5 && !strings.HasPrefix(s.Cron, "@") {
		return fmt.Errorf(`%q has %d fields: want five, minute hour day month weekday, as in "0 3 * * *" for every day at three`, s.Cron, n)
	}
	if !gronx.IsValid(s.Cron) {
		return fmt.Errorf(`%q is no cron expression: want minute hour day month weekday, as in "*/15 8-18 * * 1-5"`, s.Cron)
	}
	zone, err := location(s)
	if err != nil {
		return err
	}
	if _, err := gronx.NextTickAfter(s.Cron, time.Unix(0, 0).In(zone), false); err != nil {
		return fmt.Errorf("%q never comes: %w", s.Cron, err)
	}
	return nil
}

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
	t, err := gronx.NextTickAfter(s.Cron, time.UnixMilli(after).In(zone), false)
	if err != nil {
		return 0, fmt.Errorf("%q never comes again: %w", s.Cron, err)
	}
	return t.UnixMilli(), nil
}

// Due tells whether a start is due: the newest that lies after last (the start before, or when the schedule was accepted), is not in
// the future and not too late.
func Due(s *taskstate.Schedule, last, now int64) (at int64, due bool, err error) {
	zone, err := location(s)
	if err != nil {
		return 0, false, err
	}
	from := max(last, now-MaxLate.Milliseconds())
	t, err := gronx.NextTickAfter(s.Cron, time.UnixMilli(from).In(zone), false)
	if err != nil || t.UnixMilli() > now {
		return 0, false, err
	}
	at = t.UnixMilli()
	if t, err := gronx.PrevTickBefore(s.Cron, time.UnixMilli(now).In(zone), true); err == nil && t.UnixMilli() > at && t.UnixMilli() <= now {
		at = t.Truncate(time.Minute).UnixMilli()
	}
	return at, true, nil
}
