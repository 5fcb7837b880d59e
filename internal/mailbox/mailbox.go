// Package mailbox hands values to one goroutine that has not always time for them, without ever
// making the sender wait.
package mailbox

import (
	"sync"

	"github.com/coveyproject/covey/internal/wake"
)

// Box gathers what was put until its owner takes it, in order. It has no bound of its own: what
// fills it has. Safe for concurrent use.
type Box[T any] struct {
	news wake.Signal

	mu  sync.Mutex
	got []T
}

// New makes an empty box.
func New[T any]() *Box[T] { return &Box[T]{news: wake.New()} }

// Put never blocks.
func (b *Box[T]) Put(v T) {
	b.mu.Lock()
	b.got = append(b.got, v)
	b.mu.Unlock()
	b.news.Set()
}

// News is received by the owner, who then takes all.
func (b *Box[T]) News() <-chan struct{} { return b.news }

// Take empties the box.
func (b *Box[T]) Take() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := b.got
	b.got = nil
	return got
}
