package api

import (
	"strconv"
	"strings"

	"github.com/coveyproject/covey/taskstate"
)

// Subject is what a command is about, as a user typed it: a job, JOB.ITEM, JOB.SLOT, or
// JOB.SLOT.ATTEMPT as in JSON. JOB.item=ITEM and JOB.slot=SLOT say which; an attempt may follow.
type Subject struct {
	Job  string
	Task string // all behind the first dot, which names of jobs have none of; "" is the whole job
}

// ParseSubject takes it apart.
func ParseSubject(word string) (s Subject, err error) {
	of := false
	if s.Job, s.Task, of = strings.Cut(word, "."); s.Job == "" || of && s.Task == "" {
		err = Errorf(Usage, "%.100q: expected a job, or a task as JOB.ITEM of an array, else JOB.SLOT, as in last.3", word)
	}
	return s, err
}

func (s Subject) String() string { return s.Job + "." + s.Task }

// Find is the slot and attempt that are meant, in a job with such folders; 0: all. A number behind
// the dot is an item where items name the folders. Where an item of another slot is meant by the
// same word, it refuses.
func (s Subject) Find(folders taskstate.Folders, slots int, itemOf func(slot int) string) (slot, attempt int, err error) {
	if s.Task == "" {
		return 0, 0, nil
	}
	if n, only := strings.CutPrefix(s.Task, "slot="); only {
		slot, attempt = numberAndAttempt(n)
		if slot < 1 {
			return 0, 0, Errorf(Usage, "%q: expected JOB.slot=SLOT or JOB.slot=SLOT.ATTEMPT with numbers from 1", s.String())
		}
		return slot, attempt, nil
	}
	item, only := strings.CutPrefix(s.Task, "item=")
	items, text, tried := slotsOf(item, slots, itemOf), item, 0
	if before, last, two := cutLast(item); len(items) == 0 && two {
		if n := whole(last); n > 0 {
			items, text, tried = slotsOf(before, slots, itemOf), before, n
		}
	}
	switch {
	case len(items) > 1 && (only || whole(text) < 1):
		return 0, 0, Errorf(Usage, "%s: several tasks have the item %s; `%s.slot=%d` is the first of them", s, text, s.Job, items[0])
	case only && len(items) == 0:
		return 0, 0, Errorf(NotFound, "job %s has no item %s", s.Job, text)
	case only:
		return items[0], tried, nil
	}
	slot, attempt = numberAndAttempt(item)
	plain := folders == taskstate.FoldersByItem && tried == 0 && attempt == 0 // not as in JSON
	switch known := slot >= 1 && slot <= slots; {
	case slot < 1 && len(items) == 0:
		return 0, 0, Errorf(Usage, "%q is no task: expected JOB.ITEM of an array, else JOB.SLOT or JOB.SLOT.ATTEMPT with numbers from 1", s.String())
	case plain && len(items) == 0 && known:
		return 0, 0, Errorf(NotFound, "job %s has no item %d; slot %d is item %s: `%s.slot=%d`", s.Job, slot, slot, itemOf(slot), s.Job, slot)
	case len(items) == 0:
		return slot, attempt, nil
	case slot < 1 || plain || !known || len(items) == 1 && items[0] == slot:
		return items[0], tried, nil
	}
	return 0, 0, Errorf(Usage, "%s may be an item or a slot, which are two tasks: type `%s.item=%s` or `%s.slot=%s`", s, s.Job, s.Task, s.Job, s.Task)
}

func slotsOf(item string, slots int, itemOf func(int) string) (out []int) {
	if item == "" {
		return nil
	}
	for slot := 1; slot <= slots && len(out) < 2; slot++ {
		if itemOf(slot) == item {
			out = append(out, slot)
		}
	}
	return out
}

// cutLast cuts at the last dot.
func cutLast(s string) (before, last string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// numberAndAttempt reads N or N.ATTEMPT; 0, 0 is neither.
func numberAndAttempt(s string) (n, attempt int) {
	first, second, two := strings.Cut(s, ".")
	if n = whole(first); n < 1 {
		return 0, 0
	}
	if two {
		if attempt = whole(second); attempt < 1 {
			return 0, 0
		}
	}
	return n, attempt
}

// whole reads a whole number from 1 in its one spelling; 0 is none.
func whole(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || strconv.Itoa(n) != s {
		return 0
	}
	return n
}
