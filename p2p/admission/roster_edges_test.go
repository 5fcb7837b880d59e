package admission_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/memnet"
)

// largest is an entry at all its limits.
func (f *testCluster) largest(n int) admission.Entry {
	wide := func(prefix string, size int) string { return prefix + strings.Repeat("x", size-len(prefix)) }
	return admission.Entry{
		Cluster: wide("", 128), Peer: wide(fmt.Sprint("peer", n), 128), Name: wide("", 64), Ticket: wide("", 128), By: wide("by", 128),
		Roles: admission.AllRoles(), At: 1 << 60, Removed: true, Sig: make([]byte, 256),
	}
}

func TestTheLargestRosterThereMayBeIsThereAfterARestart(t *testing.T) {
	f, dir := newCluster(t), t.TempDir()
	if fast, err := os.MkdirTemp("/dev/shm", "covey-test-"); err == nil { // where fsync costs nothing
		dir = fast
		defer func() { _ = os.RemoveAll(fast) }()
	}
	path := filepath.Join(dir, "roster")
	r, err := admission.OpenRoster(path, memnet.Verify)
	if err != nil {
		t.Fatal(err)
	}
	var all []admission.Entry
	for n := range admission.MaxRoster {
		all = append(all, f.largest(n))
	}
	if err := errors.Join(r.Trust(all...), r.Flush()); err != nil {
		t.Fatal(err)
	}
	again, err := admission.OpenRoster(path, memnet.Verify)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(again.All()); n != admission.MaxRoster {
		t.Errorf("%d entries of %d", n, admission.MaxRoster)
	}
}

func TestARosterThatCannotBeReadIsNotTakenForDamaged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "roster")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	for what, path := range map[string]string{"a folder": path, "below a file": filepath.Join(path, "x", "\x00")} {
		if r, err := admission.OpenRoster(path, memnet.Verify); err == nil || r != nil || errors.Is(err, admission.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("it was moved: %v", err)
	}
}

func TestAnEntryThatCannotBeSignedIsNone(t *testing.T) {
	f := newCluster(t)
	gone := f.net.Host("gone")
	for what, x := range map[string]struct {
		entry admission.Entry
		by    admission.Signer
		why   string
	}{
		"no peer": {admission.Entry{Cluster: cluster}, gone, "required"},
		"no key":  {admission.Entry{Cluster: cluster, Peer: "x"}, keyless{}, "sign the roster entry of x: no key"},
	} {
		if e, err := x.entry.Signed(x.by); err == nil || !strings.Contains(err.Error(), x.why) {
			t.Errorf("%s: %+v, %v", what, e, err)
		}
	}
}

type keyless struct{}

func (keyless) Self() string                { return "k" }
func (keyless) Sign([]byte) ([]byte, error) { return nil, errors.New("no key") }
