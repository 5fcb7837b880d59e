// Package limit bounds how many are served at once: in all, and of each who asks; and serves the
// streams of those who read what grows slowly. It knows nothing of what they are served.
package limit

import "sync"

// Limit counts those who are served now.
type Limit struct {
	all, each int

	mu     sync.Mutex
	of     map[string]int // who is served, how often at once
	total  int
	shut   bool
	inside sync.WaitGroup
}

// New serves at most so many in all, and so many of each.
func New(all, each int) *Limit { return &Limit{all: all, each: each, of: map[string]int{}} }

// Enter counts one in; false means that there are too many, or that nobody is served any more.
// A caller that came in leaves.
func (l *Limit) Enter(who string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut || l.total >= l.all || l.of[who] >= l.each {
		return false
	}
	l.total++
	l.of[who]++
	l.inside.Add(1)
	return true
}

// Leave counts one out.
func (l *Limit) Leave(who string) {
	l.mu.Lock()
	l.total--
	if l.of[who]--; l.of[who] == 0 {
		delete(l.of, who)
	}
	l.mu.Unlock()
	l.inside.Done()
}

// Close lets nobody in any more, calls end, which ends what is under way, and waits until all have
// left.
func (l *Limit) Close(end func()) {
	l.mu.Lock()
	l.shut = true
	l.mu.Unlock()
	end()
	l.inside.Wait()
}
