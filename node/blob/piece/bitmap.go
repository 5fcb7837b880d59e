package piece

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// Bitmap is which of a blob's pieces are here.
type Bitmap struct {
	words []uint64
	n     int
	have  int
}

// NewBitmap has none of n pieces.
func NewBitmap(n int) *Bitmap { return &Bitmap{words: make([]uint64, (n+63)/64), n: n} }

// FullBitmap has all of n pieces.
func FullBitmap(n int) *Bitmap {
	b := NewBitmap(n)
	for i := range b.words {
		b.words[i] = b.mask(i)
	}
	b.have = n
	return b
}

// mask is which bits of a word stand for pieces.
func (b *Bitmap) mask(word int) uint64 {
	if rest := b.n - 64*word; rest < 64 {
		return 1<<rest - 1
	}
	return ^uint64(0)
}

// Len is how many pieces the blob has, Have how many of them are here.
func (b *Bitmap) Len() int { return b.n }

// Have is how many pieces are here.
func (b *Bitmap) Have() int { return b.have }

// Full tells whether all are here.
func (b *Bitmap) Full() bool { return b.have == b.n }

// Has tells whether the i-th piece is here; beyond the blob there is none.
func (b *Bitmap) Has(i int) bool {
	return i >= 0 && i < b.n && b.words[i/64]&(1<<(i%64)) != 0
}

// Set notes that the i-th piece is here.
func (b *Bitmap) Set(i int) {
	if i >= 0 && i < b.n && !b.Has(i) {
		b.words[i/64] |= 1 << (i % 64)
		b.have++
	}
}

// Clear notes that the i-th piece is not here.
func (b *Bitmap) Clear(i int) {
	if b.Has(i) {
		b.words[i/64] &^= 1 << (i % 64)
		b.have--
	}
}

// Missing is the first piece from the given one on that is not here, -1 if there is none.
func (b *Bitmap) Missing(from int) int {
	from = max(from, 0)
	for w := from / 64; w < len(b.words); w++ {
		gaps := ^b.words[w] & b.mask(w)
		if w == from/64 {
			gaps &= ^uint64(0) << (from % 64)
		}
		if gaps != 0 {
			return 64*w + bits.TrailingZeros64(gaps)
		}
	}
	return -1
}

// Bytes is the bitmap for a frame or a file: one byte for none or all, else 1/8 byte for a piece.
func (b *Bitmap) Bytes() []byte {
	switch b.have {
	case 0:
		return []byte{0}
	case b.n:
		return []byte{1}
	}
	out := []byte{2}
	for _, w := range b.words {
		out = binary.LittleEndian.AppendUint64(out, w)
	}
	return out[:1+(b.n+7)/8]
}

var errBitmap = errors.New("not a bitmap of this blob")

// ParseBitmap reads what Bytes wrote for n pieces, and nothing else.
func ParseBitmap(n int, data []byte) (*Bitmap, error) {
	switch {
	case n < 0 || len(data) == 0:
		return nil, errBitmap
	case len(data) == 1 && data[0] == 0:
		return NewBitmap(n), nil
	case len(data) == 1 && data[0] == 1 && n > 0:
		return FullBitmap(n), nil
	case data[0] != 2 || len(data) != 1+(n+7)/8:
		return nil, errBitmap
	}
	b := NewBitmap(n)
	var word [8]byte
	for i, rest := 0, data[1:]; i < len(b.words); i++ {
		word = [8]byte{}
		rest = rest[copy(word[:], rest):]
		b.words[i] = binary.LittleEndian.Uint64(word[:])
		if b.words[i]&^b.mask(i) != 0 {
			return nil, errBitmap
		}
		b.have += bits.OnesCount64(b.words[i])
	}
	if b.have == 0 || b.have == n {
		return nil, errBitmap
	}
	return b, nil
}
