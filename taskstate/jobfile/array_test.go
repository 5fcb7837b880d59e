package jobfile_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"

	"pgregory.net/rapid"
)

// itemsOf are the items of a job as its tasks see them.
func itemsOf(j *taskstate.Job) (items []string) {
	for slot := 1; slot <= j.Count; slot++ {
		items = append(items, j.Item(slot))
	}
	return items
}

func TestAnArrayIsWrittenAsInOtherSchedulers(t *testing.T) {
	for in, want := range map[string]string{
		"5": "5", "0": "0", "1-3": "1 2 3", "5-5": "5", "0-2": "0 1 2", "1,3,5": "1 3 5", "1-10:2": "1 3 5 7 9", "1-10:3": "1 4 7 10", "0-0:7": "0",
		"08-11": "08 09 10 11", "8-011": "008 009 010 011", "001": "001", "1-3,7,09-10": "1 2 3 7 09 10", "3,1,3": "3 1", "1,1": "1",
	} {
		var j taskstate.Job
		if err := jobfile.Array(&j, in); err != nil {
			t.Errorf("%s: %v", in, err)
		} else if got := strings.Join(itemsOf(&j), " "); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	for _, in := range []string{
		"", "a", "5-1", "-3", "1-", "1--3", "1,,3", "1,", ",1", "1-3:0", "1-3:", "5:2", "1-3:-1", "+1", "1 - 3", "1.5", "0x10", "9999999999999999", "1-3:2:1",
		"-", "-1", "-1-2", "2-1", "a-b", "1-2-3", "1.5-2", "0-99999999999999999999", "0-9223372036854775807",
	} {
		if err := jobfile.Array(&taskstate.Job{}, in); err == nil || !strings.Contains(err.Error(), "A ≤ B") {
			t.Errorf("%q: %v", in, err)
		}
	}
	for _, in := range []string{"1-1000001", "0-999999,5", "1-999999999999999:1"} {
		if err := jobfile.Array(&taskstate.Job{}, in); err == nil || !strings.Contains(err.Error(), "the most a job has") {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// Whatever is written, its numbers come in that order, and a range in a row takes no room however
// long it is.
func TestAnArraysNumbersComeInTheOrderTheyAreWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var words, want []string
		for range rapid.IntRange(1, 4).Draw(t, "parts") {
			first, n, step := rapid.IntRange(0, 2000).Draw(t, "first"), rapid.IntRange(0, 30).Draw(t, "n"), rapid.IntRange(1, 9).Draw(t, "step")
			width := rapid.IntRange(0, 6).Draw(t, "width")
			padded := fmt.Sprintf("%0*d", width, first)
			if padded == strconv.Itoa(first) {
				width = 0
			}
			words = append(words, fmt.Sprintf("%s-%d:%d", padded, first+n*step, step))
			for i := range n + 1 {
				want = append(want, fmt.Sprintf("%0*d", width, first+i*step))
			}
		}
		var j taskstate.Job
		if err := jobfile.Array(&j, strings.Join(words, ",")); err != nil {
			t.Fatal(err)
		}
		once := []string{}
		for _, item := range want {
			if !slices.Contains(once, item) {
				once = append(once, item)
			}
		}
		want = once
		if got := itemsOf(&j); !slices.Equal(got, want) {
			t.Fatalf("%v: %v, want %v", words, got, want)
		}
	})
	var long taskstate.Job
	if err := jobfile.Array(&long, fmt.Sprintf("1-%d", jobfile.MaxCount)); err != nil || long.Each != nil || long.Count != jobfile.MaxCount {
		t.Errorf("%v, %d items kept", err, len(long.Each))
	}
}
