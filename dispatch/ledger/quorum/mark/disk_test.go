package mark_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger/quorum/mark"
	"github.com/coveyproject/covey/internal/golden"
)

// wholeFiles are a mark's file after one write, and a book's content.
func wholeFiles(t testing.TB) (file, book []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mark")
	x, _, err := mark.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	m := mark.Mark{Server: "p/1", Generation: 2, Term: 3, Index: 4, Voted: 5, Decided: 6}
	if err := x.Put(m); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if file, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	var b mark.Book
	b.Add(mark.Signed{Mark: m, Sig: []byte("signed")})
	if book, err = b.Encode(); err != nil {
		t.Fatal(err)
	}
	return file, book
}

// What was written is read for ever.
func TestAMarkAndABookAreWrittenAsTheyAlwaysWere(t *testing.T) {
	file, book := wholeFiles(t)
	got := fmt.Sprintf("%d bytes\nslot at 4096: %s\nbook: %s\n", len(file), hex.EncodeToString(file[4096:4096+512]), hex.EncodeToString(book))
	if err := golden.Check("testdata/files.txt", got); err != nil {
		t.Fatal(err)
	}
}

func FuzzABookFromDiskNeverPanics(f *testing.F) {
	_, book := wholeFiles(f)
	f.Add(book)
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := mark.DecodeBook(data)
		if err != nil {
			return
		}
		if n := len(b.In(2)); n > 16 {
			t.Fatalf("%d marks", n)
		}
		b.Add(mark.Signed{Mark: mark.Mark{Server: "q/1", Generation: 1 << 60, Index: 1}})
		if _, err := b.Encode(); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzAMarkFromDiskNeverPanics(f *testing.F) {
	file, _ := wholeFiles(f)
	f.Add(file)
	path := filepath.Join(f.TempDir(), "mark")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		x, m, err := mark.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		next := mark.Mark{Server: "p/2", Generation: m.Generation, Index: m.Index}
		if err := x.Put(next); err != nil {
			t.Fatal(err)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		if _, m, err = mark.Open(path); err != nil || m != next {
			t.Fatalf("%+v, %v; want %+v", m, err, next)
		}
	})
}
