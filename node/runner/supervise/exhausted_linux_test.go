package supervise

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// noFiles calls f while this process may open no other file.
func noFiles(t *testing.T, f func()) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	f0, err := os.Open(os.DevNull) // the lowest free descriptor
	if err != nil {
		t.Fatal(err)
	}
	limit := syscall.Rlimit{Cur: uint64(f0.Fd()), Max: was.Max}
	_ = f0.Close()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}

func TestWhatCannotBeLookedAtForWantOfDescriptorsIsNeitherATasksNorThePersons(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, runningFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	noFiles(t, func() {
		if _, inside, err := Whose(dir, os.Getpid()); !Exhausted(err) || !inside {
			t.Errorf("inside %v, %v", inside, err)
		}
		if !isBelow(os.Getppid()) {
			t.Error("a process that cannot be looked at may give orders to a supervisor")
		}
	})
	if _, inside, err := Whose(dir, os.Getpid()); inside || err != nil {
		t.Errorf("with descriptors: inside %v, %v", inside, err)
	}
	if isBelow(os.Getppid()) {
		t.Error("its parent is taken for its child")
	}
}

func TestAfterARefusalTheEngineTriesNoOtherProcessForAMoment(t *testing.T) {
	dir := t.TempDir()
	e, h := engineIn(t, dir), newHeard()
	e.Attach(h.sink)
	e.noteRefusal(syscall.ENOENT)
	e.Start(specIn(t, dir, "a.1.1", "exit 0"))
	if end := h.until("a.1.1", Event.Final); end.Kind != Ended {
		t.Errorf("a program that is not there keeps others from running: %+v", end)
	}
	e.noteRefusal(syscall.EAGAIN)
	e.Start(specIn(t, dir, "a.2.1", "exit 0"))
	if end := h.until("a.2.1", Event.Final); end.Kind != Refused || !Exhausted(end.Cause()) {
		t.Errorf("%+v", end)
	}
	e.mu.Lock()
	e.spent.at = time.Now().Add(-refusalAge)
	e.mu.Unlock()
	e.Start(specIn(t, dir, "a.3.1", "exit 0"))
	if end := h.until("a.3.1", Event.Final); end.Kind != Ended {
		t.Errorf("later: %+v", end)
	}
}

// starved is a listener whose process may not open another file at first.
type starved struct {
	net.Listener
	times int
}

func (l *starved) Accept() (net.Conn, error) {
	if l.times--; l.times >= 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

func TestASupervisorThatMayOpenNoFileForAMomentLooksAtWhoConnectsLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{log: newLog(io.Discard, time.Now, logLimit)}
	done := make(chan struct{})
	go func() { s.accept(&starved{l, 2}, nil); close(done) }()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) { // it is no peer, and is sent away
		t.Errorf("the connection was not looked at: %v", err)
	}
	_ = l.Close()
	<-done
}
