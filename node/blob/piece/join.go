package piece

import (
	"encoding/binary"
	"math/bits"

	"lukechampine.com/blake3/guts"
)

// A block is what the hash takes at once: 16 chunks of 1 KiB.
const (
	block      = guts.MaxSIMD * guts.ChunkSize
	perPiece   = Size / block
	pieceChunk = Size / guts.ChunkSize
)

type value = [8]uint32

// node is the top of the tree over a piece, whose first chunk has the number at.
func node(data []byte, at uint64) guts.Node {
	var values [perPiece]value
	n := 0
	for len(data) > block {
		values[n] = guts.ChainingValue(guts.CompressBuffer((*[block]byte)(data), block, &guts.IV, at, 0))
		data, at, n = data[block:], at+guts.MaxSIMD, n+1
	}
	last := lastBlock(data, at)
	if n == 0 {
		return last
	}
	values[n] = guts.ChainingValue(last)
	return join(values[:n+1])
}

func lastBlock(data []byte, at uint64) guts.Node {
	if len(data) == block {
		return guts.CompressBuffer((*[block]byte)(data), block, &guts.IV, at, 0)
	}
	var buf [block]byte
	copy(buf[:], data)
	return guts.CompressBuffer(&buf, len(data), &guts.IV, at, 0)
}

// join is the node above two values or more, of which each but the last covers equally many chunks,
// a power of two: the left half is the largest power of two that leaves something for the right.
func join(values []value) guts.Node {
	left := 1 << (bits.Len(uint(len(values)-1)) - 1)
	return guts.ParentNode(top(values[:left]), top(values[left:]), &guts.IV, 0)
}

func top(values []value) value {
	if len(values) == 1 {
		return values[0]
	}
	return guts.ChainingValue(join(values))
}

// rootOf is the name of the blob of which n is the topmost node.
func rootOf(n guts.Node) Root {
	n.Flags |= guts.FlagRoot
	out := guts.WordsToBytes(guts.CompressNode(n))
	return Root(out[:len(Root{})])
}

func toBytes(v value) (b [32]byte) {
	for i, w := range v {
		binary.LittleEndian.PutUint32(b[4*i:], w)
	}
	return b
}

func fromBytes(b [32]byte) (v value) {
	for i := range v {
		v[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return v
}

// Sum is the name of a blob that is in memory.
func Sum(data []byte) Root {
	if len(data) <= Size {
		return rootOf(node(data, 0))
	}
	h := NewHasher()
	_, _ = h.Write(data)
	root, _, _ := h.Sum()
	return root
}
