package process

import (
	"container/heap"
	"sync"
	"time"
)

// timers is one heap and one goroutine for everything that waits: no-ops, timeouts, graces and
// looks at log files. Thousands wait at once at the price of an entry each. Functions run on the
// timers' goroutine and must be quick.
type timers struct {
	mu   sync.Mutex
	heap timerHeap
	wake chan struct{} // one token: the earliest time moved forward, or close was called
	shut bool
	done chan struct{}
}

type timer struct {
	at  time.Time
	f   func()
	pos int // in the heap, -1 when it is not
}

func newTimers() *timers {
	t := &timers{wake: make(chan struct{}, 1), done: make(chan struct{})}
	go t.run()
	return t
}

// after runs f once, d from now.
func (t *timers) after(d time.Duration, f func()) *timer {
	e := &timer{at: time.Now().Add(d), f: f}
	t.mu.Lock()
	heap.Push(&t.heap, e)
	first := e.pos == 0
	t.mu.Unlock()
	if first {
		t.poke()
	}
	return e
}

// stop forgets e, which may be nil. It may be running right now, or have run.
func (t *timers) stop(e *timer) {
	if e == nil {
		return
	}
	t.mu.Lock()
	if e.pos >= 0 {
		heap.Remove(&t.heap, e.pos)
	}
	t.mu.Unlock()
}

func (t *timers) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// due takes everything whose time has come, and says how long until the next.
func (t *timers) due(into []func()) (fs []func(), wait time.Duration, shut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for len(t.heap) > 0 && !t.heap[0].at.After(now) {
		into = append(into, heap.Pop(&t.heap).(*timer).f)
	}
	wait = time.Hour
	if len(t.heap) > 0 {
		wait = t.heap[0].at.Sub(now)
	}
	return into, wait, t.shut
}

func (t *timers) run() {
	defer close(t.done)
	clock := time.NewTimer(time.Hour)
	defer clock.Stop()
	var fs []func()
	for {
		var wait time.Duration
		var shut bool
		fs, wait, shut = t.due(fs[:0])
		for i, f := range fs {
			f()
			fs[i] = nil
		}
		if shut {
			return
		}
		if len(fs) > 0 {
			continue // time has passed
		}
		clock.Reset(wait)
		select {
		case <-clock.C:
		case <-t.wake:
		}
	}
}

// close ends the goroutine; what still waits is forgotten.
func (t *timers) close() {
	t.mu.Lock()
	t.shut = true
	t.mu.Unlock()
	t.poke()
	<-t.done
}

type timerHeap []*timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h timerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].pos, h[j].pos = i, j }

// Push is for container/heap.
func (h *timerHeap) Push(x any) {
	e := x.(*timer)
	e.pos = len(*h)
	*h = append(*h, e)
}

// Pop is for container/heap.
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.pos = -1
	return e
}
