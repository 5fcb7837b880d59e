package main

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/taskstate"
)

// itemMark stands in --to for the item of a task.
const itemMark = "{}"

// homeFolder is where the files of a job's tasks belong.
type homeFolder struct {
	top    string // the folder around all of them; "" is the current one
	below  string // below it, with itemMark for the name of a task; "" is top itself
	byItem bool   // that name is the item, not the slot
}

// newHomeFolder is the folder that --to names. Without itemMark each task of a job with folders has
// one of its own, unless all files go into one; apart is false where they do.
func newHomeFolder(to string, folders taskstate.Folders, apart bool) (f homeFolder, err error) {
	f.top = to
	if !strings.Contains(to, itemMark) {
		if apart && folders != taskstate.NoFolders {
			f.below, f.byItem = itemMark, folders == taskstate.FoldersByItem
		}
		return f, nil
	}
	if folders == taskstate.NoFolders {
		return f, api.Errorf(api.Usage, "--to %s: {} is the item of a task, and this job has none", printable(to))
	}
	elements := strings.Split(filepath.ToSlash(filepath.Clean(to)), "/")
	n := slices.IndexFunc(elements, func(e string) bool { return strings.Contains(e, itemMark) })
	if n < 0 || slices.Contains(elements[n:], "..") {
		return f, api.Errorf(api.Usage, "--to %s: .. and {} do not go together; leave .. out", printable(to))
	}
	f.top, f.below, f.byItem = filepath.FromSlash(strings.Join(elements[:n], "/")), strings.Join(elements[n:], "/"), true
	if n == 1 && elements[0] == "" {
		f.top = string(filepath.Separator)
	}
	return f, nil
}

// foldersOf are the folders of a job as a peer knows it.
func foldersOf(j api.Job) taskstate.Folders {
	if j.Spec != nil && j.Spec.Folders != "" {
		return taskstate.Folders(j.Spec.Folders)
	}
	if j.Count > 1 {
		return taskstate.FoldersBySlot
	}
	return taskstate.NoFolders
}

// of is the folder of a task below top.
func (f homeFolder) of(slot int, item string) (string, error) {
	if f.below == "" {
		return "", nil
	}
	name := strconv.Itoa(slot)
	if f.byItem {
		name = cmp.Or(item, name)
	}
	switch {
	case name == "." || name == ".." || strings.HasPrefix(name, "/") || strings.Contains(name, "\x00"):
		return "", api.Errorf(api.Usage, "the item %s names no folder: . and .., a slash at its beginning and a zero byte are refused", strconv.Quote(name))
	case strings.Contains(name, `\`) && filepath.Separator == '\\' && filepath.IsAbs(name):
		return "", api.Errorf(api.Usage, "the item %s is an absolute path, and names no folder", strconv.Quote(name))
	}
	dir := strings.ReplaceAll(f.below, itemMark, oneElement(name))
	if err := tree.CheckPath(dir); err != nil {
		return "", api.Errorf(api.Usage, "the item %s names no folder: %v", strconv.Quote(name), tree.Reason(err))
	}
	return dir, nil
}

// oneElement escapes an item, so that it is one element of a path and two items stay two.
func oneElement(item string) string {
	var b strings.Builder
	for i := range len(item) {
		if c := item[i]; c < ' ' || c == 0x7f || strings.IndexByte(`%/\`, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// foldersTaken are folders of tasks by name, as systems see them that know no case.
type foldersTaken map[string]string

// take refuses a folder that is another task's.
func (t foldersTaken) take(dir, task string) error {
	if dir == "" {
		return nil
	}
	key := strings.ToLower(dir)
	if was, taken := t[key]; taken && was != task {
		return api.Errorf(api.Usage, "%s and %s have the same folder, %s; without {} in --to each task of a list has one by the number of its slot, and --flat is one for all",
			printable(was), printable(task), printable(dir))
	}
	t[key] = task
	return nil
}

// check refuses a job two of whose tasks would have one folder, before it is submitted.
func (f homeFolder) check(j *taskstate.Job) error {
	taken := foldersTaken{}
	for slot := 1; slot <= j.Count; slot++ {
		item := j.RawItem(j.Item(slot))
		dir, err := f.of(slot, item)
		if err == nil {
			err = taken.take(dir, fmt.Sprintf("task %d (%s)", slot, item))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dirsAround are the folders of a path below top, outermost first, with itself.
func dirsAround(dir string) (dirs []string) {
	for ; dir != "." && dir != ""; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	slices.Reverse(dirs)
	return dirs
}
