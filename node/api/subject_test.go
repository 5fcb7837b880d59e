package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate"
)

func TestATaskIsMeantByItsItemOrItsSlotAndWhereBothArePossibleByNeither(t *testing.T) {
	array := taskstate.Job{Count: 3, Numbered: true} // 0 1 2
	sparse := taskstate.Job{Count: 3, Each: []string{"2", "7", "30"}}
	same := taskstate.Job{Count: 3, Numbered: true, First: 1}
	list := taskstate.Job{Count: 5, Each: []string{"a", "1", "3", "1.5", "a"}}
	none := taskstate.Job{Count: 3}
	both := " may be an item or a slot"
	for _, c := range []struct {
		job        taskstate.Job
		task, want string
	}{
		{array, "0", "1 0"},
		{array, "1", "2 0"},
		{array, "3", "no item 3; slot 3 is item 2: `j.slot=3`"},
		{array, "4", "4 0"},
		{array, "0.1", "1 1"},
		{array, "3.1", "3 1"},
		{array, "1.1", "j.1.1" + both + ", which are two tasks: type `j.item=1.1` or `j.slot=1.1`"},
		{array, "item=1.1", "2 1"},
		{array, "slot=1.1", "1 1"},
		{array, "item=3", "no item 3"},
		{sparse, "7", "2 0"},
		{sparse, "2", "1 0"},
		{sparse, "2.1", both},
		{sparse, "1", "no item 1"},
		{same, "2", "2 0"},
		{same, "2.3", "2 3"},
		{list, "2", "2 0"},
		{list, "1", both},
		{list, "3", "3 0"},
		{list, "a", "several tasks have the item a; `j.slot=1`"},
		{list, "1.5", both},
		{list, "item=1.5", "4 0"},
		{list, "item=1.5.2", "4 2"},
		{list, "slot=1.5", "1 5"},
		{none, "2.1", "2 1"},
		{none, "0", "is no task"},
		{none, "x", "is no task"},
		{none, "01", "is no task"},
		{none, "1.2.3", "is no task"},
		{none, "slot=x", "expected JOB.slot="},
		{none, "item=1", "no item 1"},
	} {
		s, err := ParseSubject("j." + c.task)
		if err != nil {
			t.Fatal(err)
		}
		slot, attempt, err := s.Find(c.job.Folders(), c.job.Count, c.job.Item)
		got := fmt.Sprint(slot, " ", attempt)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%v of %v: %s, not %s", s, c.job, got, c.want)
		}
	}
}

func TestATaskIsBehindTheFirstDotOfItsJob(t *testing.T) {
	for word, want := range map[string]string{"last": "last|", "abc.2": "abc|2", "a.item=x.y": "a|item=x.y", "abc.": "", ".1": "", "": ""} {
		s, err := ParseSubject(word)
		if got := s.Job + "|" + s.Task; (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q: %q, %v", word, got, err)
		}
	}
}
