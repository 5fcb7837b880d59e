package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// slowWrite is one that lasts until it is let go.
type slowWrite struct {
	end    chan error
	undone bool
	said   error
	took   time.Duration
}

func (d *disk) begin(w *slowWrite) {
	w.end = make(chan error, 1)
	go func() {
		began := time.Now()
		w.said = d.Do(func() error { return <-w.end }, func() { w.undone = true })
		w.took = time.Since(began)
	}()
}

func TestADiskIsStuckUntilTheLastWriteThatWasGivenUpIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{dir: "/data"}
		var first, second, third slowWrite
		d.begin(&first)
		time.Sleep(time.Second)
		d.begin(&second)
		time.Sleep(diskPatience)
		synctest.Wait()
		for _, w := range []*slowWrite{&first, &second} {
			if w.said == nil || !strings.Contains(w.said.Error(), "/data is stuck") || w.took != diskPatience {
				t.Errorf("after %s: %v", w.took, w.said)
			}
		}
		d.begin(&third)
		synctest.Wait()
		if third.said == nil || third.took != 0 || !strings.Contains(third.said.Error(), "under way for 4s") {
			t.Errorf("a third was begun: %v after %s", third.said, third.took)
		}
		first.end <- nil
		synctest.Wait()
		if !first.undone || second.undone {
			t.Error("what was given up and came to be after all is taken back, and nothing else")
		}
		if d.health() == nil {
			t.Error("one is still under way")
		}
		second.end <- syscall.EIO
		synctest.Wait()
		if err := d.health(); err != nil || second.undone {
			t.Errorf("all are back: %v; what failed was taken back: %v", err, second.undone)
		}
		d.begin(&third)
		third.end <- nil
		synctest.Wait()
		if third.said != nil || third.undone {
			t.Errorf("the disk answers: %v", third.said)
		}
	})
}

func TestAnErrorOfADiskSaysWhatToDo(t *testing.T) {
	t.Parallel()
	d := &disk{dir: "/data"}
	for err, says := range map[error]string{
		syscall.ENOSPC: "make room in /data", syscall.EDQUOT: "make room in /data", syscall.EROFS: "mount it for writing", syscall.EMFILE: "ulimit -n",
		syscall.ENFILE: "ulimit -n", fs.ErrPermission: "belong to the user who runs the peer", syscall.EACCES: "belong to the user who runs the peer", syscall.EIO: "look at that disk",
	} {
		wrapped := fmt.Errorf("write: %w", &os.PathError{Op: "write", Path: "/data/x", Err: err})
		got := d.Do(func() error { return wrapped }, func() { t.Errorf("%v: undone", err) })
		if !errors.Is(got, err) || !strings.Contains(got.Error(), says) {
			t.Errorf("%v: %v", err, got)
		}
	}
	if err := (&disk{dir: t.TempDir()}).Takes(); err != nil {
		t.Error(err)
	}
	if err := (&disk{dir: t.TempDir() + "/none"}).Takes(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
