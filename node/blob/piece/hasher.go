package piece

import (
	"io"
	"runtime"
	"sync"

	"lukechampine.com/blake3/guts"
)

// Hasher finds the name and the proof of what is written to it. It keeps up to a block of 16 KiB
// and what the pieces came to, 32 bytes each. What is written 2 MiB or more at once is hashed on
// several processors. It is not for concurrent use.
type Hasher struct {
	proof Proof   // of the pieces that are whole
	first Root    // what the first piece would be as a blob of its own
	open  []value // the blocks of the piece that is not
	buf   []byte  // the last block, also when it is whole: it may be the only one there is
	size  int64
}

// NewHasher makes one to which nothing was written yet.
func NewHasher() *Hasher { return &Hasher{} }

// Reset forgets what was written.
func (h *Hasher) Reset() {
	*h = Hasher{open: h.open[:0], buf: h.buf[:0]}
}

// Write never fails.
func (h *Hasher) Write(p []byte) (int, error) {
	n := len(p)
	h.size += int64(n)
	for len(p) > 0 {
		if len(h.buf) == block {
			h.block((*[block]byte)(h.buf))
			h.buf = h.buf[:0]
		}
		switch whole := len(p) / Size; {
		case whole > 0 && len(h.open) == 0 && len(h.buf) == 0:
			h.pieces(p[:whole*Size])
			p = p[whole*Size:]
		case len(p) > block && len(h.buf) == 0:
			h.block((*[block]byte)(p))
			p = p[block:]
		default:
			if h.buf == nil {
				h.buf = make([]byte, 0, block)
			}
			k := min(block-len(h.buf), len(p))
			h.buf = append(h.buf, p[:k]...)
			p = p[k:]
		}
	}
	return n, nil
}

// block takes the next one of the piece that is open.
func (h *Hasher) block(b *[block]byte) {
	at := uint64(len(h.proof))*pieceChunk + uint64(len(h.open))*guts.MaxSIMD
	h.open = append(h.open, guts.ChainingValue(guts.CompressBuffer(b, block, &guts.IV, at, 0)))
	if len(h.open) == perPiece {
		h.whole(join(h.open))
		h.open = h.open[:0]
	}
}

func (h *Hasher) whole(n guts.Node) {
	if len(h.proof) == 0 {
		h.first = rootOf(n)
	}
	h.proof = append(h.proof, toBytes(guts.ChainingValue(n)))
}

// pieces takes whole ones.
func (h *Hasher) pieces(p []byte) {
	tops := make([]guts.Node, len(p)/Size)
	at := uint64(len(h.proof))
	one := func(i int) { tops[i] = node(p[i*Size:][:Size], (at+uint64(i))*pieceChunk) }
	if workers := min(len(tops), runtime.GOMAXPROCS(0)); workers == 1 {
		for i := range tops {
			one(i)
		}
	} else {
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := w; i < len(tops); i += workers {
					one(i)
				}
			})
		}
		wg.Wait()
	}
	for _, n := range tops {
		h.whole(n)
	}
}

// batch is how much ReadFrom reads and hashes at once.
const batch = 4 * Size

var batches = sync.Pool{New: func() any { return new([batch]byte) }}

// ReadFrom reads r to its end. It reads on while it hashes.
func (h *Hasher) ReadFrom(r io.Reader) (total int64, err error) {
	now, next := batches.Get().(*[batch]byte), batches.Get().(*[batch]byte)
	defer func() { batches.Put(now); batches.Put(next) }()
	n, err := io.ReadFull(r, now[:])
	for {
		total += int64(n)
		if err != nil {
			_, _ = h.Write(now[:n])
			break
		}
		var hashed sync.WaitGroup
		read := now[:n]
		hashed.Go(func() { _, _ = h.Write(read) })
		n, err = io.ReadFull(r, next[:])
		hashed.Wait()
		now, next = next, now
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return total, err
}

// Sum is the name, the proof and the size of what was written so far. More may be written after it.
func (h *Hasher) Sum() (Root, Proof, int64) {
	if len(h.open) == 0 && len(h.buf) == 0 && len(h.proof) > 0 {
		if len(h.proof) == 1 {
			return h.first, nil, h.size
		}
		return h.proof.root(), append(Proof(nil), h.proof...), h.size
	}
	top := h.last()
	if len(h.proof) == 0 {
		return rootOf(top), nil, h.size
	}
	proof := append(append(make(Proof, 0, len(h.proof)+1), h.proof...), toBytes(guts.ChainingValue(top)))
	return proof.root(), proof, h.size
}

// last is the top of the piece that is open: where it has blocks, the last of them is in buf.
func (h *Hasher) last() guts.Node {
	at := uint64(len(h.proof))*pieceChunk + uint64(len(h.open))*guts.MaxSIMD
	if len(h.open) == 0 {
		return lastBlock(h.buf, at)
	}
	values := append(make([]value, 0, perPiece), h.open...)
	return join(append(values, guts.ChainingValue(lastBlock(h.buf, at))))
}
