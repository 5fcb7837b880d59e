package jobfile_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"

	"github.com/adhocore/gronx"
	"pgregory.net/rapid"
)

// cronPart is one field of an expression as crontab(5) has it, read for the test alone.
type cronPart struct {
	low, high int
	names     []string // of low and on
}

func cronParts() [5]cronPart {
	return [5]cronPart{
		{0, 59, nil},
		{0, 23, nil},
		{1, 31, nil},
		{1, 12, []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}},
		{0, 7, []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
	}
}

// draw writes one field of a list of values, ranges and steps.
func (p cronPart) draw(t *rapid.T) string {
	value := func(n int) string {
		if i := n - p.low; i < len(p.names) && rapid.Bool().Draw(t, "by name") {
			return rapid.SampledFrom([]string{p.names[i], strings.ToLower(p.names[i])}).Draw(t, "name")
		}
		return strconv.Itoa(n)
	}
	var items []string
	for range rapid.IntRange(1, 3).Draw(t, "items") {
		a, b := rapid.IntRange(p.low, p.high).Draw(t, "from"), rapid.IntRange(p.low, p.high).Draw(t, "to")
		a, b = min(a, b), max(a, b)
		step := rapid.IntRange(1, min(p.high, 9)).Draw(t, "step")
		switch rapid.IntRange(0, 5).Draw(t, "form") {
		case 0:
			return "*" // in a list it says nothing, and crons differ about whether it restricts
		case 1:
			items = append(items, fmt.Sprintf("*/%d", step))
		case 2:
			items = append(items, fmt.Sprintf("%d-%d/%d", a, b, step))
		case 3:
			items = append(items, value(a)+"-"+value(b))
		default:
			items = append(items, value(a))
		}
	}
	return strings.Join(items, ",")
}

// holds tells whether a field lets a number pass.
func (p cronPart) holds(field string, n int) bool {
	number := func(s string) int {
		if i := slices.Index(p.names, strings.ToUpper(s)); i >= 0 {
			return p.low + i
		}
		v, err := strconv.Atoi(s)
		if err != nil {
			panic(s)
		}
		return v
	}
	for item := range strings.SplitSeq(field, ",") {
		span, by, _ := strings.Cut(item, "/")
		low, high, step := p.low, p.high, 1
		if by != "" {
			step = number(by)
		}
		if from, to, ranged := strings.Cut(span, "-"); ranged {
			low, high = number(from), number(to)
		} else if span != "*" {
			low, high = number(span), number(span)
		}
		if n >= low && n <= high && (n-low)%step == 0 {
			return true
		}
	}
	return false
}

// due tells whether a job starts at a minute. Of the two fields for days either is enough, unless
// one of them begins with a star.
func due(expr string, at time.Time) bool {
	f, p := strings.Fields(expr), cronParts()
	day := p[2].holds(f[2], at.Day())
	week := p[4].holds(f[4], int(at.Weekday())) || at.Weekday() == time.Sunday && p[4].holds(f[4], 7)
	days := day && week
	if f[2][0] != '*' && f[4][0] != '*' {
		days = day || week
	}
	return p[0].holds(f[0], at.Minute()) && p[1].holds(f[1], at.Hour()) && days && p[3].holds(f[3], int(at.Month()))
}

// What is accepted starts when crontab(5) says: a person who writes 7, SUN or 5-7 means the days
// that every cron means.
func TestAScheduleThatIsAcceptedStartsWhenCronSays(t *testing.T) {
	checked := 0
	rapid.Check(t, func(r *rapid.T) {
		var fields []string
		for _, p := range cronParts() {
			fields = append(fields, p.draw(r))
		}
		expr := strings.Join(fields, " ")
		j := process(func(j *taskstate.Job, _ *taskstate.Process) { j.Schedule = &taskstate.Schedule{Cron: expr} })
		if err := jobfile.Validate(j); err != nil {
			if !strings.Contains(err.Error(), "never comes") {
				r.Fatalf("%s: %v", expr, err)
			}
			return
		}
		checked++
		at := time.Date(2024, 2, 27, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 800).Draw(r, "day"))
		g := gronx.New()
		for range 20 { // some minutes of some days in a row
			at = at.Add(time.Duration(rapid.IntRange(1, 36*60).Draw(r, "minutes later")) * time.Minute)
			got, err := g.IsDue(expr, at)
			if want := due(expr, at); err != nil || got != want {
				r.Fatalf("%q is due at %s: %t, want %t (%v)", expr, at.Format("Mon 2006-01-02 15:04"), got, want, err)
			}
		}
	})
	if checked == 0 {
		t.Error("no expression was accepted")
	}
}
