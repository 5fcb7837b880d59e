package jobfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/coveyproject/covey/taskstate"
)

// lookUp is what to do with a list that is too long to travel with a job.
const lookUp = `give slots numbers (count) and let each task look up its own line, as in sed -n "${COVEY_SLOT}p" list`

// Lines splits a list into items, one per line: what each_line and `peer run --each-line` run on.
// Line ends may be \n or \r\n, blank lines are not items, and everything else in a line is part of
// its item, also what is no UTF-8: then all are escaped (taskstate.EscapeItem). An error says why
// the list cannot be used.
func Lines(data []byte) (items []string, escaped bool, err error) {
	if len(data) > MaxList {
		return nil, false, fmt.Errorf("the list has more than %s bytes; %s", grouped(MaxList), lookUp)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	for line := range strings.SplitSeq(string(data), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) != "" {
			items = append(items, line)
		}
	}
	return listed(items, "lines")
}

// NullItems reads a list whose items end with a zero byte, as find -print0 writes them: each is
// what it is, with spaces and new lines. The last one may lack the zero byte; empty ones are left
// out.
func NullItems(data []byte) (items []string, escaped bool, err error) {
	if len(data) > MaxList {
		return nil, false, fmt.Errorf("the list has more than %s bytes; %s", grouped(MaxList), lookUp)
	}
	items = slices.DeleteFunc(strings.Split(string(data), "\x00"), func(s string) bool { return s == "" })
	return listed(items, "items")
}

// listed checks items that were read, and escapes them if one is not UTF-8.
func listed(items []string, what string) ([]string, bool, error) {
	if len(items) == 0 {
		return nil, false, fmt.Errorf("the list has no %s, so there is nothing to run", what)
	}
	if len(items) > MaxCount {
		return nil, false, fmt.Errorf("the list has %s %s, a job has at most %s slots", grouped(len(items)), what, grouped(MaxCount))
	}
	escaped := slices.ContainsFunc(items, func(s string) bool { return !utf8.ValidString(s) })
	if escaped {
		for i, s := range items {
			items[i] = taskstate.EscapeItem(s)
		}
	}
	return items, escaped, nil
}
