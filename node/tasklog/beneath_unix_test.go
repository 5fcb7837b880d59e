//go:build unix

package tasklog

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate"
)

func TestALinkThatATaskPutInPlaceOfItsOutputLeadsNowhere(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "stdout")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	task := taskstate.Task("j", 1, 1)
	for what, put := range map[string]func(dir string) error{
		"its file": func(dir string) error {
			return os.Symlink(secret, filepath.Join(dir, "j", "1.1", "stdout"))
		},
		"its folder": func(dir string) error {
			home := filepath.Join(dir, "j", "1.1")
			if err := os.Remove(home); err != nil {
				return err
			}
			return os.Symlink(filepath.Dir(secret), home)
		},
		"its job's folder": func(dir string) error {
			if err := os.RemoveAll(filepath.Join(dir, "j")); err != nil {
				return err
			}
			elsewhere := filepath.Join(filepath.Dir(secret), "1.1")
			if err := os.MkdirAll(elsewhere, 0o700); err != nil {
				return err
			}
			_ = os.Link(secret, filepath.Join(elsewhere, "stdout"))
			return os.Symlink(filepath.Dir(secret), filepath.Join(dir, "j"))
		},
	} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "j", "1.1"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := put(dir); err != nil {
			t.Fatal(err)
		}
		s := NewStore(Config{Dir: dir, Live: func(taskstate.TaskID) (<-chan struct{}, int64, bool) { return nil, 0, false }})
		r, err := s.Open(task, "stdout", 0, false)
		if err != nil {
			continue // refused at once
		}
		b, err := io.ReadAll(r)
		_ = r.Close()
		if strings.Contains(string(b), "secret") || len(b) > 0 {
			t.Errorf("%s: read %q, %v", what, b, err)
		}
	}
}
