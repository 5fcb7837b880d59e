package jobfile

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// lookUp is what to do with a list that is too long to travel with a job.
const lookUp = `give slots numbers (count) and let each task look up its own line, as in sed -n "${COVEY_SLOT}p" list`

// Lines splits a list into items, one per line: what each_line and `peer run --each-line` run on. Line ends may be \n or \r\n, blank lines are
// not items, and everything else in a line is part of its item. An error says why the list cannot be used.
func Lines(data []byte) ([]string, error) {
	if len(data) > MaxList {
		return nil, fmt.Errorf("the list has more than %s bytes; %s", grouped(MaxList), lookUp)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("the list is not UTF-8 text (line %d)", invalidUTF8(data).line)
	}
	var items []string
	for line := range strings.SplitSeq(string(data), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) != "" {
			items = append(items, line)
		}
	}
	if len(items) == 0 {
		return nil, errors.New("the list has no lines, so there is nothing to run")
	}
	if len(items) > MaxCount {
		return nil, fmt.Errorf("the list has %s lines, a job has at most %s slots", grouped(len(items)), grouped(MaxCount))
	}
	return items, nil
}

// NullItems reads a list whose items end with a zero byte, as find -print0 writes them: each is what it is, with spaces and new
// lines. The last one may lack the zero byte; empty ones are left out.
func NullItems(data []byte) ([]string, error) {
	if len(data) > MaxList {
		return nil, fmt.Errorf("the list has more than %s bytes; %s", grouped(MaxList), lookUp)
	}
	if !utf8.Valid(data) {
		return nil, errors.New("the list is not UTF-8 text")
	}
	items := slices.DeleteFunc(strings.Split(string(data), "\x00"), func(s string) bool { return s == "" })
	if len(items) == 0 {
		return nil, errors.New("the list has no items, so there is nothing to run")
	}
	if len(items) > MaxCount {
		return nil, fmt.Errorf("the list has %s items, a job has at most %s slots", grouped(len(items)), grouped(MaxCount))
	}
	return items, nil
}
