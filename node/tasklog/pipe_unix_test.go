//go:build unix

package tasklog

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Opening a pipe waits for its writer, for ever if need be.
func TestAPipeThatATaskPutInPlaceOfItsOutputIsNotWaitedFor(t *testing.T) {
	o := newOwner(t, 0, false)
	o.write("stderr", "hello")
	rel, err := task.Folder()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(o.dir, rel, "stdout"), 0o600); err != nil {
		t.Fatal(err)
	}
	var g got
	err = o.store.Copy(t.Context(), Request{Task: task, Parts: []Part{{Stream: "stdout"}, {Stream: "stderr"}}}, func(c Chunk) error { return g.chunk(c) })
	if err == nil || !strings.Contains(err.Error(), "stdout") || !strings.Contains(err.Error(), "something else") {
		t.Errorf("%v; want to be told that it is not the task's output", err)
	}
}
