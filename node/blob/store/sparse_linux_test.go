package store

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/coveyproject/covey/node/blob/piece"
)

// A file of 64 MiB with holes takes what is not hole, however it comes, and after a restart.
func TestAFileWithHolesTakesWhatIsNotHole(t *testing.T) {
	const most = 1 << 20
	content := make([]byte, 64<<20)
	copy(content[10<<20:], "some")
	copy(content[len(content)-3:], "end")
	root := piece.Sum(content)
	file := func(t *testing.T) *os.File {
		f, err := os.Create(filepath.Join(t.TempDir(), "f"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		s := piece.Sparse{To: f}
		if _, err := s.WriteAt(content, 0); err != nil {
			t.Fatal(err)
		}
		return f
	}
	for name, add := range map[string]func(*testing.T, *Store, *Batch) error{
		"streamed": func(t *testing.T, _ *Store, b *Batch) error {
			_, _, err := b.Add(t.Context(), bytes.NewReader(content), -1)
			return err
		},
		"as a file": func(t *testing.T, _ *Store, b *Batch) error {
			_, _, err := b.AddFile(t.Context(), file(t))
			return err
		},
		"taken": func(t *testing.T, _ *Store, b *Batch) error {
			_, _, err := b.Take(t.Context(), file(t))
			return err
		},
		"fetched": func(t *testing.T, s *Store, _ *Batch) error {
			h := piece.NewHasher()
			_, _ = h.Write(content)
			root, proof, size := h.Sum()
			blob, err := piece.Open(root, size, proof)
			if err != nil {
				return err
			}
			f, err := s.Begin(t.Context(), blob, true)
			if err != nil {
				return err
			}
			defer f.Close()
			for i := range blob.Pieces() {
				off, n := piece.Span(size, i)
				if err := f.Piece(i, content[off:int(off)+n]); err != nil {
					return err
				}
			}
			return f.Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openStore(t, dir, Config{Quota: 8 << 20})
			b := s.Batch(true)
			if err := add(t, s, b); err != nil {
				t.Fatal(err)
			}
			if err := b.Done(); err != nil {
				t.Fatal(err)
			}
			if err := s.Pin(Pin{Name: "it", Roots: []piece.Root{root}}); err != nil {
				t.Fatal(err)
			}
			b.Close()
			r, err := s.Reader(root)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(content))
			if _, err := r.ReadAt(got, 0); err != nil || !bytes.Equal(got, content) {
				t.Errorf("it reads otherwise: %v", err)
			}
			_ = r.Close()
			if n, err := s.disk.taken(wholeName(root)); err != nil || n > most {
				t.Errorf("%d bytes of the disk, %v", n, err)
			}
			if taken, _ := s.Taken(); taken > most || s.Tight() {
				t.Errorf("it counts as %d bytes", taken)
			}
			if taken, _ := openStore(t, dir, Config{Quota: 8 << 20}).Taken(); taken > most {
				t.Errorf("after a restart it counts as %d bytes", taken)
			}
		})
	}
}
