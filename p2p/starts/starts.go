// Package starts tells the starts of one peer apart: its program's process now from the one before
// it, and from another one that goes by the same key, because a machine or its data folder was
// copied, or turned back to what it was.
//
// Each start draws a number and names the number of the start before it. Both are on disk before
// they are used. So the starts of a folder form a chain; two successors of one number mean that the
// folder was copied, or turned back. A number is living only if somebody answers with it now.
//
// It does no I/O: who asks the holders, and what follows, is up to others.
package starts

import "math/rand/v2"

// Start is one start of a peer's program. The zero value is none: a peer of version 0.1 has no
// number.
type Start struct {
	_      struct{} `cbor:",toarray"`
	Number uint64
	Before uint64 // the number of the start before it in the same folder, 0 for the first
}

// IsZero tells whether there is no start.
func (s Start) IsZero() bool { return s.Number == 0 }

// Next draws the start that follows.
func (s Start) Next() Start {
	for {
		if n := rand.Uint64(); n != 0 && n != s.Number {
			return Start{Number: n, Before: s.Number}
		}
	}
}
