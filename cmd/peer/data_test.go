package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
