package supervise

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A task may put anything where the notes are: nothing waits for it, and nothing else is written
// to.
func TestWhatATaskPutsInPlaceOfTheNotesIsLeftAlone(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a link":   func(path string) error { return os.Symlink(filepath.Join(filepath.Dir(path), "other"), path) },
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		dir := t.TempDir()
		x := times{path: filepath.Join(dir, TimesFile("stdout")), count: -1}
		if err := put(x.path); err != nil {
			t.Fatal(err)
		}
		x.note(10, 1000)
		if !x.ended {
			t.Errorf("%s passes for notes", name)
		}
		if _, err := os.Stat(filepath.Join(dir, "other")); err == nil {
			t.Errorf("%s was followed", name)
		}
	}
}
