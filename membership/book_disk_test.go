package membership

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/p2p/admission"
)

func someBook() *book {
	b := &book{peers: map[string]record{}}
	b.put(record{ID: "a", Name: "left", Addrs: []string{"/ip4/192.0.2.1/tcp/1"}, Roles: []admission.Role{admission.Worker}, Seen: 5})
	b.put(record{ID: "b"})
	return b
}

// What was written is read for ever.
func TestABookIsWrittenAsItAlwaysWas(t *testing.T) {
	if err := golden.Check("testdata/book.jsonl", string(someBook().encode())); err != nil {
		t.Fatal(err)
	}
}

// A book is a help to find others again: a line of it that a disk changed costs at most that line,
// or is what somebody says wrongly.
func FuzzABookFromDiskNeverPanics(f *testing.F) {
	f.Add(someBook().encode())
	f.Add([]byte("{\"id\":\"a\"}\n{\"id\":\"\"}\n[]\nnull\n{\"id\":\"b\",\"addrs\":[\"\"],\"roles\":[\"x\"]}"))
	path := filepath.Join(f.TempDir(), "book")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		b, _, err := openBook(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.peers) > maxBook {
			t.Fatalf("%d peers", len(b.peers))
		}
		for id, r := range b.peers {
			r.meta()
			if r.ID != id || id == "" || len(r.Addrs) > maxBookAddrs {
				t.Fatalf("%+v", r)
			}
		}
	})
}
