//go:build unix

package tasklog

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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

// A reader that follows has the file open that the task replaces: it says what one says that comes
// later.
func TestAReaderThatFollowsSaysOfReplacedOutputWhatALaterOneSays(t *testing.T) {
	for what, put := range map[string]func(path string) error{
		"a link":       func(path string) error { return os.Symlink("/etc/passwd", path) },
		"a dead link":  func(path string) error { return os.Symlink("nothing", path) },
		"a folder":     func(path string) error { return os.Mkdir(path, 0o700) },
		"a pipe":       func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"another file": func(path string) error { return os.WriteFile(path, []byte("other\n"), 0o600) },
		"nothing":      func(string) error { return nil },
	} {
		for _, said := range []string{"", "begun\n"} {
			o := newOwner(t, 0, true)
			o.write(Stdout, said)
			req := Request{Task: task, Parts: []Part{{Stream: Stdout}}, Follow: true}
			c, err := o.store.begin(req)
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 100)
			if n, end, err := c.read(c.parts[0], buf); n != len(said) || end || err != nil { // now it has the file open
				t.Fatal(n, end, err)
			}
			rel, _ := task.Folder()
			path := filepath.Join(o.dir, rel, Stdout)
			if err := errors.Join(os.Remove(path), put(path)); err != nil {
				t.Fatal(err)
			}
			close(o.over)
			var g, later got
			err = c.run(t.Context(), g.chunk)
			wants := o.store.Copy(t.Context(), req, later.chunk)
			if what == "another file" && said != "" { // what follows would be no part of what was read
				wants = &Error{Code: CodeFailed}
			}
			if (err == nil) != (wants == nil) || Failed(err) != Failed(wants) {
				t.Errorf("%s after %q: %v; a later reader: %v", what, said, err, wants)
			}
			if err == nil && g.of(Stdout) != later.of(Stdout) {
				t.Errorf("%s after %q: %q; a later reader: %q", what, said, g.of(Stdout), later.of(Stdout))
			}
			_ = c.close()
		}
	}
}
