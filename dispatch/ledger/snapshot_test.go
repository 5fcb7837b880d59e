package ledger_test

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// rich is a state with something of everything.
func rich(t *testing.T) *log {
	l := newLog(t)
	l.must(invite("t", 2), admit("p3", "t"), ledger.Command{Remove: &ledger.Remove{Peer: "p3"}})
	l.must(submit("done", 2), assign("done", "p2", run(1, 2, 1)), settle("p2", ended("done", 1, taskstate.Complete), ended("done", 2, taskstate.Failed)))
	l.must(submit("cut", 700), assign("cut", "p1", run(600, 3, 1)), supersede(taskstate.Task("cut", 601, 1), true), cancel("cut"))
	l.must(submit("open", 1000), assign("open", "p1", run(300, 3, 1)), supersede(taskstate.Task("open", 301, 1), true))
	return l
}

func TestASnapshotIsRefusedIfAnythingInItIsOff(t *testing.T) {
	b := encode(t, rich(t).State)
	if _, err := ledger.DecodeState(b); err != nil {
		t.Fatal(err)
	}
	for i := range b { // most changes are noticed; none may panic, and what is let in must encode
		c := bytes.Clone(b)
		c[i] ^= 1
		if s, err := ledger.DecodeState(c); err == nil {
			encode(t, s)
		}
		if _, err := ledger.DecodeState(b[:i]); err == nil {
			t.Fatalf("the first %d of %d bytes were read as a whole state", i, len(b))
		}
	}
	if _, err := ledger.DecodeState(append(b, 0)); err == nil {
		t.Error("a byte too many was not noticed")
	}
}

func TestASnapshotOfAnotherVersionSaysWhatToDo(t *testing.T) {
	b := encode(t, ledger.NewState())
	i := bytes.Index(b, []byte{1, 3}) // field 1, version 3
	b[i+1] = 9
	if _, err := ledger.DecodeState(b); err == nil || !strings.Contains(err.Error(), "update") {
		t.Errorf("version 9: %v", err)
	}
}

func TestAHundredThousandSettledSlotsAreSmall(t *testing.T) {
	const many, most = 100_000, 60
	l := newLog(t)
	var all []taskstate.Status
	for n := 1; n <= many; n++ {
		all = append(all, ended("j", n, taskstate.Complete))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l.must(submit("j", many), assign("j", "p2", run(1, many, 1)), settle("p2", all...))
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / many; got > most {
		t.Errorf("%d bytes per slot, want at most %d", got, most)
	}
	if b := encode(t, l.State); len(b) > 12*many {
		t.Errorf("%d bytes of snapshot per slot", len(b)/many)
	}
}

func TestForgottenJobsAreNotForgottenByASnapshot(t *testing.T) {
	l := newLog(t)
	l.must(submit("j", 1), cancel("j"))
	l.stamp += ledger.KeepFor + 1
	l.must(ledger.Command{Lead: &ledger.Lead{}})
	back, err := ledger.DecodeState(encode(t, l.State))
	if err != nil {
		t.Fatal(err)
	}
	l.State = back
	l.refuses(ledger.CodeOver, submit("j", 1))
}

// FuzzDecodeState holds DecodeState to two promises: it never panics, and what it lets in is a state: it encodes to a snapshot
// of itself and takes further entries.
func FuzzDecodeState(f *testing.F) {
	empty, err := ledger.NewState().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(empty)
	f.Add(encode(f, rich(&testing.T{}).State))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ledger.DecodeState(b)
		if err != nil {
			return
		}
		c := encode(t, s)
		again, err := ledger.DecodeState(c)
		if err != nil {
			t.Fatalf("does not read its own snapshot: %v", err)
		}
		if !bytes.Equal(c, encode(t, again)) {
			t.Fatal("a snapshot of a snapshot differs")
		}
		l := &log{State: s, t: t, epoch: s.Epoch(), stamp: s.Stamp()}
		for _, id := range slices.Collect(s.Jobs()) {
			n := id.Job().Count
			l.apply(assign(id.Job().ID, "p1", run(1, n, 1)), settle("p1", ended(id.Job().ID, 1, taskstate.Complete)), supersede(taskstate.Task(id.Job().ID, n, 1), true), cancel(id.Job().ID))
			break
		}
		l.apply(submit("new", 2), assign("new", "p2", run(1, 1, 1)), ledger.Command{Remove: &ledger.Remove{Peer: "p2"}})
	})
}

func TestASnapshotOfTheVersionBeforeIsStillRead(t *testing.T) {
	b := encode(t, ledger.NewState())
	b[bytes.Index(b, []byte{1, 3})+1] = 2
	if _, err := ledger.DecodeState(b); err != nil {
		t.Error(err)
	}
}
