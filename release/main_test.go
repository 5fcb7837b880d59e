package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// made is a release of a tree, for this machine's system only.
func made(t *testing.T, tree string) (dir string) {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "1795477546")
	dir = filepath.Join(t.TempDir(), "dist")
	err := run([]string{"--version", "0.2.0", "--out", dir, "--source", tree, "--targets", "linux/" + runtime.GOARCH})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// filesOf are all files of a release, by name.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}

// elsewhere is a copy of this tree under another path, without what git has of it.
func elsewhere(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != ".." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, path[2:]), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path[2:]), text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func TestAReleaseIsTheSameToTheBitWhereverItIsMade(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the packages are of Linux programs")
	}
	first := made(t, "..")
	t.Setenv("TZ", "Asia/Tokyo")
	t.Setenv("GOFLAGS", "-buildvcs=true -gcflags=-N")
	again := filesOf(t, made(t, elsewhere(t)))
	files := filesOf(t, first)
	for name, text := range files {
		if again[name] != text {
			t.Errorf("%s is another one the second time (%d and %d bytes)", name, len(text), len(again[name]))
		}
	}
	for _, like := range []string{"*.deb", "*.rpm", "*-oci.tar", "*.tar.gz", "*.cdx.json", "SHA256SUMS", "install.sh", "Dockerfile"} {
		if found, _ := filepath.Glob(filepath.Join(first, like)); len(found) != 1 {
			t.Errorf("%s: %q", like, found)
		}
	}
	if len(again) != len(files) {
		t.Errorf("%d files, and then %d", len(files), len(again))
	}

	t.Run("the sums are right", func(t *testing.T) {
		cmd := exec.Command("sha256sum", "-c", "--strict", "SHA256SUMS")
		cmd.Dir = first
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("the script installs what has the right sum, and nothing else", func(t *testing.T) {
		to := t.TempDir()
		out, err := exec.Command(filepath.Join(first, "install.sh"), "--to", to).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "peer 0.2.0 (go") {
			t.Errorf("%v: %s", err, out)
		}
		archive, _ := filepath.Glob(filepath.Join(first, "*.tar.gz"))
		text := files[filepath.Base(archive[0])]
		if err := os.WriteFile(archive[0], []byte(text[:len(text)-1]+"x"), 0o644); err != nil {
			t.Fatal(err)
		}
		to = filepath.Join(t.TempDir(), "bin")
		out, err = exec.Command(filepath.Join(first, "install.sh"), "--to", to).CombinedOutput()
		if _, there := os.Stat(to); err == nil || there == nil || !strings.Contains(string(out), "nothing was installed") {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("the bill of materials names what the program is made of", func(t *testing.T) {
		name := "covey-0.2.0-linux-" + runtime.GOARCH + ".cdx.json"
		var bill struct{ Components []component }
		if err := json.Unmarshal([]byte(files[name]), &bill); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"stdlib", "github.com/libp2p/go-libp2p", "github.com/spf13/cobra"} {
			if !slices.ContainsFunc(bill.Components, func(c component) bool { return c.Name == path && c.Version != "" }) {
				t.Errorf("%s is not in it", path)
			}
		}
	})
	t.Run("the deb has the program, its pages and its unit", func(t *testing.T) {
		if _, err := exec.LookPath("dpkg-deb"); err != nil {
			t.Skip("there is no dpkg-deb here")
		}
		deb, _ := filepath.Glob(filepath.Join(first, "*.deb"))
		out, err := exec.Command("dpkg-deb", "--contents", deb[0]).Output()
		for _, path := range []string{"/usr/bin/peer", "/usr/share/man/man1/peer-run.1.gz", "/usr/lib/systemd/system/covey.service"} {
			if err != nil || !bytes.Contains(out, []byte(path+"\n")) {
				t.Errorf("%s: %v\n%s", path, err, out)
			}
		}
	})
}

func TestWhatIsNoVersionIsRefused(t *testing.T) {
	for _, version := range []string{"", "v0.2.0", "0.2", "0.2.0 -X main.x=y", "1.0.0\n"} {
		if err := run([]string{"--version", version, "--out", filepath.Join(t.TempDir(), "out")}); err == nil || !strings.Contains(err.Error(), "--version") {
			t.Errorf("%q: %v", version, err)
		}
	}
}
