package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
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

// filesOf are all files of a release, by path.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[path[len(dir)+1:]] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checkout is a copy of this tree with a git of its own, in which all of it is committed.
func checkout(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git":
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
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "all of it"}} {
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@localhost", "-C", to}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	return to
}

func TestAReleaseIsTheSameToTheBitWhereverItIsMade(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the packages are of Linux programs")
	}
	tree := checkout(t)
	if err := os.WriteFile(filepath.Join(tree, "docs", "draft.md"), []byte("not committed"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := made(t, tree)
	t.Setenv("TZ", "Asia/Tokyo")
	t.Setenv("GOFLAGS", "-buildvcs=true -gcflags=-N")
	again := filesOf(t, made(t, checkout(t)))
	files := filesOf(t, first)
	for name, text := range files {
		if again[name] != text {
			t.Errorf("%s is another one the second time (%d and %d bytes)", name, len(text), len(again[name]))
		}
	}
	for _, like := range []string{"*.deb", "*.rpm", "*-oci.tar", "*.tar.gz", "*.cdx.json", "SHA256SUMS", "install.sh", "Dockerfile", "proxy/*/*/*/*/v0.2.0.zip"} {
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
	t.Run("the proxy has the module's files that are committed", func(t *testing.T) {
		sums, dir := files["SHA256SUMS"], "proxy/github.com/coveyproject/covey/@v/"
		for name, text := range map[string]string{"list": "v0.2.0\n", "v0.2.0.info": `{"Time":"2026-11-23T23:45:46Z","Version":"v0.2.0"}`} {
			if files[dir+name] != text {
				t.Errorf("%s: %q", name, files[dir+name])
			}
		}
		text := files[dir+"v0.2.0.zip"]
		z, err := zip.NewReader(strings.NewReader(text), int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		has := map[string]bool{}
		for _, f := range z.File {
			has[strings.TrimPrefix(f.Name, "github.com/coveyproject/covey@v0.2.0/")] = true
		}
		if !has["go.mod"] || !has["LICENSE"] || !has["docs/files.md"] || has["docs/draft.md"] || has["release/main.go"] {
			t.Errorf("%d files: %v", len(has), slices.Sorted(maps.Keys(has)))
		}
		if !strings.Contains(sums, "  "+dir+"v0.2.0.zip\n") {
			t.Errorf("%s", sums)
		}
	})
	t.Run("go install makes the program of the proxy", func(t *testing.T) { installs(t, first) })
	t.Run("the script installs what has the right sum, and nothing else", func(t *testing.T) {
		script := func(args ...string) (string, error) {
			out, err := exec.Command(filepath.Join(first, "install.sh"), args...).CombinedOutput()
			return string(out), err
		}
		to := t.TempDir()
		for _, args := range [][]string{{"--to", to}, {"--to", to, "--from", "file://" + first, "--version", "0.2.0"}} {
			out, err := script(args...)
			if err != nil || !strings.Contains(out, "peer 0.2.0 (go") {
				t.Errorf("%q: %v: %s", args, err, out)
			}
		}
		to = filepath.Join(t.TempDir(), "bin")
		if out, err := script("--to", to, "--version", "0.1.0"); err == nil || !strings.Contains(out, "cannot get") {
			t.Errorf("%v: %s", err, out)
		}
		archive, _ := filepath.Glob(filepath.Join(first, "*.tar.gz"))
		text := files[filepath.Base(archive[0])]
		if err := os.WriteFile(archive[0], []byte(text[:len(text)-1]+"x"), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := script("--to", to)
		if _, there := os.Stat(to); err == nil || there == nil || !strings.Contains(out, "nothing was installed") {
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
		for _, path := range []string{"/usr/bin/peer", "/usr/share/man/man1/peer-run.1.gz", "/usr/lib/systemd/system/covey.service", "/usr/share/doc/covey/docs/page.png"} {
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
