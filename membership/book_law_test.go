package membership

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/p2p/admission"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// writeLines makes a book file and opens it.
func writeLines(t rapid.TB, dir string, data []byte) (*book, int) {
	t.Helper()
	path := filepath.Join(dir, "book")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	b, torn, err := openBook(path)
	if err != nil {
		t.Fatal(err)
	}
	return b, torn
}

func TestABookIsReadAsItWasWritten(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		b := &book{peers: map[string]record{}}
		words := rapid.SliceOfN(rapid.String(), 0, 20)
		for range rapid.IntRange(0, 8).Draw(t, "steps") {
			id := rapid.StringN(1, 8, 30).Draw(t, "id")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				b.told(PeerAddr{ID: id, Addrs: words.Draw(t, "addrs")})
			case 1:
				b.met(id, meta{Name: rapid.String().Draw(t, "name"), Addrs: words.Draw(t, "addrs"), Roles: packRoles(admission.AllRoles())}, rapid.Int64Range(0, 1<<50).Draw(t, "now"))
			case 2:
				b.seen(id, 7)
			default:
				b.forget(id)
			}
		}
		back, torn := writeLines(t, dir, b.encode())
		if torn != 0 {
			t.Fatalf("%d torn lines in %q", torn, b.encode())
		}
		if !bytes.Equal(back.encode(), b.encode()) {
			t.Fatal(cmp.Diff(string(b.encode()), string(back.encode())))
		}
	})
}

func TestATornLineCostsOnlyItself(t *testing.T) {
	good := func(n int) string { return fmt.Sprintf(`{"id":"p%d","seen":%d}`, n, n) }
	for what, bad := range map[string]string{
		"half a line": `{"id":"x","na`, "no id": `{"name":"x"}`, "another shape": `[1, 2]`, "zeroes of a lost block": strings.Repeat("\x00", 100_000),
		"a line without end": `{"id":"` + strings.Repeat("x", 200_000), "nothing": "",
	} {
		b, torn := writeLines(t, t.TempDir(), []byte(good(1)+"\n"+bad+"\n"+good(2)+"\n"+good(3)))
		if got := slices.Sorted(maps.Keys(b.peers)); !slices.Equal(got, []string{"p1", "p2", "p3"}) || torn != 1 {
			t.Errorf("%s: %v, %d torn", what, got, torn)
		}
	}
}

func TestAFullBookForgetsWhoWasUnseenLongest(t *testing.T) {
	b := &book{peers: map[string]record{}}
	for n := range maxBook {
		b.met(fmt.Sprint("p", n), meta{}, int64(n+100))
	}
	b.seen("p0", 1<<40)
	b.met("newcomer", meta{}, 1<<41)
	if _, ok := b.peers["p1"]; len(b.peers) != maxBook || ok {
		t.Errorf("%d peers, p1 among them: %v", len(b.peers), ok)
	}
	for _, id := range []string{"p0", "p2", "newcomer"} {
		if _, ok := b.peers[id]; !ok {
			t.Errorf("%s is forgotten", id)
		}
	}
	var more bytes.Buffer
	for n := range maxBook + 10 {
		fmt.Fprintf(&more, "{\"id\":\"p%d\"}\n", n)
	}
	if read, _ := writeLines(t, t.TempDir(), more.Bytes()); len(read.peers) != maxBook {
		t.Errorf("%d peers are read, the cap is %d", len(read.peers), maxBook)
	}
}

func TestWhatIsToldComesFirstAndWhatWasKnownStays(t *testing.T) {
	b := &book{peers: map[string]record{}}
	b.met("p", meta{Name: "name", Addrs: []string{"a", "b"}}, 5)
	b.dirty = false
	b.told(PeerAddr{ID: "p", Addrs: []string{"c", "a"}})
	if r := b.peers["p"]; !slices.Equal(r.Addrs, []string{"c", "a", "b"}) || r.Name != "name" || r.Seen != 5 || !b.dirty {
		t.Errorf("%+v, to be written: %v", r, b.dirty)
	}
	b.dirty = false
	b.told(PeerAddr{ID: "p", Addrs: []string{"c", "a"}})
	b.met("p", meta{Name: "name", Addrs: []string{"c", "a", "b"}}, 9)
	if r := b.peers["p"]; b.dirty || r.Seen != 9 {
		t.Errorf("what is known already is written again, or not stamped: %+v", r)
	}
	given := []string{"x"}
	b.told(PeerAddr{ID: "q", Addrs: given})
	given[0] = "changed"
	if b.peers["q"].Addrs[0] != "x" {
		t.Error("the book shares its caller's memory")
	}
	b.forget("p")
	b.forget("nobody")
	if _, ok := b.peers["p"]; ok {
		t.Error("forgotten and still there")
	}
}

func TestABookThatCannotBeWrittenLeavesTheOldOne(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "book")
	if err := writeBook(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := writeBook(filepath.Join(dir, "no", "such", "folder"), []byte("new")); err == nil || !strings.Contains(err.Error(), "cannot write the peer book") {
		t.Errorf("%v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeBook(filepath.Join(dir, "folder"), []byte("new")); err == nil {
		t.Error("a folder was replaced")
	}
	names, err := os.ReadDir(dir)
	if got, _ := os.ReadFile(path); err != nil || string(got) != "old" || len(names) != 2 {
		t.Errorf("%q, and %v in the folder", got, names)
	}
}
