package piece

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// memory is a file that was empty at first.
type memory struct {
	b     []byte
	wrote int
}

func (m *memory) WriteAt(b []byte, off int64) (int, error) {
	if end := int(off) + len(b); end > len(m.b) {
		m.b = append(m.b, make([]byte, end-len(m.b))...)
	}
	m.wrote += len(b)
	return copy(m.b[off:], b), nil
}

func TestASparseFileHasTheBytesThatWereWrittenAndNoBlocksOfZeros(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var want []byte
		zero := 0
		for _, full := range rapid.SliceOfN(rapid.Bool(), 0, 8).Draw(r, "blocks") {
			block := make([]byte, Hole)
			if full {
				block[rapid.IntRange(0, Hole-1).Draw(r, "at")] = 1
			} else {
				zero++
			}
			want = append(want, block...)
		}
		want = append(want, make([]byte, rapid.IntRange(0, 100).Draw(r, "rest"))...)
		m := &memory{}
		s := Sparse{To: m}
		for off := 0; off < len(want); {
			n := min(rapid.IntRange(1, 3*Hole).Draw(r, "part")/Hole*Hole+Hole, len(want)-off)
			if k, err := s.WriteAt(want[off:off+n], int64(off)); k != n || err != nil {
				r.Fatal(k, err)
			}
			off += n
		}
		if err := s.End(int64(len(want))); err != nil {
			r.Fatal(err)
		}
		if !bytes.Equal(m.b, want) {
			r.Fatalf("%d bytes, want %d; or others", len(m.b), len(want))
		}
		if most := len(want) - zero*Hole + 1; m.wrote > most {
			r.Fatalf("%d bytes were written, %d are no zeros", m.wrote, most)
		}
	})
}
