// Package wake remembers that there is something to do, until somebody looks. It knows nothing of
// what that is.
package wake

// Signal is set by anybody and received by one goroutine that then looks at everything there is to
// do: however often it is set in between, that is one receive. A nil one is never set.
type Signal chan struct{}

// New is a signal that is not set.
func New() Signal { return make(Signal, 1) }

// Set never blocks.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}
