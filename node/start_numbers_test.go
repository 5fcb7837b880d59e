package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/node/api"
)

// used is a folder that has begun, with a log that has the number it returns.
func used(t *testing.T) (*folder, *uint64) {
	t.Helper()
	f, log := &folder{dir: t.TempDir()}, new(uint64)
	begin(t, f)
	draw(t, f, log)
	return f, log
}

func begin(t *testing.T, f *folder) thisStart {
	t.Helper()
	b, err := f.begin("self")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// draw opens a log, and reports whether it is the one that was used last.
func draw(t *testing.T, f *folder, log *uint64) (last bool) {
	t.Helper()
	err := f.Draw(*log, func(is bool, number uint64) error {
		last, *log = is, number
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return last
}

func TestALogThatIsNotTheOneOfTheLastStartIsFoundOut(t *testing.T) {
	t.Parallel()
	f, log := used(t)
	old := *log
	begin(t, f)
	if !draw(t, f, log) {
		t.Error("the log of the last start is another one")
	}
	begin(t, f) // a start that opens no log
	begin(t, f)
	if !draw(t, f, log) {
		t.Error("the log of the last start that had one is another one")
	}
	if draw(t, f, &old) {
		t.Error("an old copy of the log is taken for the last one")
	}
}

func TestALogThatGotNoNumberIsTheSameOneAtTheNextStart(t *testing.T) {
	t.Parallel()
	f, log := used(t)
	begin(t, f)
	full := errors.New("the disk is full")
	if err := f.Draw(*log, func(bool, uint64) error { return full }); !errors.Is(err, full) {
		t.Fatal(err)
	}
	begin(t, f)
	if !draw(t, f, log) {
		t.Error("the log is another one")
	}
}

func TestAStaleSeatIsRememberedUntilItIsCurrent(t *testing.T) {
	t.Parallel()
	f, _ := used(t)
	back := quorum.Doubt{Why: "it was put back"}
	if err := f.SetStale(back); err != nil {
		t.Fatal(err)
	}
	begin(t, f)
	begin(t, f)
	if f.Stale() != back {
		t.Errorf("after two starts it is stale for %q", f.Stale().Why)
	}
	f.at = "elsewhere"
	begin(t, f)
	f.at = "at a third place"
	begin(t, f)
	if f.Stale() != back {
		t.Errorf("after it was moved as well it is stale for %q: a person could vouch for it", f.Stale().Why)
	}
	if err := f.SetStale(quorum.Doubt{}); err != nil {
		t.Fatal(err)
	}
	begin(t, f)
	if f.Stale().Why != "" {
		t.Errorf("it is stale still: %q", f.Stale().Why)
	}
}

func TestAMovedFolderIsStaleForThatUntilItIsCurrent(t *testing.T) {
	t.Parallel()
	f := &folder{dir: t.TempDir(), at: "here"}
	begin(t, f)
	f.at = "there"
	begin(t, f)
	begin(t, f)
	if d := f.Stale(); d.Why == "" || !d.Moved {
		t.Errorf("a folder that was moved two starts ago is stale for %+v", d)
	}
}

func TestACopyThatGotTheInodeOfTheOriginalIsStale(t *testing.T) {
	t.Parallel()
	f := &folder{dir: t.TempDir()}
	if err := os.WriteFile(f.path(keyFile), []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if born(f.path(keyFile)) == "" {
		t.Skip("this file system does not record when files were made")
	}
	begin(t, f)
	begin(t, f)
	if d := f.Stale(); d.Why != "" {
		t.Fatalf("where it was it is stale for %+v", d)
	}
	err := f.amend(func(last *lastBegun) { last.Born = "1.5" }) // as if another file had had this inode
	if err != nil {
		t.Fatal(err)
	}
	begin(t, f)
	if !f.Stale().Moved {
		t.Error("a file of another birth is taken for the same one")
	}
}

func TestMovedIsRejectedWhereNoPeerWas(t *testing.T) {
	t.Parallel()
	var e *api.Error
	dir := filepath.Join(t.TempDir(), "none")
	if _, err := New(Config{Data: dir, Moved: true}); !errors.As(err, &e) || e.Code != api.Usage {
		t.Errorf("a new peer was made for --moved: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the data folder was made")
	}
}
