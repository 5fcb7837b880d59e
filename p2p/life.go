package p2p

import (
	"context"
	"sync"
	"time"
)

// life counts the goroutines and handlers of a host, so that nothing of it outlives Close. Every
// part of a host starts its own here.
type life struct {
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex // guards closed, and with it the first Add of wg against Wait
	closed bool
}

func newLife() *life {
	l := &life{}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// begin counts something that Close waits for, unless Close has begun; wg.Done ends it.
func (l *life) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.wg.Add(1)
	}
	return !l.closed
}

func (l *life) spawn(f func()) {
	if l.begin() {
		go func() {
			defer l.wg.Done()
			f()
		}()
	}
}

// end begins no more, and tells those that run.
func (l *life) end() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
}

// wait waits for all of them, but not for ever, and tells whether all have ended.
func (l *life) wait() bool {
	done := make(chan struct{})
	go func() { l.wg.Wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-time.After(5 * time.Second):
		return false
	}
}
