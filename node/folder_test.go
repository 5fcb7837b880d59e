package node

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coveyproject/covey/node/api"
)

func TestAFolderIsLockedForOneProcessAndKeepsItsIncarnation(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "deep", "er")
	f, err := openFolder(dir, false, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.incarnation) != incarnationLen {
		t.Fatalf("%q", f.incarnation)
	}
	_, err = openFolder(dir, false, false)
	wants(t, err, api.Conflict, dir, "peer down", "--data")
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	again, err := openFolder(dir, false, false)
	if err != nil || again.incarnation != f.incarnation {
		t.Fatal(again, err)
	}
	again.close()
	other, err := openFolder(t.TempDir(), false, false)
	if err != nil || other.incarnation == f.incarnation {
		t.Fatal("two folders live the same life", err)
	}
	other.close()
}

func TestADamagedIncarnationIsNamedAndNotReplaced(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "short\n", "not hexadecimal!", strings.Repeat("a", 17), strings.Repeat("a", 15)} {
		dir := t.TempDir()
		path := filepath.Join(dir, "incarnation")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := openFolder(dir, false, false)
		wants(t, err, api.Failed, path, "is damaged", "join again")
		if b, _ := os.ReadFile(path); string(b) != text {
			t.Errorf("the damaged file was replaced by %q", b)
		}
		if err := os.WriteFile(path, []byte("0123456789abcdef\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := openFolder(dir, false, false) // the failed start did not keep the lock
		if err != nil || f.incarnation != "0123456789abcdef" {
			t.Fatal(f, err)
		}
		f.close()
	}
}

func TestAFolderThatCannotBeMadeSaysSo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := openFolder(filepath.Join(file, "below"), false, false)
	wants(t, err, api.Failed, "cannot make the data folder", "--data")
}

func TestTheLastPortIsRememberedIfItMakesSense(t *testing.T) {
	t.Parallel()
	f := &folder{dir: t.TempDir()}
	for text, want := range map[string]int{"26839\n": 26839, "0": 0, "65536": 0, "-1": 0, "x": 0, "": 0} {
		if err := os.WriteFile(f.path("port"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := f.port(); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
	if (&folder{dir: t.TempDir()}).port() != 0 {
		t.Error("a fresh folder has a port")
	}
}

func TestAFolderIsInUseUntilItsPeerHasClosedIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if InUse(dir) || InUse(filepath.Join(dir, "none")) {
		t.Fatal("nobody was here yet")
	}
	f, err := openFolder(dir, false, false)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // asking takes nothing away
		if !InUse(dir) {
			t.Error("it is open")
		}
	}
	if err := f.close(); err != nil {
		t.Error(err)
	}
	// What another test executes has the lock, too, until it begins.
	eventually(t, "it is closed", func() (bool, string) { return !InUse(dir), "" })
	if f, err = openFolder(dir, false, false); err != nil {
		t.Fatalf("asking has left something behind: %v", err)
	}
	_ = f.close()
}

func TestANameIsTheHostsUnlessItIsGiven(t *testing.T) {
	t.Parallel()
	f := &folder{dir: t.TempDir()}
	if n, err := f.name(""); err != nil || n == "" || checkName(n) != nil {
		t.Error(n, err)
	}
	if n, err := f.name("left"); err != nil || n != "left" {
		t.Error(n, err)
	}
}

func TestANameThatWasGivenIsRememberedUntilAnotherIs(t *testing.T) {
	t.Parallel()
	f := &folder{dir: t.TempDir()}
	for _, step := range []struct{ given, want string }{{"left", "left"}, {"", "left"}, {"links 2", "links 2"}, {"", "links 2"}, {"", "links 2"}} {
		if n, err := f.name(step.given); err != nil || n != step.want {
			t.Errorf("given %q: %q %v, want %q", step.given, n, err, step.want)
		}
	}
	for _, damaged := range []string{"", "\n", "a\nb\n", "\xff", "self\n", strings.Repeat("x", 64)} {
		if err := os.WriteFile(f.path("name"), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := f.name(""); err != nil || checkName(n) != nil || n == "" || n == damaged {
			t.Errorf("remembered %q: %q %v", damaged, n, err)
		}
	}
	gone := &folder{dir: filepath.Join(t.TempDir(), "none")}
	if n, err := gone.name("left"); err == nil || n != "left" {
		t.Error("where nothing can be written, it has its name all the same, and says so", n, err)
	}
}

func TestWhatIsNoNameForAPeerIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "left", "büro 2", "a.example.org", strings.Repeat("ü", 31)} {
		if err := checkName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, why := range map[string]string{
		strings.Repeat("x", 64): "longer than 63", "self": "the peer that is asked", "a\nb": "in it", "a\x1b[31m": "in it", " a": "plain text", "\xff": "plain text",
		"a\u202eb": "in it", "a/b": "path", "\u3164": "in it", "аlpha": "mixes", "12D3KooWx": "a key",
	} {
		wants(t, checkName(name), api.Usage, why, "--name")
	}
}

func TestJobsThatAreSubmittedSideBySideDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	n := newUnborn(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if err := n.disk.Takes(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if left, err := filepath.Glob(filepath.Join(n.folder.dir, "space*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
