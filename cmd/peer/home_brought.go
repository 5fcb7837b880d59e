package main

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/taskstate"
)

// broughtList is what one command brought to one folder, so that its next result may replace that.
// It is a file in the caller's state folder to which a line is added for each file and link. Errors
// of it are not told: a file that is not in the list is refused, and nothing is lost.
type broughtList struct {
	command [sha256.Size]byte
	file    *os.File // nil: nothing is remembered
	entries map[string]tree.Entry
}

// maxBrought is how many lists are kept; the one that was not used for longest goes first.
const maxBrought = 1000

// broughtBy is the list of a job's command. It does not depend on what tasks are given.
func broughtBy(j *taskstate.Job) *broughtList {
	p := cmp.Or(j.Run.Process, &taskstate.Process{})
	key, _ := json.Marshal([]any{j.Name, p.Command, p.Dir, p.Shell, p.ScriptName})
	return &broughtList{command: sha256.Sum256(key)}
}

// open reads what was brought to a folder that is there.
func (b *broughtList) open(to string) {
	if b.entries != nil {
		return
	}
	b.entries = map[string]tree.Entry{}
	at, err := filepath.Abs(cmp.Or(to, "."))
	if err == nil {
		at, err = filepath.EvalSymlinks(at)
	}
	lists := broughtFolder()
	if err != nil || lists == "" || os.MkdirAll(lists, 0o700) != nil {
		return
	}
	name := filepath.Join(lists, fmt.Sprintf("%x", sha256.Sum256(append(b.command[:], at...))))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	b.file = f
	lines := 0
	for s := bufio.NewScanner(f); s.Scan(); lines++ {
		if e, ok := parseBrought(s.Text()); ok {
			b.entries[e.Path] = e
		}
	}
	switch {
	case lines == 0:
		forgetBrought(lists)
	case lines > 2*len(b.entries)+100:
		b.shorten(name)
	}
	_, _ = f.WriteString("\n") // what a machine that died has left of a line is one by itself
}

// shorten writes the list anew, with one line for each entry.
func (b *broughtList) shorten(name string) {
	f, err := os.OpenFile(name+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	w := bufio.NewWriter(f)
	for _, e := range b.entries {
		_, _ = w.WriteString(broughtLine(e))
	}
	if w.Flush() != nil || os.Rename(f.Name(), name) != nil {
		f.Close()
		return
	}
	b.file.Close()
	b.file = f
}

func (b *broughtList) close() {
	if b != nil && b.file != nil {
		b.file.Close()
		b.file = nil
	}
}

// at is what was brought to a path.
func (b *broughtList) at(path string) (tree.Entry, bool) {
	e, known := b.entries[path]
	return e, known
}

// wrote adds what was brought just now.
func (b *broughtList) wrote(e tree.Entry) {
	b.entries[e.Path] = e
	if b.file != nil {
		_, _ = b.file.WriteString(broughtLine(e))
	}
}

// broughtLine is path, size and hash of a file, or path and target of a link.
func broughtLine(e tree.Entry) string {
	if e.Kind == tree.Link {
		return fmt.Sprintf("%q -> %q\n", e.Path, e.Target)
	}
	return fmt.Sprintf("%q %d %s\n", e.Path, e.Size, e.Root)
}

func parseBrought(line string) (e tree.Entry, ok bool) {
	if _, err := fmt.Sscanf(line, "%q -> %q", &e.Path, &e.Target); err == nil {
		e.Kind = tree.Link
		return e, true
	}
	var root string
	if _, err := fmt.Sscanf(line, "%q %d %s", &e.Path, &e.Size, &root); err != nil {
		return e, false
	}
	var err error
	e.Kind = tree.File
	e.Root, err = piece.ParseRoot(root)
	return e, err == nil
}

// broughtFolder is where the lists are, beside the caller's data folder; "": there is no place for
// them.
func broughtFolder() string {
	if data := defaultData(); filepath.IsAbs(data) {
		return data + "-brought"
	}
	return ""
}

// forgetBrought makes room for one more list.
func forgetBrought(lists string) {
	names, _ := os.ReadDir(lists)
	if len(names) <= maxBrought {
		return
	}
	infos := make([]os.FileInfo, 0, len(names))
	for _, n := range names {
		if info, err := n.Info(); err == nil {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, old := range infos[:max(0, len(infos)-maxBrought)] {
		_ = os.Remove(filepath.Join(lists, old.Name()))
	}
}
