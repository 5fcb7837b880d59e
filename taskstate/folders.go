package taskstate

import "strings"

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
