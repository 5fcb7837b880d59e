package view

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/tasklog"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// lateOutput has no output when it is asked first, and while it says so the task begins and ends.
type lateOutput struct {
	asked   int
	happens func()
}

func (o *lateOutput) Copy(_ context.Context, _ tasklog.Request, f func(tasklog.Chunk) error) error {
	if o.asked++; o.asked == 1 {
		o.happens()
		return &tasklog.Error{Code: tasklog.CodeNotFound, Message: "none"}
	}
	return f(tasklog.Chunk{Stream: "stdout", Data: []byte("hello")})
}

// greeting is a view of a job that says hello, whose task was given to this peer at index.
func greeting(t *testing.T) (s *scripted, me author, index uint64) {
	t.Helper()
	s = newScripted(t)
	me = author{s.self, "0123456789abcdef"}
	j := taskstate.Job{ID: someJob, Submitter: s.self, Count: 1, Run: taskstate.Run{Process: &taskstate.Process{Command: []string{"echo", "hello"}}}}
	jobfile.Defaults(&j)
	s.write(
		ledger.Command{Admit: &ledger.Admit{Entry: admission.Entry{Cluster: "c", Peer: me.id, Roles: admission.AllRoles(), At: time.Now().UnixMilli()}}},
		ledger.Command{Register: &ledger.Register{Peer: me.id, Incarnation: me.inc}},
		ledger.Command{Submit: &ledger.Submit{Job: j}},
	)
	return s, me, s.assign(someJob, me, 1, 1)
}

func TestOutputIsAskedForAgainOfATaskThatBeganAndEndedWhileItsPeerSaidThatItHadNone(t *testing.T) {
	s, me, index := greeting(t)
	out := &lateOutput{happens: func() { s.settle(me, complete(1, index)) }}
	s.cfg.Output = func() Output { return out }
	said := ""
	err := s.Logs(timed(t), string(someJob), api.LogQuery{Follow: true}, func(c api.LogChunk) error {
		if c.Error != nil {
			t.Errorf("told %v", c.Error)
		}
		said += string(c.Data)
		return nil
	})
	if err != nil || said != "hello" {
		t.Errorf("%q, %v", said, err)
	}
	// Of one that was over before it was asked for, the answer counts.
	out.asked, out.happens = 0, func() {}
	gone := false
	if err := s.Logs(timed(t), string(someJob), api.LogQuery{Follow: true}, func(c api.LogChunk) error { gone = gone || c.Error != nil; return nil }); err != nil || !gone || out.asked != 1 {
		t.Errorf("asked %d times, told %v, %v", out.asked, gone, err)
	}
}

func TestATaskThatHasNotBegunHasNoOutputYetWhichIsNoFailure(t *testing.T) {
	s, me, index := greeting(t)
	out := &lateOutput{happens: func() {}}
	s.cfg.Output = func() Output { return out }
	read := func() (said string, failed *api.Error) {
		err := s.Logs(timed(t), string(someJob), api.LogQuery{}, func(c api.LogChunk) error {
			said, failed = said+string(c.Data)+c.Note, c.Error
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return said, failed
	}
	if said, failed := read(); failed != nil || !strings.Contains(said, "has not begun it yet") || out.asked != 1 {
		t.Errorf("%q, %v", said, failed)
	}
	// One that began and ended while its peer said so is asked for again.
	out.asked, out.happens = 0, func() { s.settle(me, complete(1, index)) }
	if said, failed := read(); failed != nil || said != "hello" || out.asked != 2 {
		t.Errorf("%q, %v", said, failed)
	}
}
