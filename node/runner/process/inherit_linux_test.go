package process

import (
	"syscall"
	"testing"
)

func TestATaskHasThreeDescriptorsWhateverItsPeerWasStartedWith(t *testing.T) {
	var p [2]int
	if err := syscall.Pipe(p[:]); err != nil { // as a shell gives them: not closed on exec
		t.Fatal(err)
	}
	defer syscall.Close(p[0])
	defer syscall.Close(p[1])
	h := start(t, nil)
	h.Adopt(nil)
	job := launch(shell(`for n in $(seq 0 200); do [ -e /proc/$$/fd/$n ] && echo $n; done; true`), 1)
	h.Start(job)
	h.end(job.Task)
	if got := h.file(job.Task, "stdout"); got != "0\n1\n2\n" {
		t.Errorf("it has %q", got)
	}
}
