package caller_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/coveyproject/covey/node/caller"
)

// dialEnv has this test's program connect to a socket, and end when its stdin does.
const dialEnv = "CALLER_TEST_DIAL"

func TestMain(m *testing.M) {
	if path := os.Getenv(dialEnv); path != "" {
		if _, err := net.Dial("unix", path); err != nil {
			os.Exit(1)
		}
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestTheCallerIsTheProcessThatConnectedAsLongAsItLives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), dialEnv+"="+path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := caller.Of(c)
	if err != nil || p.PID != cmd.Process.Pid || p.UID != os.Getuid() || p.Gone() {
		t.Fatalf("%+v (gone: %v), %v; it is process %d of user %d", p, p.Gone(), err, cmd.Process.Pid, os.Getuid())
	}
	defer p.Close()
	_ = stdin.Close()
	_ = cmd.Wait()
	if !p.Gone() {
		t.Error("it has ended, and is taken to be there")
	}
	if late, err := caller.Of(c); err == nil && !late.Gone() {
		t.Errorf("asked when it had ended: %+v", late)
	}
}

func TestWhoComesAnotherWayIsNotKnown(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, err := caller.Of(a); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}
