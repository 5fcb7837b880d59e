package quorum

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// longLock is a lock that is held for as long as something takes: a seat waits for its last calls
// before it is closed. A mutex would do as well, but in a bubble of virtual time whoever waits for
// a mutex stops the time, and then nothing ends that takes some.
type longLock chan struct{}

// Lock waits until nobody else holds it.
func (l longLock) Lock() { l <- struct{}{} }

// LockUntil is Lock, until ctx ends.
func (l longLock) LockUntil(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unlock lets the next one have it.
func (l longLock) Unlock() { <-l }

// wakes has those in this package look again who wait for something: each of the channels has room
// for one notice, and one goroutine that hears it.
type wakes struct {
	follow  chan struct{} // whom to follow may be another
	voters  chan struct{} // the voters' rules may want something
	suspect chan struct{} // the coordinator may be gone
	unsound chan struct{} // the seat, or what is known of it, may be another

	moved    signal // entries, coordinator or voters changed: for those that serve followers
	changed  signal // the coordinator changed
	reseated signal // this peer's seat is, or will be, another
}

func newWakes() *wakes {
	return &wakes{follow: make(chan struct{}, 1), voters: make(chan struct{}, 1), suspect: make(chan struct{}, 1), unsound: make(chan struct{}, 1)}
}

// signal wakes everybody who waits. The zero value is ready.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// parker lets one who looks at something every now and then sleep while nothing moves.
type parker struct {
	parked atomic.Bool
	wake   chan struct{} // room for one
}

// unpark is called by whatever moves, after it has begun to. It costs next to nothing while nobody
// sleeps. A nil parker is nobody's.
func (s *parker) unpark() {
	if s != nil && s.parked.Load() && s.parked.CompareAndSwap(true, false) {
		nudge(s.wake)
	}
}

// park tells whether the one who looks may sleep until wake: not if something is busy. What begins
// to move after busy was asked, wakes.
func (s *parker) park(busy func() bool) bool {
	s.parked.Store(true)
	if !busy() {
		return true
	}
	s.parked.Store(false)
	return false
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
