package stack

import (
	"slices"
	"time"
)

// agenda is what fate is going to do, in order. It is fate's goroutine's alone.
type agenda struct{ plans []plan }

type plan struct {
	at time.Duration
	f  func()
}

func (w *world) at(t time.Duration, f func()) {
	i, _ := slices.BinarySearchFunc(w.plans, t, func(p plan, t time.Duration) int {
		if p.at <= t { // of one moment, what was planned first comes first
			return -1
		}
		return 1
	})
	w.plans = slices.Insert(w.plans, i, plan{t, f})
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
		do := w.plans[0].f
		w.plans = slices.Delete(w.plans, 0, 1)
		do()
	}
}
