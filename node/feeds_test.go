package node

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/stdin"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// reading is a job whose task reads what is given.
func reading(name, line string) taskstate.Job {
	j := shellJob(name, 1, line)
	j.Stdin = true
	return j
}

func TestATaskReadsWhatIsGivenAndNobodyElseDoes(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	p := newPuppet(t)
	all[0].admit(p, admission.AllRoles()...)
	job := reading("secret", "read a; echo got $a; cat")
	job.Constraints = []string{"peer.name == two"}
	id := all[0].submit(job)
	in, give := io.Pipe()
	given := make(chan error, 1)
	go func() { given <- all[0].feeds.Stdin(timed(t), id, in) }()
	if _, err := io.WriteString(give, "first\n"); err != nil {
		t.Fatal(err)
	}
	all[0].eventuallyOpen(t, id)
	for what, task := range map[string]taskstate.TaskID{
		"another's": taskstate.Task(taskstate.JobID(id), 1, 1), "none there is": taskstate.Task(taskstate.JobID(id), 9, 1), "of no job": taskstate.Task("aaaaaaaaaa", 1, 1),
	} {
		for _, at := range []int64{0, 3, 1 << 50} {
			err := stdin.Asker{
				Dial:  func(ctx context.Context) (net.Conn, error) { return p.Dial(ctx, all[0].self, stdin.Protocol) },
				Ready: func() { t.Errorf("the stdin of a task that is %s is to be had", what) },
				Put:   func(b []byte) error { t.Errorf("%q was passed on", b); return io.ErrUnexpectedEOF },
			}.Copy(timed(t), stdin.Request{Task: task, At: at})
			var told *stdin.Error
			if !errors.As(err, &told) || told.Code != stdin.CodeNot {
				t.Errorf("%s at %d: %v", what, at, err)
			}
		}
	}
	if _, err := io.WriteString(give, "second\n"); err != nil {
		t.Fatal(err)
	}
	_ = give.Close()
	if err := <-given; err != nil {
		t.Error(err)
	}
	last, _ := all[0].outcome(id)
	if out := all[0].output(id, api.LogQuery{Follow: true}); last.State != "complete" || out != "got first\nsecond\n" {
		t.Errorf("%s, it wrote %q", last.State, out)
	}
	if err := all[1].feeds.Stdin(timed(t), id, strings.NewReader("x")); api.AsError(err).Code != api.Conflict {
		t.Errorf("a peer it was not submitted to takes it: %v", err)
	}
}

// eventuallyOpen waits until the job's task was given to a peer.
func (l *living) eventuallyOpen(t *testing.T, id string) {
	t.Helper()
	eventually(t, "the task was given to a peer", func() (open bool, _ string) {
		l.replica.Read(func(s *ledger.State) {
			if j, ok := s.Job(taskstate.JobID(id)); ok {
				open = j.Slot(1).Open
			}
		})
		return open, ""
	})
}
