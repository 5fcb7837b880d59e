package covey_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
)

const released = "internal/golden/released.txt"

// A shape's fingerprint may be deleted as long as no release has it: what others have installed
// goes on being read. A version's sources, whose name has no -dev, have all theirs among the
// released ones; -update adds them and takes nothing away.
func TestEveryFingerprintOfAReleaseStillStands(t *testing.T) {
	now := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		if filepath.Base(path) == "fingerprints.txt" {
			for line := range strings.Lines(read(t, path)) {
				now[filepath.ToSlash(filepath.Dir(filepath.Dir(path)))+": "+strings.TrimSpace(line)] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	was := map[string]bool{}
	for line := range strings.Lines(read(t, released)) {
		was[strings.TrimSpace(line)] = true
	}
	if len(was) < 30 {
		t.Errorf("%s has %d lines", released, len(was))
	}
	for line := range was {
		if !now[line] {
			t.Errorf("%q is gone, and peers of a release write and read it: give what is new another version or dialect (docs/wires.md)", line)
		}
	}
	if !regexp.MustCompile(`(?m)^const source = "[\d.]+"$`).MatchString(read(t, "cmd/peer/version.go")) {
		return // between two releases
	}
	maps.DeleteFunc(now, func(line string, _ bool) bool { return was[line] })
	if len(now) > 0 && golden.Updating() {
		maps.Copy(was, now)
		if err := os.WriteFile(released, []byte(strings.Join(slices.Sorted(maps.Keys(was)), "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for line := range now {
		t.Errorf("%q is of this release, and %s does not have it: go test . -run FingerprintOfARelease -update", line, released)
	}
}
