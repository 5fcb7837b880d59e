package testnet

import (
	"slices"
	"sync"
	"time"
)

// stays knows since when each peer has been where it is. One that comes back with another port is
// found because it looks for those that it knew: if hurts overlap so that all of them are gone, or
// are somewhere else by then, nobody can find anybody. The zero value is ready.
type stays struct {
	mu   sync.Mutex
	from map[int]time.Time // by peer number; none: since the beginning
}

// knownAfter is how long after a start the others surely know where a peer is.
const knownAfter = 10 * time.Second

func (s *stays) back(k int, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from == nil {
		s.from = map[int]time.Time{}
	}
	s.from[k] = now
}

// anyBut tells whether there is a running peer among n, not one of these, that these knew to be
// where it is when they went.
func (s *stays) anyBut(these []int, went time.Time, n int, running func(k int) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := 1; k <= n; k++ {
		if at, moved := s.from[k]; !slices.Contains(these, k) && running(k) && (!moved || at.Add(knownAfter).Before(went)) {
			return true
		}
	}
	return false
}
