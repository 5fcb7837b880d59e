package node

import (
	"errors"
	"testing"
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
	if err := f.SetStale("it was put back"); err != nil {
		t.Fatal(err)
	}
	begin(t, f)
	begin(t, f)
	if f.Stale() != "it was put back" {
		t.Errorf("after two starts it is stale for %q", f.Stale())
	}
	if err := f.SetStale(""); err != nil {
		t.Fatal(err)
	}
	begin(t, f)
	if f.Stale() != "" {
		t.Errorf("it is stale still: %q", f.Stale())
	}
}
