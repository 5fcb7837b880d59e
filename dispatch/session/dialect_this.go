//go:build !nextdialect

package session

// NextDown is what a Down has more in the next dialect: nothing yet.
type NextDown struct{}

func (NextDown) say() {}
