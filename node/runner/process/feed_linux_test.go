package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

// source is the stdin of every task: pieces that are given one by one.
type source struct {
	mu     sync.Mutex
	more   chan struct{}
	all    string
	over   error // errWhole: that is all
	refuse error
	asked  []int64
}

var errWhole = errors.New("the end")

func newSource() *source { return &source{more: make(chan struct{})} }

func (s *source) give(text string, over error) {
	s.mu.Lock()
	s.all, s.over = s.all+text, over
	close(s.more)
	s.more = make(chan struct{})
	s.mu.Unlock()
}

func (s *source) Copy(ctx context.Context, _ taskstate.Launch, at int64, ready func(), put func([]byte) error) error {
	s.mu.Lock()
	s.asked = append(s.asked, at)
	refuse := s.refuse
	s.mu.Unlock()
	if refuse != nil {
		return refuse
	}
	ready()
	for {
		s.mu.Lock()
		text, over, more := s.all[at:], s.over, s.more
		s.mu.Unlock()
		text = text[:min(len(text), 64<<10)]
		switch {
		case text != "":
			if err := put([]byte(text)); err != nil {
				return err
			}
			at += int64(len(text))
			continue
		case errors.Is(over, errWhole):
			return put(nil)
		case over != nil:
			return over
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func reads(line string) *taskstate.Job {
	j := shell("%s", line)
	j.Stdin, j.Count = true, 1
	return j
}

func fedBy(t *testing.T, s *source) *harness {
	return start(t, func(c *Config) { c.Stdin = s })
}

func TestATaskReadsTheStdinOfItsJob(t *testing.T) {
	s := newSource()
	h := fedBy(t, s)
	big := strings.Repeat("0123456789abcde\n", 200_000) // more than waits on disk at once
	go s.give(big, errWhole)
	id, end := h.run(reads("cat"))
	if end.State != taskstate.Complete || h.file(id, "stdout") != big {
		t.Errorf("%+v, %d bytes", end, len(h.file(id, "stdout")))
	}
	if left, err := os.ReadDir(filepath.Dir(h.path(id, "stdout"))); err != nil || len(left) > 5 {
		t.Errorf("it leaves %v, %v", left, err)
	}
	if _, err := os.Stat(h.path(id, supervise.InputFolder)); !os.IsNotExist(err) {
		t.Errorf("its stdin stays: %v", err)
	}
}

// A stdin that ends too soon would be a wrong result with exit code 0.
func TestATaskWhoseStdinBreaksOffFailsAndNeverSeesItsEnd(t *testing.T) {
	s := newSource()
	h := fedBy(t, s)
	l := launch(reads("cat; echo whole"), 1)
	h.Start(l)
	h.running(l.Task)
	s.give("some", errors.New("the peer wren that reads it is gone"))
	end := h.end(l.Task)
	if end.State != taskstate.Failed || end.Reason != taskstate.ReasonStdin || end.Exit != taskstate.NoExit || !strings.Contains(end.Message, "wren") {
		t.Errorf("%+v", end)
	}
	if out := h.file(l.Task, "stdout"); strings.Contains(out, "whole") {
		t.Errorf("it wrote %q", out)
	}
}

func TestATaskWhoseStdinIsNotToBeHadIsNotBegun(t *testing.T) {
	s := newSource()
	s.refuse = errors.New("an earlier attempt has read some of it")
	h := fedBy(t, s)
	id, end := h.run(reads("touch begun"))
	if end.State != taskstate.Rejected || end.Reason != taskstate.ReasonStdin || end.Message != s.refuse.Error() {
		t.Errorf("%+v", end)
	}
	if _, err := os.Stat(h.path(id, "work/begun")); err == nil || h.file(id, "stdout") != "" {
		t.Error("it was begun")
	}
	h = start(t, nil)
	if _, end := h.run(reads("cat")); end.Reason != taskstate.ReasonStdin {
		t.Errorf("without anybody to ask: %+v", end)
	}
}

func TestATaskThatWaitsForItsStdinCanBeStopped(t *testing.T) {
	s := newSource()
	h := fedBy(t, s)
	l := launch(reads("cat"), 1)
	h.Start(l)
	h.running(l.Task)
	h.Stop(l.Task, taskstate.ReasonCancelled)
	if end := h.end(l.Task); end.State != taskstate.Shutdown {
		t.Errorf("%+v", end)
	}
	never := &silent{asked: make(chan struct{})}
	h = start(t, func(c *Config) { c.Stdin = never })
	h.Start(l)
	<-never.asked
	h.Stop(l.Task, taskstate.ReasonCancelled)
	if end := h.end(l.Task); end.State != taskstate.Shutdown || !strings.Contains(end.Message, "before it started") {
		t.Errorf("%+v", end)
	}
}

// silent never answers.
type silent struct{ asked chan struct{} }

func (s *silent) Copy(ctx context.Context, _ taskstate.Launch, _ int64, _ func(), _ func([]byte) error) error {
	close(s.asked)
	<-ctx.Done()
	return ctx.Err()
}

// The task's pipe is the supervisor's: a peer that ends and comes back goes on to the byte, and the
// task does not notice.
func TestAPeerThatComesBackGoesOnWithTheStdinWhereItWas(t *testing.T) {
	s := newSource()
	h := fedBy(t, s)
	l := launch(reads("cat"), 1)
	h.Start(l)
	h.running(l.Task)
	s.give("one\n", nil)
	for h.file(l.Task, "stdout") != "one\n" {
		continue
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	s.give("two\n", nil)
	again := start(t, func(c *Config) { c.Dir, c.Stdin = h.dir, s })
	if lost := again.Adopt([]taskstate.Launch{l}); len(lost) > 0 {
		t.Fatal(lost)
	}
	s.give("three\n", errWhole)
	if end := again.end(l.Task); end.State != taskstate.Complete || again.file(l.Task, "stdout") != "one\ntwo\nthree\n" {
		t.Errorf("%+v: %q", end, again.file(l.Task, "stdout"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) != 2 || s.asked[1] != 4 {
		t.Errorf("asked for %v", s.asked)
	}
}

func TestWhatWasPutIsFoundAgainToTheByte(t *testing.T) {
	r := &Executor{}
	r.life, r.die = context.WithCancel(t.Context())
	home := t.TempDir()
	put := r.newFeed(home)
	if err := os.Mkdir(put.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, piece := range []string{"a", "bcd", "ef"} {
		if err := put.put([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(put.dir, "fresh"), []byte("half a pie"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(put.there[0]); err != nil {
		t.Fatal(err)
	}
	again := r.newFeed(home)
	if err := again.resume(); err != nil || again.at != 6 || again.whole || len(again.there) != 2 {
		t.Errorf("%+v, %v", again, err)
	}
	if err := again.put(nil); err != nil {
		t.Fatal(err)
	}
	last := r.newFeed(home)
	if err := last.resume(); err != nil || last.at != 6 || !last.whole {
		t.Errorf("%+v, %v", last, err)
	}
	if err := os.RemoveAll(last.dir); err != nil {
		t.Fatal(err)
	}
	if r.newFeed(home).resume() == nil {
		t.Error("nobody knows how far it had come, and it goes on")
	}
}
