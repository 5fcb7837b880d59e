//go:build unix

package saver_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/taskstate"
)

// Case 18: pipes, sockets and devices among what a task left. None is waited for.
func TestWhatIsNoFileIsLeftOutAndNamed(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		j := job("out/*")
		id := taskstate.Task(j.ID, 1, 1)
		s.hands.runs[id] = func(home string) taskstate.RunReport {
			out := filepath.Join(home, "work", "out")
			if err := errors.Join(os.Mkdir(out, 0o700), os.WriteFile(filepath.Join(out, "file"), []byte("f"), 0o600), syscall.Mkfifo(filepath.Join(out, "pipe"), 0o600)); err != nil {
				t.Error(err)
			}
			_ = syscall.Mknod(filepath.Join(out, "device"), syscall.S_IFCHR|0o600, 1<<8|5) // as root
			return ended(0)
		}
		s.Start(taskstate.Launch{Task: id, Job: j})
		end := s.end(id)
		if end.State != taskstate.Complete || s.holds(s.store, end.Saved.Root) != "out/ out/file=f" || !strings.Contains(end.Message, "not kept: ") || !strings.Contains(end.Message, "out/pipe (is a FIFO)") {
			t.Errorf("%+v", end)
		}
		if os.Getuid() == 0 && !strings.Contains(end.Message, "out/device (is a device)") {
			t.Errorf("the device is not named: %s", end.Message)
		}
		only := taskstate.Task(j.ID, 2, 1)
		s.hands.runs[only] = func(home string) taskstate.RunReport {
			if err := errors.Join(os.Mkdir(filepath.Join(home, "work", "out"), 0o700), syscall.Mkfifo(filepath.Join(home, "work", "out", "pipe"), 0o600)); err != nil {
				t.Error(err)
			}
			return ended(0)
		}
		s.Start(taskstate.Launch{Task: only, Job: j})
		if end := s.end(only); end.Reason != taskstate.ReasonNoOutput || !strings.Contains(end.Message, "out/pipe (is a FIFO)") {
			t.Errorf("%+v", end)
		}
	})
}

func TestWhatCannotBeKeptFailsATaskAndAllElseIsKept(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.keeper("a", 1<<30)
		for slot, exit := range map[int]int{1: 0, 2: 3} {
			j := job("**")
			id := taskstate.Task(j.ID, slot, 1)
			s.hands.runs[id] = func(home string) taskstate.RunReport {
				work := filepath.Join(home, "work")
				err := errors.Join(os.MkdirAll(filepath.Join(work, "d\te"), 0o700), os.Symlink(filepath.Join(work, "z"), filepath.Join(work, "link")))
				for _, name := range []string{"a", "new\nline", "d\te/x", "z"} {
					err = errors.Join(err, os.WriteFile(filepath.Join(work, name), []byte("1"), 0o600))
				}
				if err != nil {
					t.Error(err)
				}
				return ended(exit)
			}
			s.Start(taskstate.Launch{Task: id, Job: j})
			end := s.end(id)
			if end.State != taskstate.Failed || (end.Reason == taskstate.ReasonNoOutput) != (exit == 0) {
				t.Errorf("%+v", end)
			}
			for _, part := range []string{`"d\te" has a control character`, `"new\nline" has a control character`, `"link" is a link to`, "which is absolute"} {
				if !strings.Contains(end.Message, part) {
					t.Errorf("it does not say that %s: %s", part, end.Message)
				}
			}
			if k := end.Saved; k == nil || k.Keep != 1 || len(k.Keepers) != 1 || s.holds(s.store, k.Root) != "a=1 z=1" || k.Files != 2 {
				t.Errorf("%+v", k)
			}
		}
	})
}

func TestWhatCannotBeReadIsTheTasksFault(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("nothing is shut to this user")
	}
	play(t, func(t *testing.T, s *scene) {
		s.keeper("a", 1<<30)
		for slot, c := range map[int]struct{ shut, says, kept string }{
			1: {"work/b", `"b": permission denied`, "a=1 d/ d/x=1"},
			2: {"work/d", `"d": permission denied`, "a=1 b=1 d/"},
			3: {"work", "its folder work: permission denied", ""},
			4: {".", "its folder: permission denied", ""},
			5: {"stdout", `"stdout": permission denied`, "a=1 b=1 d/ d/x=1"},
		} {
			j := job("**")
			id := taskstate.Task(j.ID, slot, 1)
			s.hands.runs[id] = func(home string) taskstate.RunReport {
				work := filepath.Join(home, "work")
				err := os.Mkdir(filepath.Join(work, "d"), 0o700)
				for _, name := range []string{"../stdout", "a", "b", "d/x"} {
					err = errors.Join(err, os.WriteFile(filepath.Join(work, name), []byte("1"), 0o600))
				}
				shut := filepath.Join(home, c.shut)
				if err = errors.Join(err, os.Chmod(shut, 0)); err != nil {
					t.Error(err)
				}
				t.Cleanup(func() { _ = os.Chmod(shut, 0o700) })
				return ended(0)
			}
			s.Start(taskstate.Launch{Task: id, Job: j})
			end := s.end(id)
			if end.State != taskstate.Failed || end.Reason != taskstate.ReasonNoOutput || !strings.Contains(end.Message, c.says) {
				t.Errorf("%s: %+v", c.shut, end)
			}
			root := piece.Root{}
			if end.Saved != nil {
				root = end.Saved.Root
			}
			if got := s.holds(s.store, root); got != c.kept {
				t.Errorf("%s: kept %q", c.shut, got)
			}
		}
	})
}
