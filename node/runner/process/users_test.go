package process

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
)

// With another user, tasks would not find what their submitter's other tasks left.
func TestTheFileOfTaskUsersIsWrittenAsItAlwaysWas(t *testing.T) {
	u := &users{path: filepath.Join(t.TempDir(), "task-users"), known: map[string]int{"submitter": 1_900_000_001}}
	if err := u.keep(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(u.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := golden.Check("testdata/task-users", string(b)); err != nil {
		t.Error(err)
	}
	if back, err := openUsers(u.path); err != nil || !maps.Equal(back.known, u.known) {
		t.Errorf("it is read as %+v: %v", back, err)
	}
}
