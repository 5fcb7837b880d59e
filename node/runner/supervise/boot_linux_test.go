package supervise

import (
	"os"
	"path/filepath"
	"testing"
)

// A mark that cannot be written must not be mistaken for that of another boot: what ran would count
// as lost.
func TestAFullDiskTakesNothingFromTheMarkOfTheBoot(t *testing.T) {
	for what, was := range map[string]string{"new": "", "of another boot": "another", "of this boot": BootID()} {
		dir := t.TempDir()
		path := filepath.Join(dir, bootName)
		if was != "" {
			if err := os.WriteFile(path, []byte(was), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("/dev/full", path+".new"); err != nil {
			t.Fatal(err)
		}
		if err := markBoot(dir); err == nil {
			t.Fatal("it was written on a full disk")
		}
		if st, err := os.Lstat(path); err == nil && !st.Mode().IsRegular() {
			t.Fatalf("a folder that was %s: what could not be written has taken its place", what)
		}
		if b, err := os.ReadFile(path); string(b) != was || (err == nil) != (was != "") {
			t.Errorf("a folder that was %s: the mark is %q, %v", what, b, err)
		}
		_ = os.Remove(path + ".new")
		if rebooted, marked, err := checkBoot(dir); err != nil || rebooted != (was == "another") || marked == rebooted {
			t.Errorf("a folder that was %s, with room again: rebooted %v, marked %v, %v", what, rebooted, marked, err)
		}
	}
}
