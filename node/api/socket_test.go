//go:build unix

package api_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

func TestTheSocketIsInTheDataFolder(t *testing.T) {
	if p := api.SocketPath("/var/lib/covey"); p != "/var/lib/covey/peer.sock" {
		t.Error(p)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("/tmp")
	if p := api.SocketPath("data"); p != "/tmp/data/peer.sock" {
		t.Errorf("a relative folder led to %s, from %s", p, here)
	}
}

func TestAPathTooLongForASocketMovesToAShortFolder(t *testing.T) {
	deep := "/" + strings.Repeat("deep/", 30)
	long := "/" + strings.Repeat("l", 99)
	for _, x := range []struct{ runtime, tmp, want string }{
		{"/run/user/1", "/var/tmp", "/run/user/1"},
		{"", "/var/tmp", "/var/tmp"},
		{long, "/var/tmp", "/var/tmp"},
		{long, long, "/tmp"},
	} {
		t.Setenv("XDG_RUNTIME_DIR", x.runtime)
		t.Setenv("TMPDIR", x.tmp)
		p := api.SocketPath(deep)
		if folder := filepath.Dir(p); filepath.Dir(folder) != x.want || filepath.Base(folder) != fmt.Sprintf("covey-%d", os.Getuid()) || len(p) > 100 {
			t.Errorf("runtime %q, temporary %q: %s, want something short in %s", x.runtime, x.tmp, p, x.want)
		}
		if p != api.SocketPath(deep) || p == api.SocketPath(deep+"x") {
			t.Error("the name does not tell one folder from another")
		}
	}
}

func TestAPeerWithALongPathIsFoundFromAnotherEnvironment(t *testing.T) {
	data := filepath.Join(t.TempDir(), strings.Repeat("long/", 20))
	runtime, err := os.MkdirTemp("/tmp", "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(runtime) }()
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	l, err := api.ListenIn(data)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("XDG_RUNTIME_DIR", "")
	if p := api.FindSocket(data); p != l.Addr().String() {
		t.Errorf("it is looked for at %s, and is %s", p, l.Addr())
	}
	if p := api.FindSocket(data + "er"); filepath.Dir(filepath.Dir(p)) == runtime {
		t.Errorf("a folder without a peer leads to %s", p)
	}
}

func TestOnlyItsOwnerAndRootsTasksMayOpenTheSocketAndALeftOverIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(path, []byte("left over"), 0o666); err != nil {
		t.Fatal(err)
	}
	l, err := api.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	want := os.FileMode(0o600)
	if os.Geteuid() == 0 { // its tasks are other users; the folder keeps all others out
		want = 0o666
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != want || st.Mode()&os.ModeSocket == 0 {
		t.Errorf("%v %v", st.Mode(), err)
	}
	if _, err := api.Listen(filepath.Join(path, "below", "s")); err == nil {
		t.Error("listening where there is no folder did not fail")
	}
}

func TestNobodyThereIsSaidWithWhatToType(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	c := client.New(path)
	defer c.Close()
	_, err := c.Status(t.Context())
	e := api.AsError(err)
	if e == nil || e.Exit() != 4 || !strings.Contains(e.Message, "no peer answers at "+path+"; start one with `peer up`") {
		t.Errorf("no socket: %v", err)
	}
	l, err := api.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = c.Status(t.Context()); api.AsError(err).Exit() != 4 {
		t.Errorf("a left-over file: %v", err)
	}
}
