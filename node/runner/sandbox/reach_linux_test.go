package sandbox

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestWhatKeepsAUserFromAProgramIsTheFirstFolderThatItMayNotEnter(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("another user's rights take root")
	}
	dir, err := os.MkdirTemp("/var/tmp", "covey-test-") // below folders that everybody may pass
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	u, closed, file := &User{UID: 12345, GID: 23456}, filepath.Join(dir, "closed"), filepath.Join(dir, "closed/below/program")
	link := filepath.Join(dir, "link")
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	must(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o755), os.Symlink(file, link), os.Chmod(dir, 0o755))
	step := func(what string, barred string) {
		t.Helper()
		for _, path := range []string{file, link} {
			if got := u.Barred(path); got != barred {
				t.Errorf("%s: %s is barred by %q, want %q", what, path, got, barred)
			}
		}
	}
	must(os.Chown(closed, 0, 0), os.Chmod(closed, 0o755))
	step("all may enter", "")
	must(os.Chmod(closed, 0o700))
	step("root alone may enter", closed)
	must(os.Chown(closed, 0, u.GID), os.Chmod(closed, 0o710))
	step("its group may enter", "")
	must(os.Chmod(closed, 0o705))
	step("all may enter but its group", closed)
	must(os.Chown(closed, u.UID, 0), os.Chmod(closed, 0o700))
	step("its owner may enter", "")
	must(os.Chmod(file, 0o744))
	step("the file is not for it", file)
	if syscall.Geteuid() != 0 || os.WriteFile(filepath.Join(closed, "still root"), nil, 0o600) != nil {
		t.Error("this process is not root any more")
	}
}
