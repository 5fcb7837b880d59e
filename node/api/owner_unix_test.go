//go:build !windows

package api_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

// longData is a data folder whose path is too long for a socket, so that the socket is in the
// runtime folder.
func longData(t *testing.T) (data, sockets string) {
	t.Helper()
	runtime, err := os.MkdirTemp("/tmp", "rt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	data = filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	return data, filepath.Dir(api.SocketPath(data))
}

func TestASocketOutsideOfTheDataFolderIsInAFolderOfOnesOwn(t *testing.T) {
	data, sockets := longData(t)
	l, err := api.Listen(api.SocketPath(data))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	st, err := os.Lstat(sockets)
	if err != nil || st.Mode().Perm() != 0o700 || sockets == os.Getenv("XDG_RUNTIME_DIR") {
		t.Errorf("%s: %v, %v", sockets, st, err)
	}
}

func TestASocketWhereOthersCouldPutOneIsNeitherOpenedNorAsked(t *testing.T) {
	data, sockets := longData(t)
	elsewhere := t.TempDir()
	for what, make := range map[string]func() error{
		"writable by others": func() error {
			if err := os.Mkdir(sockets, 0o700); err != nil {
				return err
			}
			return os.Chmod(sockets, 0o777)
		},
		"a link": func() error { return os.Symlink(elsewhere, sockets) },
		"somebody else's": func() error {
			if os.Geteuid() != 0 {
				return os.Symlink(elsewhere, sockets)
			}
			if err := os.Mkdir(sockets, 0o700); err != nil {
				return err
			}
			return os.Chown(sockets, 12345, 12345)
		},
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if l, err := api.Listen(api.SocketPath(data)); err == nil || !strings.Contains(err.Error(), "another user may have made it") {
			if err == nil {
				l.Close()
			}
			t.Errorf("%s: listens there: %v", what, err)
		}
		if _, err := client.Of(data).Status(t.Context()); err == nil || !strings.Contains(err.Error(), "another user may have made it") {
			t.Errorf("%s: asked: %v", what, err)
		}
		if err := os.RemoveAll(sockets); err != nil {
			t.Fatal(err)
		}
	}
}
