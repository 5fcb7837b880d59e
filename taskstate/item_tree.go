package taskstate

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
	"sort"
)

// ItemTree is the Merkle tree of a job's items, as in RFC 6962: with its root, which an order
// signs, some of the items can be shown to be the job's without the others. It keeps a node for
// every 2^keptLevel items, and reads the items again for what is below.
type ItemTree struct {
	each   []string
	levels [][]itemHash // from keptLevel up
}

type itemHash = [sha256.Size]byte

const (
	keptLevel = 4
	mostItems = 1 << 30 // of a tree anybody looks at
)

func leafHash(item string) itemHash {
	h := sha256.New()
	h.Write([]byte{0})
	h.Write([]byte(item))
	return itemHash(h.Sum(nil))
}

func innerHash(left, right itemHash) itemHash {
	var b [1 + 2*sha256.Size]byte
	b[0] = 1
	copy(b[1:], left[:])
	copy(b[1+sha256.Size:], right[:])
	return sha256.Sum256(b[:])
}

// NewItemTree builds the tree. The items must not change any more.
func NewItemTree(each []string) *ItemTree {
	t := &ItemTree{each: each}
	var level []itemHash
	for i := range nodesAt(keptLevel, len(each)) {
		level = append(level, t.node(keptLevel, i))
	}
	t.levels = append(t.levels, level)
	for len(level) > 1 {
		var up []itemHash
		for i := 0; i < len(level); i += 2 {
			if i+1 < len(level) {
				up = append(up, innerHash(level[i], level[i+1]))
			} else {
				up = append(up, level[i])
			}
		}
		level = up
		t.levels = append(t.levels, level)
	}
	return t
}

// nodesAt is how many nodes a level has over n items.
func nodesAt(level, n int) int { return (n + 1<<level - 1) >> level }

// topOf is the level of the root over n items.
func topOf(n int) (level int) {
	for nodesAt(level, n) > 1 {
		level++
	}
	return level
}

func (t *ItemTree) node(level, i int) itemHash {
	switch {
	case level >= keptLevel && level-keptLevel < len(t.levels):
		return t.levels[level-keptLevel][i]
	case level == 0:
		return leafHash(t.each[i])
	case 2*i+1 >= nodesAt(level-1, len(t.each)):
		return t.node(level-1, 2*i)
	}
	return innerHash(t.node(level-1, 2*i), t.node(level-1, 2*i+1))
}

// Root is what an order signs; nil without items.
func (t *ItemTree) Root() []byte {
	if len(t.each) == 0 {
		return nil
	}
	root := t.node(topOf(len(t.each)), 0)
	return root[:]
}

// Prove is what CheckItems needs to believe the items of these slots (from 1, ascending): the
// hashes of what is beside them.
func (t *ItemTree) Prove(slots []int) (proof [][]byte) {
	walkItems(len(t.each), topOf(len(t.each)), 0, slots, func(level, i int) itemHash {
		h := t.node(level, i)
		proof = append(proof, h[:])
		return h
	}, func(int) itemHash { return itemHash{} })
	return proof
}

// walkItems computes a node from those beside the slots and from the slots' items, from left to
// right.
func walkItems(n, level, i int, slots []int, beside func(level, i int) itemHash, item func(slot int) itemHash) itemHash {
	switch {
	case len(slots) == 0:
		return beside(level, i)
	case level == 0:
		return item(slots[0])
	case 2*i+1 >= nodesAt(level-1, n):
		return walkItems(n, level-1, 2*i, slots, beside, item)
	}
	cut := sort.SearchInts(slots, (2*i+1)<<(level-1)+1)
	left := walkItems(n, level-1, 2*i, slots[:cut], beside, item)
	return innerHash(left, walkItems(n, level-1, 2*i+1, slots[cut:], beside, item))
}

// ErrItems is of items that are not those of an order.
var ErrItems = errors.New("its item is not the one that was signed")

// CheckItems tells whether these are the items of these slots (from 1, ascending, each once) of a
// job that has so many, going by the root in its order.
func CheckItems(root []byte, count int, slots []int, items []string, proof [][]byte) error {
	switch n := len(slots); {
	case n == 0 || n != len(items) || slots[0] < 1 || slots[n-1] > count || count > mostItems:
		return ErrItems
	case !slices.IsSorted(slots) || len(slices.Compact(slices.Clone(slots))) != n:
		return ErrItems
	}
	short, next := false, 0
	got := walkItems(count, topOf(count), 0, slots, func(int, int) (h itemHash) {
		if next == len(proof) || len(proof[next]) != len(h) {
			short = true
			return h
		}
		next++
		return itemHash(proof[next-1])
	}, func(slot int) itemHash {
		at, _ := slices.BinarySearch(slots, slot)
		return leafHash(items[at])
	})
	if short || next != len(proof) || !bytes.Equal(got[:], root) {
		return ErrItems
	}
	return nil
}
