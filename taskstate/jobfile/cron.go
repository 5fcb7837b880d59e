package jobfile

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// maxCron caps an expression in bytes.
const maxCron = 256

type part struct {
	name      string
	low, high int
	names     string // of its values, from low on (of weekdays, from 0)
}

// parts are the five fields in order. 7 is Sunday, as 0 is.
func parts() [5]part {
	return [5]part{
		{"minute", 0, 59, ""},
		{"hour", 0, 23, ""},
		{"day of the month", 1, 31, ""},
		{"month", 1, 12, "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"},
		{"weekday", 0, 7, "SUN MON TUE WED THU FRI SAT"},
	}
}

// checkCron tells what is wrong with an expression. It knows the plain form every cron has –
// numbers, names of months and weekdays, * , - / – and nothing else, because what one cron's
// extension means another's does not.
func checkCron(expr string) error {
	words := strings.Fields(expr)
	if len(expr) > maxCron || len(words) != 5 {
		return fmt.Errorf(`expected five fields – minute, hour, day of the month, month, weekday – as in "0 3 * * *", got %q`, clip(expr))
	}
	for i, p := range parts() {
		for item := range strings.SplitSeq(words[i], ",") {
			if err := p.check(item); err != nil {
				return fmt.Errorf("the %s of %q: %w", p.name, clip(expr), err)
			}
		}
	}
	// A fixed day, so that a file that is valid once is so for ever; from it on every day there is
	// comes soon.
	if _, err := gronx.NextTickAfter(expr, time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), true); err != nil || !gronx.IsValid(expr) {
		return fmt.Errorf("%q never comes; is there such a day?", clip(expr))
	}
	return nil
}

// check looks at one item of a list: * or a value or a range, each with a step or without.
func (p part) check(item string) error {
	span, step, stepped := strings.Cut(item, "/")
	if n, err := strconv.Atoi(step); stepped && (err != nil || n < 1 || n > p.high || step != strconv.Itoa(n)) {
		return fmt.Errorf("expected a step from 1 to %d, as in */5, got %q", p.high, clip(step))
	}
	if span == "*" {
		return nil
	}
	from, to, ranged := strings.Cut(span, "-")
	low, err := p.value(from)
	if err != nil {
		return err
	}
	if !ranged {
		if stepped {
			return fmt.Errorf("a step needs a range, as in %s-%d/%s", from, p.high, step)
		}
		return nil
	}
	high, err := p.value(to)
	if err == nil && high < low {
		err = fmt.Errorf("the range %s ends before it begins", clip(span))
	}
	return err
}

func (p part) value(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		n = -1
		for i, name := range strings.Fields(p.names) {
			if strings.EqualFold(s, name) {
				return p.low + i, nil
			}
		}
	}
	if n < p.low || n > p.high || strings.Trim(s, "0123456789") != "" {
		words := ""
		if p.names != "" {
			words = " or " + strings.ReplaceAll(p.names, " ", ", ")
		}
		return 0, fmt.Errorf("expected * or %d to %d%s, got %q", p.low, p.high, words, clip(s))
	}
	return n, nil
}

func checkZone(zone string) error {
	if zone == "" || zone == "UTC" {
		return nil
	}
	switch strings.ToLower(zone) {
	case "local", "localtime", "posixrules": // the last two are files some systems keep beside the zones
		return errors.New("every peer may have another local time; name a zone, as in Europe/Berlin")
	}
	if len(zone) > 64 {
		return errors.New("expected a time zone, as in Europe/Berlin or UTC")
	}
	if _, err := time.LoadLocation(zone); err != nil {
		return fmt.Errorf("there is no time zone %q; expected one as in Europe/Berlin, America/New_York or UTC", clip(zone))
	}
	return nil
}
