package main

import (
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate"
)

func TestFilesOfATaskHaveTheFolderOfItsItemOrSlot(t *testing.T) {
	for _, c := range []struct {
		to      string
		folders taskstate.Folders
		apart   bool
		item    string
		want    string // top | below
	}{
		{"d", taskstate.FoldersByItem, true, "0", "d|0"},
		{"", taskstate.FoldersByItem, true, "07", "|07"},
		{"d", taskstate.FoldersBySlot, true, "x", "d|3"},
		{"d", taskstate.NoFolders, true, "", "d|"},
		{"d", taskstate.FoldersByItem, false, "0", "d|"},
		{"d/{}", taskstate.FoldersBySlot, true, "a/b%", "d|a%2Fb%25"},
		{"d/x-{}/{}/o", taskstate.FoldersBySlot, true, "é", "d|x-é/é/o"},
		{"{}", taskstate.FoldersBySlot, true, "a", "|a"},
		{"/{}", taskstate.FoldersBySlot, true, "a", "/|a"},
		{"../{}", taskstate.FoldersBySlot, true, "a\n", "..|a%0A"},
		{"{}", taskstate.FoldersBySlot, true, "", "|3"},
	} {
		f, err := newHomeFolder(c.to, c.folders, c.apart)
		if err != nil {
			t.Fatal(err)
		}
		dir, err := f.of(3, c.item)
		if got := strings.ReplaceAll(f.top, `\`, "/") + "|" + dir; err != nil || got != c.want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
	for _, to := range []string{"{}", "d/{}"} {
		if _, err := newHomeFolder(to, taskstate.NoFolders, true); err == nil {
			t.Errorf("%s without items", to)
		}
	}
}

func TestItemsThatNameNoFolderOfTheirOwnAreRefused(t *testing.T) {
	f, err := newHomeFolder("d/{}", taskstate.FoldersBySlot, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range [][]string{{"."}, {".."}, {"/etc"}, {"a\x00b"}, {"a", "A"}, {"x", "y", "x"}, {strings.Repeat("n", 300)}} {
		if err := f.check(&taskstate.Job{Count: len(each), Each: each}); err == nil {
			t.Errorf("%q", each)
		}
	}
	for _, each := range [][]string{{"a/b", "a%2Fb"}, {"..a", "...", "a/.."}} {
		if err := f.check(&taskstate.Job{Count: len(each), Each: each}); err != nil {
			t.Errorf("%q: %v", each, err)
		}
	}
}
