package atomicfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coveyproject/covey/internal/atomicfile"
)

func TestAFileIsReplacedWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, text := range []string{"old", "new and longer", ""} {
		if err := atomicfile.Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(path); string(b) != text {
			t.Fatalf("%q", b)
		}
	}
	if i, err := os.Stat(path); err != nil || i.Mode().Perm() != 0o600 {
		t.Fatal(i.Mode(), err)
	}
	// A half-written file of a crash is in nobody's way.
	if err := os.WriteFile(path+".new", []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(path, []byte("whole")); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(dir)
	if b, _ := os.ReadFile(path); string(b) != "whole" || len(entries) != 1 {
		t.Fatalf("%q %v", b, entries)
	}
	// What cannot take its place leaves the old one, and no rubbish.
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(filepath.Join(dir, "taken"), nil); err == nil || !strings.Contains(err.Error(), "taken") {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "taken.new")); err == nil {
		t.Fatal("the temporary file stays")
	}
}
