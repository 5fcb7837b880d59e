package mark_test

import (
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger/quorum/mark"
)

func put(t *testing.T, x *mark.File, m mark.Mark) {
	t.Helper()
	if err := x.Put(m); err != nil {
		t.Fatal(err)
	}
}

func TestAMarkIsFoundAgainAndATornOneLeavesTheOneBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mark")
	x, m, err := mark.Open(path)
	if err != nil || m.Server != "" {
		t.Fatalf("an empty folder has mark %+v, %v", m, err)
	}
	a := mark.Mark{Server: "p/1", Generation: 3, Term: 4, Index: 5, Voted: 6}
	b := mark.Mark{Server: "p/1", Generation: 3, Term: 4, Index: 9, Voted: 7}
	put(t, x, a)
	put(t, x, b)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, m, err = mark.Open(path); err != nil || m != b {
		t.Errorf("found %+v, %v; want %+v", m, err, b)
	}
	for _, at := range []int{0, 3, 20, 50, 100, 511} { // the second write went into the first slot
		torn := append([]byte(nil), whole...)
		torn[at] ^= 0x10
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, m, err = mark.Open(path); err != nil || m != a {
			t.Errorf("with byte %d wrong it found %+v, %v; want the mark before", at, m, err)
		}
	}
}

func TestAMarkThatCannotBeReadIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mark")
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 9000).Draw(t, "bytes")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		x, m, err := mark.Open(path)
		if err != nil || m != (mark.Mark{}) {
			t.Fatalf("garbage is mark %+v, %v", m, err)
		}
		want := mark.Mark{Server: "p/2", Generation: 1, Term: 1, Index: rapid.Uint64().Draw(t, "index")}
		if err := x.Put(want); err != nil {
			t.Fatal(err)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		if _, m, err = mark.Open(path); err != nil || m != want {
			t.Fatalf("found %+v, %v; want %+v", m, err, want)
		}
	})
}

func TestAMarkThatCannotBeWrittenSaysSo(t *testing.T) {
	x, _, err := mark.Open(filepath.Join(t.TempDir(), "missing", "mark"))
	if err != nil {
		t.Fatal(err)
	}
	if x.Put(mark.Mark{Server: "p/1"}) == nil {
		t.Error("written into a folder there is not")
	}
	if x.Mark().Server != "" {
		t.Errorf("it believes %+v to be on disk", x.Mark())
	}
}

func TestMarksOfOneServerAreOrdered(t *testing.T) {
	gen := rapid.Custom(func(t *rapid.T) mark.Mark {
		n := rapid.Uint64Max(3)
		return mark.Mark{Server: "p/1", Generation: 1, Term: n.Draw(t, "term"), Index: n.Draw(t, "index"), Voted: n.Draw(t, "voted")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		if !a.Behind(b) && !b.Behind(a) && a != b {
			t.Errorf("neither of %v and %v is behind", a, b)
		}
		other := b
		other.Server = "p/2"
		if a.Behind(other) {
			t.Errorf("a mark of another server counts")
		}
	})
}
