package process

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/taskstate"
)

// A peer and its supervisor were killed, and its data folder is deleted: nobody comes back for its
// tasks' secrets. The next start of any peer of this user removes them, and nothing that somebody
// may come back for.
func TestSecretsThatAreNobodysAnyMoreAreRemoved(t *testing.T) {
	root := t.TempDir() // in the one that all peers of this user share, others sweep, too
	folder := func() string {
		dir := filepath.Join(t.TempDir(), "tasks")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	task := taskstate.Task("job", 1, 1)
	has := func(v vault) bool { _, err := os.Lstat(v.of(task)); return err == nil }
	left := func(v vault, why string) {
		t.Helper()
		other := openVaultIn(root, folder())
		defer other.close()
		if err := other.sweepNobodys(); err != nil {
			t.Fatal(err)
		}
		if !has(v) {
			t.Fatalf("secrets are gone, although %s", why)
		}
	}
	dir := folder()
	v := openVaultIn(root, dir)
	if v.note == nil {
		t.Fatal("it does not say whose it is")
	}
	if _, err := v.put(task, map[string][]byte{"PW": []byte("x")}, nil); err != nil {
		t.Fatal(err)
	}
	left(v, "their peer lives")

	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	left(v, "their peer lives, without its folder")

	supervisor := exec.Command("/bin/sh", "supervise", dir) // as a supervisor is called
	supervisor.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(supervisor.Dir, "supervise"), []byte("echo\nread x\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	in, err := supervisor.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := supervisor.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := supervisor.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = v.note.Close() // as when it is killed
	left(v, "their supervisor lives")
	_ = in.Close()
	_ = supervisor.Wait()

	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	left(v, "their folder is there")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}

	path := v.dir + noteEnd
	ours, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var n note
	if err := json.Unmarshal(ours, &n); err != nil {
		t.Fatal(err)
	}
	n.Spaces = "others"
	b, _ := json.Marshal(n)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	left(v, "their folder has its name somewhere else")

	n.Spaces, n.Groups = spaces(), t.TempDir()
	if err := os.Mkdir(filepath.Join(n.Groups, "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if b, err = json.Marshal(n); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	next := openVaultIn(root, folder())
	if err := next.sweepNobodys(); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{v.of(task), v.dir, path, n.Groups} {
		if _, err := os.Lstat(gone); err == nil {
			t.Errorf("%s is still there", gone)
		}
	}
	next.close()
	if _, err := os.Lstat(next.dir + noteEnd); err == nil {
		t.Error("a peer that ends with no secrets leaves its note")
	}
}

// A note is read by other peers of the same user, of any version: what they do not understand they
// leave, for ever.
func TestTheNoteBesideSecretsIsWrittenAsItAlwaysWas(t *testing.T) {
	want := note{Tasks: "/data/tasks", Spaces: "mnt:[1] pid:[2]", Groups: "/groups"}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if err := golden.Check("testdata/note.owner", string(b)+"\n"); err != nil {
		t.Error(err)
	}
	var back note
	if err := json.Unmarshal(b, &back); err != nil || back != want {
		t.Errorf("it is read as %+v: %v", back, err)
	}
}
