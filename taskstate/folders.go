package taskstate

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Folders says what names the folders that the files of a job's tasks are brought to.
type Folders string

// The kinds of names.
const (
	NoFolders     Folders = ""     // a job of one task without items: its files need no folder
	FoldersBySlot Folders = "slot" // from 1
	FoldersByItem Folders = "item" // of an array: its numbers
)

// Folders says what names the folders of its tasks: items that are numbers, as those of an array.
func (j *Job) Folders() Folders {
	switch {
	case j.Numbered || len(j.Each) > 0 && numbers(j.Each):
		return FoldersByItem
	case j.Count == 1 && len(j.Each)+len(j.Matrix) == 0:
		return NoFolders
	}
	return FoldersBySlot
}

// numbers reports whether all items are written in digits, and no two are the same.
func numbers(items []string) bool {
	seen := make(map[string]bool, len(items))
	for _, s := range items {
		if len(s) > 15 || seen[s] || strings.Trim(s, "0123456789") != "" || s == "" {
			return false
		}
		seen[s] = true
	}
	return true
}

// Named says how columns and commands name tasks where that is not their id: in an array whose
// numbers are not its slots as JOB.item=ITEM.ATTEMPT. Elsewhere it gives "".
func (j *Job) Named() func(TaskID) string {
	same := j.Folders() != FoldersByItem || j.Numbered && len(j.Each) == 0 && j.First == 1
	if !same && len(j.Each) > 0 {
		same = true
		for i, item := range j.Each {
			same = same && item == strconv.Itoa(i+1)
		}
	}
	return func(t TaskID) string {
		if item := j.Item(t.Slot); !same && item != "" {
			return fmt.Sprintf("%s.item=%s.%d", t.Job, item, t.Attempt)
		}
		return ""
	}
}

// Called is how commands and columns name a task.
func (j *Job) Called(t TaskID) string { return cmp.Or(j.Named()(t), t.String()) }
