package guard_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coveyproject/covey/node/guard"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/trust/policy"
)

func TestAPolicyThatCannotBeReadAtAStartLetsNothingRunAndStaysAsItIs(t *testing.T) {
	harms := map[string]func(path string) error{
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"unreadable":  func(path string) error { return os.Symlink(path, path) }, // for root, too
		"empty":       func(path string) error { return os.WriteFile(path, nil, 0o600) },
	}
	for whose, roles := range map[string][]admission.Role{"mine": admission.AllRoles(), "a guest's": {admission.Worker, admission.Submit}} {
		for how, harm := range harms {
			path := filepath.Join(t.TempDir(), policy.FileName)
			if err := harm(path); err != nil {
				t.Fatal(err)
			}
			was, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, resumed := range []bool{true, false} {
				o := guard.NewOwner(guard.OwnerConfig{Path: path, Changed: func() {}})
				if _, err := o.Settle(resumed, roles); err != nil {
					t.Errorf("%s, %s: %v", whose, how, err)
				}
				if p := o.Now(); len(p.Rules) != 0 || p.Unsigned || !strings.Contains(o.Warning(), "nothing runs here until") || !strings.Contains(o.InForce(), "nothing runs") {
					t.Errorf("%s, %s: in force %+v, %q, %q", whose, how, p, o.InForce(), o.Warning())
				}
			}
			if is, err := os.Lstat(path); err != nil || is.Mode() != was.Mode() || is.Size() != was.Size() {
				t.Errorf("%s, %s: it was replaced: %v, %v", whose, how, is, err)
			}
		}
	}
}
