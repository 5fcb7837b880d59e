package quorum

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/sim/memledger"
)

// somethingDecided is a replica of some decisions.
func somethingDecided(t *testing.T) *ledger.Replica {
	t.Helper()
	m := memledger.New("p1", time.Now)
	m.Join("p2", "i1")
	for _, id := range []taskstate.JobID{"j1", "j2"} {
		_, res, err := m.Propose(t.Context(), []ledger.Command{{Submit: &ledger.Submit{Job: taskstate.Job{ID: id, Name: "x", Type: taskstate.BatchJob, Count: 3}}}})
		if err != nil || res[0].Refused != ledger.CodeNone {
			t.Fatal(res, err)
		}
	}
	return m.Replica()
}

func TestACopyOnDiskReadsBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	r, back := somethingDecided(t), ledger.NewReplica()
	if err := loadCopy(back, path); err != nil || back.Applied() != 0 {
		t.Fatalf("no file: %v", err)
	}
	for range 2 {
		if err := saveCopy(r, path); err != nil {
			t.Fatal(err)
		}
	}
	if err := loadCopy(back, path); err != nil {
		t.Fatal(err)
	}
	a, err1 := r.Encode()
	b, err2 := back.Encode()
	if err1 != nil || err2 != nil || string(a) != string(b) {
		t.Errorf("came back different: %v %v", err1, err2)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v: %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestADamagedCopyIsRefusedAndChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	r := somethingDecided(t)
	if err := saveCopy(r, path); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"torn": whole[:len(whole)-1], "empty": {}, "something else": []byte("hello")} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		before := r.Applied()
		if err := loadCopy(r, path); err == nil || !strings.Contains(err.Error(), "delete it") || r.Applied() != before {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := saveCopy(r, filepath.Join(t.TempDir(), "no", "such", "folder")); err == nil {
		t.Error("saved into nowhere")
	}
}
