package supervise

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// meeting is both ends of a connection; nothing on it may take for ever.
func meeting(t *testing.T) (peer, supervisor net.Conn) {
	t.Helper()
	peer, supervisor = net.Pipe()
	t.Cleanup(func() { _ = peer.Close(); _ = supervisor.Close() })
	for _, c := range []net.Conn{peer, supervisor} {
		_ = c.SetDeadline(time.Now().Add(time.Minute))
	}
	return peer, supervisor
}

func TestASupervisorSpeaksTheNewestVersionBothKnow(t *testing.T) {
	for asked := oldestVersion; asked < protocolVersion+5; asked++ {
		spoken := min(asked, protocolVersion)
		peer, supervisor := meeting(t)
		s := &server{dir: t.TempDir()}
		s.engine = engineIn(t, s.dir)
		done := make(chan bool)
		go func() { done <- s.serve(supervisor) }()
		if _, err := peer.Write(appendFrame(nil, appendOrder(nil, order{kind: orderHello, version: asked}))); err != nil {
			t.Fatal(err)
		}
		body, err := readFrame(bufio.NewReader(peer), nil)
		if err != nil {
			t.Fatal(err)
		}
		if e, err := decodeEvent(body); err != nil || e.Kind != welcome || e.version != spoken {
			t.Errorf("asked for %d: %+v, %v", asked, e, err)
		}
		_ = peer.Close()
		<-done
	}
}

func TestAPeerSaysWhichVersionsItSpeaksToASupervisorItCannotUnderstand(t *testing.T) {
	for _, version := range []int{oldestVersion - 1, protocolVersion + 1} {
		peer, supervisor := meeting(t)
		c := &Client{cfg: ClientConfig{Dir: t.TempDir()}, conn: peer}
		go func() {
			_, _ = readFrame(bufio.NewReader(supervisor), nil)
			_, _ = supervisor.Write(appendFrame(nil, appendEvent(nil, Event{Kind: welcome, version: version})))
		}()
		err := c.greet(func(Event) {})
		if err == nil || !strings.Contains(err.Error(), "version") || !strings.Contains(err.Error(), "go back to the program") {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// mute is a supervisor in name: it hears, and says nothing by itself.
func mute(t *testing.T, dir string) *net.UnixListener {
	t.Helper()
	path, done, err := shortPath(dir, socketName)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// unanswered is a client that has ordered a start from a supervisor that takes its connection and
// says nothing.
func unanswered(t *testing.T, dir string, h *heard) (c *Client, l *net.UnixListener, conn net.Conn, warned chan string) {
	t.Helper()
	warned = make(chan string, 1)
	c, err := Open(ClientConfig{Dir: dir, Sink: h.sink, Idle: time.Hour, Warn: func(s string) { warned <- s }, patience: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l = mute(t, dir)
	c.Start(specIn(t, dir, "a.1.1", "true"))
	if conn, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return c, l, conn, warned
}

func TestWhatIsToBeStartedWaitsForASupervisorWhoseDiskIsStuck(t *testing.T) {
	dir, h := t.TempDir(), newHeard()
	c, _, conn, warned := unanswered(t, dir, h)
	r := bufio.NewReader(conn)
	if _, err := readFrame(r, nil); err != nil {
		t.Fatal(err)
	}
	if w := <-warned; !strings.Contains(w, "does not answer yet") || !strings.Contains(w, dir) {
		t.Errorf("warned: %s", w)
	}
	_, _ = conn.Write(appendFrame(appendFrame(nil, appendEvent(nil, Event{Kind: welcome, version: protocolVersion})), appendEvent(nil, Event{Kind: synced})))
	body, err := readFrame(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if o, err := decodeOrder(body); err != nil || o.kind != orderStart || o.spec.Task != "a.1.1" {
		t.Errorf("ordered %+v, %v", o, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if len(h.got) != 0 {
		t.Errorf("told: %+v", h.got)
	}
}

func TestAPeerThatEndsDoesNotWaitForASupervisorThatDoesNotAnswer(t *testing.T) {
	dir := t.TempDir()
	c, l, conn, warned := unanswered(t, dir, newHeard())
	<-warned
	_ = l.Close()
	go func() { _ = c.Close() }()
	if _, err := io.Copy(io.Discard, conn); err != nil { // until it hangs up
		t.Error(err)
	}
	_ = conn.Close()
	_ = c.Close() // waits until it has ended
	_ = EndAll(dir)
}

func TestARestartOfTheMachineIsKnownUntilAProcessIsStarted(t *testing.T) {
	dir := t.TempDir()
	open := func() *Client {
		h := newHeard()
		c, err := Open(ClientConfig{Dir: dir, Sink: h.sink, Idle: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(); _ = EndAll(dir) })
		return c
	}
	c := open()
	if !c.Complete() || c.Rebooted() {
		t.Error("a new folder: everything is known")
	}
	_ = c.Close()
	if err := os.WriteFile(filepath.Join(dir, bootName), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // killed before it said what was lost, it must find out again
		c := open()
		if c.Complete() || !c.Rebooted() {
			t.Error("the machine was restarted, and nobody has written down what that ended")
		}
		_ = c.Close()
	}
	h := newHeard()
	c, err := Open(ClientConfig{Dir: dir, Sink: h.sink, Idle: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	c.Start(specIn(t, dir, "a.1.1", "exit 3"))
	if end := h.until("a.1.1", Event.Final); end.Exit != 3 {
		t.Errorf("%+v", end)
	}
	c.Ack([]string{"a.1.1"})
	_ = c.Close()
	if c := open(); !c.Complete() || c.Rebooted() {
		t.Error("since then the folder is of this boot")
	}
}

// A task's end from a supervisor of version 0.1: its output is larger than the cap by the note that
// ends it, and so it was cut.
func TestWhatAnOlderSupervisorCutIsToldFromItsSize(t *testing.T) {
	old := Event{Kind: Ended, Task: "a.1.1", Sizes: [2]int64{1100, 1000}}
	if e := old.heard(1, 1000); e.Cut != [2]bool{true, false} {
		t.Errorf("%+v", e)
	}
	now := Event{Kind: Ended, Task: "a.1.1", Sizes: [2]int64{1000, 1100}, Cut: [2]bool{true, false}}
	if e := now.heard(2, 1000); e != now {
		t.Errorf("%+v", e)
	}
	if e := now.in(1); e.Cut != [2]bool{} {
		t.Errorf("an older peer hears %+v, which it cannot read", e)
	}
	if e := now.in(2); e != now {
		t.Errorf("%+v", e)
	}
}
