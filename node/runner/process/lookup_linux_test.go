package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coveyproject/covey/node/runner/sandbox"
	"github.com/coveyproject/covey/taskstate"
)

func TestAProgramIsLookedUpAsTheUserOfTheTask(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("another user's rights take root")
	}
	dir, err := os.MkdirTemp("/var/tmp", "covey-test-") // below folders that everybody may pass
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	at := func(path ...string) string { return filepath.Join(append([]string{dir}, path...)...) }
	for path, mode := range map[string]os.FileMode{
		"root/tool": 0o755, "root/only": 0o755, "open/tool": 0o755, "open/mine": 0o700, "none/tool": 0o644, "hidden/tool": 0o755, "hidden/shown/tool": 0o755, "hidden/home/work/run": 0o700,
	} {
		if err := os.MkdirAll(filepath.Dir(at(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(path), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{os.Chmod(dir, 0o755), os.Chmod(at("root"), 0o700), os.Chmod(at("hidden"), 0o700), os.Symlink(at("root/only"), at("open/only"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f := finder{dir: at("hidden/home/work"), home: at("hidden/home"), box: &sandbox.Spec{User: &sandbox.User{UID: 65534, GID: 65534}, Hide: []string{at("hidden")}, Show: []string{at("hidden/shown")}}}
	path := func(folders ...string) string {
		for i := range folders {
			folders[i] = at(folders[i])
		}
		return strings.Join(folders, ":")
	}
	for _, c := range []struct{ path, name, want, says string }{
		{path("root", "none", "hidden", "open"), "tool", "open/tool", ""},
		{path("root", "none"), "tool", "", at("root/tool") + ": user nobody, as whom the task runs on this peer, may not enter " + at("root") + ";"},
		{path("none", "root"), "tool", "", at("none/tool") + ": not an executable file"},
		{path("open"), "only", "", at("open/only") + " (" + at("root/only") + "): user nobody, as whom the task runs on this peer, may not enter " + at("root") + ";"},
		{path("open"), "mine", "", "may not execute it; try chmod o+rx"},
		{path("hidden"), "tool", "", "tasks find " + at("hidden") + " empty"},
		{path("hidden/shown"), "tool", "hidden/shown/tool", ""},
		{"", at("root/tool"), "", "may not enter " + at("root")},
		{"", "./run", "hidden/home/work/run", ""},
		{path("hidden/home/work"), "run", "hidden/home/work/run", ""},
		{path("root"), "nothing", "", "command not found in PATH"},
	} {
		f.path = c.path
		got, why := f.lookup(c.name)
		switch {
		case c.want != "" && (why != nil || got != at(c.want)):
			t.Errorf("%s in %s: %s, %v; want %s", c.name, c.path, got, why, c.want)
		case c.want == "" && (why == nil || !strings.Contains(why.message, c.says)):
			t.Errorf("%s in %s: %s, %v; want it to say %q", c.name, c.path, got, why, c.says)
		}
	}
	f.box.Closed, f.path = true, path("hidden")
	if _, why := f.lookup("tool"); why == nil || why.reason != taskstate.ReasonNotExec || !strings.Contains(why.message, "read: in policy.yaml") {
		t.Errorf("isolated: %v", why)
	}
	f.box, f.path = nil, path("root")
	if got, why := f.lookup("tool"); why != nil || got != at("root/tool") {
		t.Errorf("as this peer's user: %s, %v", got, why)
	}
}
