package jobfile

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/coveyproject/covey/taskstate"
)

// arrayRange is one part of an array: first, first+step … up to last, each written with at least
// width digits.
type arrayRange struct{ first, last, step, width int }

func (r arrayRange) count() int { return (r.last-r.first)/r.step + 1 }

// plain tells whether its numbers follow each other and are written as they are.
func (r arrayRange) plain() bool { return r.step == 1 && r.width == 0 }

// Array gives a job a slot for each number of what is written like 5, 1-100, 1,3,5, 1-10:2 or
// 01-10, or several of them with commas; a number that is written twice counts once. Numbers in a
// row cost nothing; any others are a list of items. The error says what is wanted.
func Array(j *taskstate.Job, s string) error {
	var parts []arrayRange
	count := 0
	for word := range strings.SplitSeq(s, ",") {
		r, ok := parseArrayRange(word)
		if !ok {
			return fmt.Errorf("expected numbers and ranges A-B with A ≤ B, as in 5, 1-100, 1,3,5, 1-10:2 or 01-10, got %q", clip(s))
		}
		parts = append(parts, r)
		if count += r.count(); count > MaxCount {
			return fmt.Errorf("%s are more than %s tasks, the most a job has; make several of it", clip(s), grouped(MaxCount))
		}
	}
	if r := parts[0]; len(parts) == 1 && r.plain() {
		j.First, j.Numbered, j.Count = r.first, true, r.count()
		return nil
	}
	j.Each = make([]string, 0, count)
	had := make(map[string]bool, count)
	for _, r := range parts {
		for n := r.first; n <= r.last; n += r.step {
			if item := fmt.Sprintf("%0*d", r.width, n); !had[item] {
				j.Each, had[item] = append(j.Each, item), true
			}
		}
	}
	j.Count = len(j.Each)
	return nil
}

// AxisValues are the values of an axis as the command line writes them: with commas, and A-B is a
// range, as in an array.
func AxisValues(s string) ([]string, error) {
	var all []string
	for word := range strings.SplitSeq(s, ",") {
		values, ok, err := rangeValues(word)
		switch {
		case err != nil:
			return nil, err
		case ok:
			all = append(all, values...)
		default:
			all = append(all, word)
		}
		if len(all) > MaxCount {
			return nil, fmt.Errorf("%s are more than %s tasks, the most a job has; make several of it", clip(s), grouped(MaxCount))
		}
	}
	return all, nil
}

// rangeValues are the numbers of an array with a range in it. ok is false of any other text.
func rangeValues(s string) (values []string, ok bool, err error) {
	for word := range strings.SplitSeq(s, ",") {
		if _, number := parseArrayRange(word); !number {
			return nil, false, nil
		}
	}
	if !strings.Contains(s, "-") {
		return nil, false, nil
	}
	var j taskstate.Job
	if err := Array(&j, s); err != nil {
		return nil, true, err
	}
	for slot := 1; slot <= j.Count; slot++ {
		values = append(values, j.Item(slot))
	}
	return values, true, nil
}

// parseArrayRange reads N, A-B or A-B:STEP. A zero in front of A or B keeps the width: 08-10 is 08,
// 09, 10.
func parseArrayRange(s string) (arrayRange, bool) {
	word, stride, stepped := strings.Cut(s, ":")
	a, b, ranged := strings.Cut(word, "-")
	if !ranged {
		b = a
	}
	first, ok1 := arrayNumber(a)
	last, ok2 := arrayNumber(b)
	r := arrayRange{first: first, last: last, step: 1}
	if stepped {
		var ok bool
		if r.step, ok = arrayNumber(stride); !ok || r.step == 0 || !ranged {
			return r, false
		}
	}
	for _, n := range []string{a, b} {
		if len(n) > 1 && n[0] == '0' {
			r.width = max(r.width, len(n))
		}
	}
	return r, ok1 && ok2 && first <= last
}

// arrayDigits bounds how long a number of an array may be, zeros in front included.
const arrayDigits = 15

func arrayNumber(s string) (int, bool) {
	if s == "" || len(s) > arrayDigits || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}
