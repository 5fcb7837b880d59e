package piece

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"lukechampine.com/blake3"
	"pgregory.net/rapid"
)

// sizes are those around every border of the tree, and some of any kind.
func sizes() *rapid.Generator[int] {
	return rapid.Custom(func(t *rapid.T) int {
		unit := rapid.SampledFrom([]int{1, 64, 1024, 2048, block, 2 * block, Size, 2 * Size}).Draw(t, "unit")
		most := min(4, 4*Size/unit)
		n := unit*rapid.IntRange(0, most).Draw(t, "units") + rapid.IntRange(-3, 3).Draw(t, "more")
		if rapid.Bool().Draw(t, "any") {
			n = rapid.IntRange(0, 4*Size).Draw(t, "size")
		}
		return max(0, n)
	})
}

// Input of the official test vectors: 0 to 250, over and over.
func input(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i % 251)
	}
	return data
}

// From the test vectors of BLAKE3, first 32 bytes.
func TestANameIsThePlainHashThatOthersPrint(t *testing.T) {
	for size, want := range map[int]string{
		0:      "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
		1:      "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213",
		1023:   "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11",
		1024:   "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7",
		1025:   "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444",
		2048:   "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a",
		2049:   "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030",
		31744:  "62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47",
		102400: "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085",
	} {
		if got := Sum(input(size)).String(); got != "b3:"+want {
			t.Errorf("%d bytes are %s, and should be %s", size, got, want)
		}
	}
}

func TestHoweverABlobIsWrittenItsNameAndProofAreTheSame(t *testing.T) {
	source := input(5 * Size)
	rapid.Check(t, func(t *rapid.T) {
		data := source[:sizes().Draw(t, "size")]
		want := Root(blake3.Sum256(data))
		h := NewHasher()
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 1+sizes().Draw(t, "write"))
			_, _ = h.Write(rest[:n])
			rest = rest[n:]
			if rapid.Bool().Draw(t, "asked between") {
				if root, _, size := h.Sum(); root != blake3.Sum256(data[:len(data)-len(rest)]) || size != int64(len(data)-len(rest)) {
					t.Fatalf("%d bytes of %d have another name", size, len(data))
				}
			}
		}
		root, proof, size := h.Sum()
		if root != want || size != int64(len(data)) || Sum(data) != want {
			t.Fatalf("%d bytes, counted as %d, are %s and %s, and should be %s", len(data), size, root, Sum(data), want)
		}
		h.Reset()
		if _, err := h.ReadFrom(iotest.HalfReader(bytes.NewReader(data))); err != nil {
			t.Fatal(err)
		}
		if again, other, n := h.Sum(); again != want || n != size || !slices.Equal(other, proof) {
			t.Fatal("read in, the blob has another name")
		}
		if _, err := Open(root, size, proof); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAReadThatFailsIsToldAndCountsWhatCame(t *testing.T) {
	broken := errors.New("broken")
	h := NewHasher()
	n, err := h.ReadFrom(io.MultiReader(bytes.NewReader(input(3*batch+5)), iotest.ErrReader(broken)))
	if root, _, size := h.Sum(); n != 3*batch+5 || size != n || !errors.Is(err, broken) || root != Sum(input(3*batch+5)) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func hashed(data []byte) (Root, int64, Proof) {
	h := NewHasher()
	_, _ = h.Write(data)
	root, proof, size := h.Sum()
	return root, size, proof
}

func TestOnlyTheRightPieceAtItsPlacePasses(t *testing.T) {
	source := input(5 * Size)
	rapid.Check(t, func(t *rapid.T) {
		data := source[:sizes().Draw(t, "size")]
		b, err := Open(hashed(data))
		if err != nil {
			t.Fatal(err)
		}
		at := rapid.IntRange(0, b.Pieces()-1).Draw(t, "piece")
		off, n := Span(b.Size(), at)
		right := slices.Clone(data[off : off+int64(n)])
		if !b.Check(at, right) {
			t.Fatalf("piece %d of %d bytes is refused", at, b.Size())
		}
		for other := -1; other <= b.Pieces(); other++ {
			if other != at && b.Check(other, right) {
				t.Fatalf("piece %d passes for %d", at, other)
			}
		}
		if b.Check(at, append(right, 0)) || n > 0 && b.Check(at, right[:n-1]) {
			t.Fatal("a piece of another length passes")
		}
		if n > 0 {
			right[rapid.IntRange(0, n-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			if b.Check(at, right) {
				t.Fatal("a piece with a wrong bit passes")
			}
		}
	})
}

func TestAProofOfAnotherBlobOrLengthIsRefused(t *testing.T) {
	root, size, proof := hashed(input(4*Size + 7))
	wrong := slices.Clone(proof)
	wrong[2][31] ^= 1
	swapped := slices.Clone(proof)
	swapped[0], swapped[1] = swapped[1], swapped[0]
	for name, open := range map[string]func() (Blob, error){
		"a wrong bit":         func() (Blob, error) { return Open(root, size, wrong) },
		"exchanged values":    func() (Blob, error) { return Open(root, size, swapped) },
		"one too few":         func() (Blob, error) { return Open(root, size, proof[:4]) },
		"one too many":        func() (Blob, error) { return Open(root, size, append(slices.Clone(proof), proof[0])) },
		"none":                func() (Blob, error) { return Open(root, size, nil) },
		"some for one piece":  func() (Blob, error) { return Open(root, Size, proof[:1]) },
		"less than no bytes":  func() (Blob, error) { return Open(root, -1, nil) },
		"more than a blob is": func() (Blob, error) { return Open(root, MaxSize+1, nil) },
		"another name":        func() (Blob, error) { return Open(Root{1}, size, proof) },
	} {
		if _, err := open(); !errors.Is(err, ErrProof) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whoever shows parents of the tree as the pieces of a smaller blob has a proof that joins.
func TestNoPieceFitsAProofForAnotherSize(t *testing.T) {
	data := input(4 * Size)
	root, _, proof := hashed(data)
	parents := Proof{
		toBytes(top([]value{fromBytes(proof[0]), fromBytes(proof[1])})),
		toBytes(top([]value{fromBytes(proof[2]), fromBytes(proof[3])})),
	}
	b, err := Open(root, 2*Size, parents)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		for from := range 4 {
			if b.Check(i, data[from*Size:][:Size]) {
				t.Errorf("piece %d passes for piece %d of half the blob", from, i)
			}
		}
	}
	// And a last piece that is shorter or longer fits only the size it has.
	long, err := Open(root, 4*Size-1, proof)
	if err != nil {
		t.Fatal(err)
	}
	if long.Check(3, data[3*Size:4*Size-1]) {
		t.Error("a last piece fits a wrong size")
	}
}

func TestPiecesCoverABlobWithoutGapOrOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(0, MaxSize).Draw(t, "size")
		n := Count(size)
		at := rapid.IntRange(0, n-1).Draw(t, "piece")
		off, length := Span(size, at)
		if at == 0 && off != 0 || length < 0 || length > Size || length == 0 && size > 0 {
			t.Fatalf("piece %d of %d bytes is %d bytes at %d", at, size, length, off)
		}
		if at == n-1 {
			if off+int64(length) != size {
				t.Fatalf("the last of %d pieces of %d bytes ends at %d", n, size, off+int64(length))
			}
		} else if next, _ := Span(size, at+1); length != Size || next != off+Size {
			t.Fatalf("piece %d of %d bytes is not followed by the next", at, size)
		}
	})
}

func TestANameIsReadAsItIsWritten(t *testing.T) {
	root := Sum(nil)
	text, err := json.Marshal(map[string]Root{"root": root})
	var back map[string]Root
	if err != nil || json.Unmarshal(text, &back) != nil || back["root"] != root || root.IsZero() || !(Root{}).IsZero() {
		t.Errorf("%s is read as %v, %v", text, back, err)
	}
	digits := hex.EncodeToString(root[:])
	for _, wrong := range []string{"", "b3:", digits, "b3:" + digits[1:], "b3:" + digits + "0", "B3:" + digits, "b3:" + digits + "/", "b3:AF" + digits[2:], "b3:g" + digits[1:], " b3:" + digits} {
		if _, err := ParseRoot(wrong); err == nil {
			t.Errorf("%q passes for a name", wrong)
		}
	}
}

func FuzzAName(f *testing.F) {
	f.Add(Sum(nil).String())
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := ParseRoot(s); err == nil && r.String() != s {
			t.Errorf("%q is read as %s", s, r)
		}
	})
}

func TestABitmapIsASetOfPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 300).Draw(t, "pieces")
		b, set := NewBitmap(n), map[int]bool{}
		if rapid.Bool().Draw(t, "full") {
			b = FullBitmap(n)
			for i := range n {
				set[i] = true
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				i := rapid.IntRange(-1, n+64).Draw(t, "i")
				b.Set(i)
				if i >= 0 && i < n {
					set[i] = true
				}
			},
			"clear": func(t *rapid.T) {
				i := rapid.IntRange(-1, n+64).Draw(t, "i")
				b.Clear(i)
				delete(set, i)
			},
			"": func(t *rapid.T) {
				if b.Have() != len(set) || b.Full() != (len(set) == n) || b.Len() != n {
					t.Fatalf("%d of %d here, and it says %d", len(set), n, b.Have())
				}
				next := -1
				for i := n + 64; i >= -1; i-- {
					if b.Has(i) != set[i] {
						t.Fatalf("piece %d: %v", i, b.Has(i))
					}
					if i >= 0 && i < n && !set[i] {
						next = i
					}
					if got := b.Missing(i); got != next {
						t.Fatalf("from %d on %d is missing, and it says %d", i, next, got)
					}
				}
				back, err := ParseBitmap(n, b.Bytes())
				if err != nil || back.Have() != b.Have() || !slices.Equal(back.words, b.words) {
					t.Fatalf("%v is read as %v, %v", b, back, err)
				}
			},
		})
	})
}

func FuzzABitmap(f *testing.F) {
	f.Add(uint16(9), []byte{2, 1, 1})
	f.Add(uint16(9), []byte{1})
	f.Fuzz(func(t *testing.T, n uint16, data []byte) {
		b, err := ParseBitmap(int(n), data)
		if err == nil && !bytes.Equal(b.Bytes(), data) {
			t.Errorf("%x of %d is read as %x", data, n, b.Bytes())
		}
	})
}

func TestWhatABitmapIsWrittenAsStays(t *testing.T) {
	b := NewBitmap(11)
	b.Set(0)
	b.Set(10)
	for want, b := range map[string]*Bitmap{"020104": b, "00": NewBitmap(11), "01": FullBitmap(11)} {
		if got := fmt.Sprintf("%x", b.Bytes()); got != want {
			t.Errorf("%s is now written as %s", want, got)
		}
	}
}

func BenchmarkHasherReadsABlob(b *testing.B) {
	data := input(64 * Size)
	h := NewHasher()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		h.Reset()
		_, _ = h.ReadFrom(bytes.NewReader(data))
	}
}

func BenchmarkHasherInSmallWrites(b *testing.B) {
	data := input(8 * Size)
	h := NewHasher()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		h.Reset()
		for rest := data; len(rest) > 0; rest = rest[min(len(rest), 30000):] {
			_, _ = h.Write(rest[:min(len(rest), 30000)])
		}
	}
}

func BenchmarkCheckOnePiece(b *testing.B) {
	data := input(64 * Size)
	blob, err := Open(hashed(data))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(Size)
	for b.Loop() {
		if !blob.Check(17, data[17*Size:][:Size]) {
			b.Fatal("wrong")
		}
	}
}

func BenchmarkSumOfASmallFile(b *testing.B) {
	data := input(4096)
	b.SetBytes(4096)
	for b.Loop() {
		Sum(data)
	}
}
