package quorum

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/coveyproject/covey/internal/wake"
)

// longLock is a lock that is held for as long as something takes: a seat waits for its last calls
// before it is closed. A mutex would do as well, but in a bubble of virtual time a goroutine that
// waits for a mutex stops the time, and then nothing ends that takes some.
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

// wakes has those in this package look again who wait for something: each signal is heard by one
// goroutine, each broadcast by the one that waits.
type wakes struct {
	follow  wake.Signal // whom to follow may be another
	voters  wake.Signal // the voters' rules may want something
	suspect wake.Signal // the coordinator may be gone
	unsound wake.Signal // the seat, or what is known of it, may be another

	moved    broadcast // entries, coordinator or voters changed: for those that serve followers
	changed  broadcast // the coordinator changed
	reseated broadcast // this peer's seat is, or will be, another
}

func newWakes() *wakes {
	return &wakes{follow: wake.New(), voters: wake.New(), suspect: wake.New(), unsound: wake.New()}
}

// broadcast wakes everybody who waits. The zero value is ready.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

func (s *broadcast) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *broadcast) fire() {
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
	wake   wake.Signal
}

// unpark is called by whatever moves, after it has begun to. It costs next to nothing while nobody
// sleeps. A nil parker is nobody's.
func (s *parker) unpark() {
	if s != nil && s.parked.Load() && s.parked.CompareAndSwap(true, false) {
		s.wake.Set()
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
