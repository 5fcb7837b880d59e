//go:build nextdialect

package session

// NextDown is what a Down has more in the next dialect: a field that every frame has, and that says
// nothing. Whoever sends it to a peer of the dialect before is not understood.
type NextDown struct {
	Next int `cbor:"99,keyasint,omitempty" dialect:"3"`
}

func (n *NextDown) say() { n.Next = 1 }
