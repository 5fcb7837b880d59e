//go:build unix && long

// Package clients_test tries what is in these folders against real peers, with what is installed
// here.
package clients_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/testnet"
)

// patience bounds each wait: against hanging, not as a measure.
const patience = 5 * time.Minute

func TestThePythonPackageKeepsItsPromisesWithEveryPythonThatIsInstalled(t *testing.T) {
	pythons := installed(t)
	if len(pythons) == 0 {
		t.Skip("no Python from 3.8 is installed: there is no python3 on the PATH, in /usr/bin or in ~/.pyenv")
	}
	exe, net := peers(t)
	data := []string{net.Data(1), net.Data(2), net.Data(3)}
	for version, python := range pythons {
		t.Run(version, func(t *testing.T) { suite(t, python, exe, data) })
	}
}

// peers are three that run until the test ends, and the program they are.
func peers(t *testing.T) (exe string, net *testnet.Net) {
	t.Helper()
	dir := t.TempDir()
	exe = filepath.Join(dir, "peer")
	if out, err := exec.Command("go", "build", "-o", exe, "github.com/coveyproject/covey/cmd/peer").CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	net, err := testnet.Start(ctx, testnet.Config{Dir: filepath.Join(dir, "net"), N: 3, Exe: exe})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(net.Quit)
	if err := net.AwaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return exe, net
}

// suite runs the tests with one Python. What it leaves out it says.
func suite(t *testing.T, python, exe string, data []string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, python, "-X", "faulthandler", "-m", "unittest", "discover", "-v", "-s", "tests")
	c.Env = append(os.Environ(), "COVEY_PEER="+exe, "COVEY_TEST_PEERS="+strings.Join(data, string(os.PathListSeparator)), "PYTHONDONTWRITEBYTECODE=1")
	c.Dir = "python"
	c.WaitDelay = 10 * time.Second
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", python, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "skipped") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// installed are the Pythons there are, one of each version from 3.8: those of the system first.
func installed(t *testing.T) map[string]string {
	places := []string{"/usr/bin/python3*", "/usr/local/bin/python3*"}
	if home, err := os.UserHomeDir(); err == nil {
		places = append(places, filepath.Join(home, ".pyenv/versions/*/bin/python3"))
	}
	var found []string
	for _, p := range places {
		some, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, some...)
	}
	if p, err := exec.LookPath("python3"); err == nil {
		found = append(found, p)
	}
	pythons := map[string]string{}
	for _, p := range found {
		if strings.HasSuffix(p, "-config") {
			continue
		}
		out, err := exec.Command(p, "-c", "import sys; print('.'.join(map(str, sys.version_info[:2])), sys.version_info >= (3, 8))").Output()
		said := strings.Fields(string(out))
		if err == nil && len(said) == 2 && said[1] == "True" && pythons[said[0]] == "" {
			pythons[said[0]] = p
		}
	}
	return pythons
}
