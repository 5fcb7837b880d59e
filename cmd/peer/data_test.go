package main

import (
	"errors"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/coveyproject/covey/node/api"
)

func TestWhoLooksForTheMachinesServiceInAFolderOfTheirOwnIsNotLedToASecondCluster(t *testing.T) {
	home, root := t.TempDir(), t.TempDir()
	for _, name := range []string{"HOME", "XDG_STATE_HOME", "LocalAppData"} {
		t.Setenv(name, home)
	}
	own := defaultData()
	const plain, ask, join = "start one with `peer up`", "`sudo peer --data /var/lib/covey status`", "`peer up --join TICKET`"
	if got := howToStart(root, own); got != plain {
		t.Errorf("without a service: %s", got)
	}
	if err := os.MkdirAll(filepath.Join(root, "var/lib/covey"), 0o700); err != nil {
		t.Fatal(err)
	}
	got := howToStart(root, own)
	if !strings.Contains(got, ask) || !strings.Contains(got, join) || strings.Contains(got, "`peer up`") {
		t.Errorf("beside a service: %s", got)
	}
	for _, data := range []string{filepath.Join(home, "other"), "/var/lib/covey"} {
		if got := howToStart(root, data); got != plain {
			t.Errorf("%s: %s", data, got)
		}
	}
	if err := os.MkdirAll(own, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own, "roster"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := howToStart(root, own); !strings.HasPrefix(got, plain+"; ") || !strings.Contains(got, ask) {
		t.Errorf("with a peer of one's own: %s", got)
	}
}

func TestWithoutAHomeInTheEnvironmentItIsTheOneOfTheListOfUsers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("LocalAppData is what counts there")
	}
	u, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	t.Setenv("XDG_STATE_HOME", "state")
	for _, home := range []string{"", "home", "./home"} {
		t.Setenv("HOME", home)
		if got := defaultData(); !strings.HasPrefix(got, u.HomeDir) {
			t.Errorf("with HOME=%q the data folder is %q, want one in %s", home, got, u.HomeDir)
		}
	}
}

func TestAFolderThatIsNotNamedIsRefusedButForCommandsThatNeedNone(t *testing.T) {
	t.Setenv("PEER_DATA", "")
	for _, x := range []struct {
		args []string
		want api.Code
	}{
		{[]string{"--data", "", "status"}, api.Usage},
		{[]string{"--data=", "up"}, api.Usage},
		{[]string{"--data", "", "version"}, ""},
	} {
		root := (&cli{Streams: Streams{Out: io.Discard, Err: io.Discard, In: strings.NewReader("")}}).root()
		root.SetArgs(x.args)
		err := root.Execute()
		if x.want == "" && err != nil || x.want != "" && (err == nil || api.AsError(err).Code != x.want) {
			t.Errorf("%q: %v", x.args, err)
		}
	}
}

func TestRootStartsNoPeerInAnotherUsersFolder(t *testing.T) {
	if os.Geteuid() != 0 || runtime.GOOS == "windows" {
		t.Skip("takes root")
	}
	const uid = 12345
	home := t.TempDir()
	if err := os.Chown(home, uid, uid); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(home, ".local", "state", "covey")
	for _, x := range []struct {
		data, sudo string
		refused    bool
	}{
		{fresh, "12345", true},
		{fresh, "", false}, // a folder that was mounted in a container, perhaps
		{t.TempDir(), "12345", false},
	} {
		t.Setenv("SUDO_UID", x.sudo)
		if err := refuseAnothers(x.data); (err != nil) != x.refused {
			t.Errorf("%+v: %v", x, err)
		}
	}
	t.Setenv("SUDO_UID", "")
	key := filepath.Join(fresh, "identity.key")
	if err := errors.Join(os.MkdirAll(fresh, 0o700), os.WriteFile(key, nil, 0o600), os.Chown(key, uid, uid)); err != nil {
		t.Fatal(err)
	}
	if err := refuseAnothers(fresh); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("a folder in which another user's peer lives: %v", err)
	}
}
