//go:build unix

package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/coveyproject/covey/taskstate"
)

func TestSecretsAreFilesThatOnlyTheirUserReadsUntilTheTaskIsOver(t *testing.T) {
	v := vault{dir: filepath.Join(t.TempDir(), "vault")}
	one, two := taskstate.Task("job", 1, 1), taskstate.Task("job", 2, 1)
	dir, err := v.put(one, map[string][]byte{"PW": []byte("hunter2"), "KEY": {0, 1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "PW")); err != nil || string(b) != "hunter2" {
		t.Errorf("%q, %v", b, err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o500 | os.ModeDir, filepath.Join(dir, "PW"): 0o400, v.dir: vaultMode() | os.ModeDir} {
		if st, err := os.Stat(path); err != nil || st.Mode() != want {
			t.Errorf("%s is %v, expected %v (%v)", path, st.Mode(), want, err)
		}
	}
	if _, err := v.put(one, map[string][]byte{"OTHER": []byte("x")}, nil); err != nil { // started again
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "PW")); err == nil {
		t.Error("what an earlier start of the task had is still there")
	}
	if _, err := v.put(two, map[string][]byte{"PW": []byte("x")}, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(v.dir, "no task"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := v.sweep(func(id taskstate.TaskID) bool { return id == two }); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(v.dir); err != nil || len(left) != 1 || left[0].Name() != two.String() {
		t.Errorf("left are %v (%v), expected that of the task that runs", left, err)
	}
	for range 2 {
		if err := v.remove(v.of(two)); err != nil {
			t.Error(err)
		}
	}
}

func TestAVaultThatSomebodyElseMadeIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := private(filepath.Join(dir, "link")); err == nil {
		t.Error("a link was followed")
	}
	if os.Getuid() != 0 {
		return // only root can make what is another's
	}
	theirs := filepath.Join(dir, "theirs")
	if err := os.Mkdir(theirs, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(theirs, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if err := private(theirs); err == nil {
		t.Error("a folder of another user was taken")
	}
}
