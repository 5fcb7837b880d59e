//go:build unix

package saver_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"covey/taskstate"
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
