package piece

import (
	"errors"
	"fmt"

	"lukechampine.com/blake3/guts"
)

const (
	// Size of every piece but the last.
	Size = 1 << 20
	// MaxSize of a blob: its proof is 128 MiB.
	MaxSize = 1 << 42
)

// Proof is the values of a blob's pieces; it is empty for a blob of one piece.
type Proof [][32]byte

// Count is how many pieces a blob has: at least one, which may be empty.
func Count(size int64) int { return max(1, int((size+Size-1)/Size)) }

// Span is where the i-th piece begins, and how long it is.
func Span(size int64, i int) (off int64, n int) {
	off = int64(i) * Size
	return off, int(min(Size, size-off))
}

// Entries is how long the proof of a blob is.
func Entries(size int64) int {
	if size <= Size {
		return 0
	}
	return Count(size)
}

// Blob is a name with a proof that joins to it.
type Blob struct {
	root  Root
	size  int64
	proof Proof
}

// ErrProof is what Open returns for a proof that is not this blob's.
var ErrProof = errors.New("the proof does not belong to the blob")

// Open joins a proof, which is not copied, once; Check then costs no more than hashing the piece.
func Open(root Root, size int64, proof Proof) (Blob, error) {
	if size < 0 || size > MaxSize {
		return Blob{}, fmt.Errorf("%w %s: it cannot have %d bytes", ErrProof, root, size)
	}
	if len(proof) != Entries(size) {
		return Blob{}, fmt.Errorf("%w %s: %d bytes need %d values, and there are %d", ErrProof, root, size, Entries(size), len(proof))
	}
	if len(proof) > 0 && proof.root() != root {
		return Blob{}, fmt.Errorf("%w %s", ErrProof, root)
	}
	return Blob{root, size, proof}, nil
}

// root joins the values of two pieces or more.
func (p Proof) root() Root {
	values := make([]value, len(p))
	for i, b := range p {
		values[i] = fromBytes(b)
	}
	return rootOf(join(values))
}

// Root is the blob's name.
func (b Blob) Root() Root { return b.root }

// Size is how many bytes it has, if its last piece fits.
func (b Blob) Size() int64 { return b.size }

// Proof is what it was opened with.
func (b Blob) Proof() Proof { return b.proof }

// Pieces is how many it has.
func (b Blob) Pieces() int { return Count(b.size) }

// Check tells whether data is the blob's i-th piece.
func (b Blob) Check(i int, data []byte) bool {
	if i < 0 || i >= b.Pieces() {
		return false
	}
	if _, n := Span(b.size, i); len(data) != n {
		return false
	}
	top := node(data, uint64(i)*pieceChunk)
	if len(b.proof) == 0 {
		return rootOf(top) == b.root
	}
	return toBytes(guts.ChainingValue(top)) == b.proof[i]
}
