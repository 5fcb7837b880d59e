package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/node/blob/piece"

	"pgregory.net/rapid"
)

func TestPinsAreAsTheirVersionHasThem(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: pinMagic, Frames: map[string]any{"pin": &pinBody{}}})
}

// What one version of the program leaves on the disk is read by the next.
func TestFilesAreWrittenAsTheyAlwaysWere(t *testing.T) {
	data := make([]byte, 2*mib+1)
	for i := range data {
		data[i] = byte(i % 251)
	}
	b := sampleOf(data)
	have := piece.NewBitmap(20)
	for _, i := range []int{0, 9, 19} {
		have.Set(i)
	}
	pin, err := encodePin(Pin{Name: "a", Until: time.Unix(1e9, 0), Why: "why", Roots: []piece.Root{b.root(), {1, 2}}})
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%s: %q\n", "proof", encodeProof(b.blob)) +
		fmt.Sprintf("%s: %q\n", "map", encodeMap(have)) +
		fmt.Sprintf("%s: %q\n", "pin", pin) +
		fmt.Sprintf("%s %s\n", wholeName(b.root()), partName(b.root()))
	if err := golden.Check("testdata/files.txt", text); err != nil {
		t.Error(err)
	}
	golden.Freeze(t, strings.Join([]string{proofMagic, mapMagic, pinMagic}, ", "), text)
}

func TestProofsMapsAndPinsAreReadAsTheyWereWritten(t *testing.T) {
	b := samples(3*mib + 5)[0]
	if back, err := decodeProof(b.root(), encodeProof(b.blob)); err != nil || back.Size() != b.blob.Size() || !slices.Equal(back.Proof(), b.blob.Proof()) {
		t.Fatal(back, err)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 70).Draw(t, "n")
		m := piece.NewBitmap(n)
		for _, i := range rapid.SliceOf(rapid.IntRange(0, n-1)).Draw(t, "pieces") {
			m.Set(i)
		}
		data := encodeMap(m)
		for i := range n {
			if data[mapOffset(i)] != mapByte(m, i) {
				t.Fatal("a byte of the map is not where it is")
			}
		}
		if back := decodeMap(n, data); !bytes.Equal(back.Bytes(), m.Bytes()) {
			t.Fatal(back, m)
		}
		p := Pin{Name: "a", Why: rapid.String().Draw(t, "why"), Roots: []piece.Root{{byte(n)}, b.root()}}
		if rapid.Bool().Draw(t, "until") {
			p.Until = time.Unix(rapid.Int64Range(1, 1e11).Draw(t, "at"), 0)
		}
		data, err := encodePin(p)
		if err != nil {
			t.Fatal(err)
		}
		back, err := decodePin("a", data)
		if err != nil || !back.Until.Equal(p.Until) || back.Why != p.Why || !slices.Equal(back.Roots, p.Roots) {
			t.Fatal(back, err)
		}
		at := rapid.IntRange(0, len(data)-1).Draw(t, "flip")
		data[at] ^= 1
		if _, err := decodePin("a", data); err == nil {
			t.Fatal("a flipped bit is not noticed")
		}
	})
}

func FuzzProofFile(f *testing.F) {
	b := samples(2*mib + 5)[0]
	f.Add(encodeProof(b.blob))
	f.Add([]byte(proofMagic + "12345678"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if blob, err := decodeProof(b.root(), data); err == nil && !bytes.Equal(encodeProof(blob), data) {
			t.Fatal("it is read as something else")
		}
	})
}

func FuzzMapFile(f *testing.F) {
	f.Add(10, encodeMap(piece.FullBitmap(10)))
	f.Fuzz(func(t *testing.T, n int, data []byte) {
		if n = min(max(n, 1), 1<<16); decodeMap(n, data).Len() != n {
			t.Fatal("another length")
		}
	})
}

func FuzzPinFile(f *testing.F) {
	data, err := encodePin(Pin{Name: "a", Until: time.Unix(5, 0), Why: "why", Roots: []piece.Root{{1}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decodePin("a", data)
		if err != nil {
			return
		}
		if again, err := encodePin(p); err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%q is written as %q, %v", data, again, err)
		}
	})
}

func TestAPinsNameIsNoPath(t *testing.T) {
	s := openStore(t, t.TempDir(), Config{Quota: 1 << 30})
	for _, name := range []string{"", ".", "..", "../x", "a/b", ".a", "a\x00", "ä", strings.Repeat("a", 121)} {
		if err := s.Pin(Pin{Name: name}); err == nil {
			t.Errorf("a pin is called %q", name)
		}
	}
	if err := s.Pin(Pin{Name: "b3_0A-x.dir"}); err != nil {
		t.Error(err)
	}
}

// A file of a later version, or a damaged one, is passed over and kept.
func TestAPinThatCannotBeReadStaysWhereItIs(t *testing.T) {
	dir := t.TempDir()
	openStore(t, dir, Config{})
	name := filepath.Join(dir, pinned, "later")
	if err := os.WriteFile(name, []byte("covey blob pin 2 and more"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir, Config{})
	if b, err := os.ReadFile(name); err != nil || len(b) == 0 || len(s.Pins()) != 0 || s.Usage().Foreign != 1 {
		t.Fatal(s.Pins(), s.Usage(), err)
	}
}
