package stack

import (
	"container/heap"
	"time"
)

// agenda is what fate is going to do, in order. It is fate's goroutine's alone.
type agenda struct {
	plans plans
	drawn int
}

type plan struct {
	at time.Duration
	n  int // draws among plans of one moment
	f  func()
}

func (w *world) at(t time.Duration, f func()) {
	w.drawn++
	heap.Push(&w.plans, plan{t, w.drawn, f})
}

// runUntil does what is planned until a moment, or until something broke.
func (w *world) runUntil(t time.Duration) {
	for !w.broken() {
		next := t
		if len(w.plans) > 0 && w.plans[0].at < t {
			next = w.plans[0].at
		}
		time.Sleep(max(0, next-w.now()))
		if next == t {
			return
		}
		heap.Pop(&w.plans).(plan).f()
	}
}

type plans []plan

func (p plans) Len() int { return len(p) }
func (p plans) Less(i, j int) bool {
	return p[i].at < p[j].at || p[i].at == p[j].at && p[i].n < p[j].n
}
func (p plans) Swap(i, j int) { p[i], p[j] = p[j], p[i] }

// Push is for container/heap.
func (p *plans) Push(x any) { *p = append(*p, x.(plan)) }

// Pop is for container/heap.
func (p *plans) Pop() any {
	last := len(*p) - 1
	x := (*p)[last]
	*p = (*p)[:last]
	return x
}
