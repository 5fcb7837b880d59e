package supervise

import (
	"bufio"
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
