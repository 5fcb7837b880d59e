package view

import (
	"context"
	"sync"
)

// mark is a number that only rises, and what waits for it to reach a value.
type mark struct {
	mu   sync.Mutex
	at   uint64
	wake chan struct{}
}

func newMark() *mark { return &mark{wake: make(chan struct{})} }

func (m *mark) set(v uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v > m.at {
		m.at = v
		close(m.wake)
		m.wake = make(chan struct{})
	}
}

// reach waits until the mark is at least v.
func (m *mark) reach(ctx context.Context, v uint64) error {
	for {
		m.mu.Lock()
		at, wake := m.at, m.wake
		m.mu.Unlock()
		if at >= v {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
