package membership

import "sync"

type watchers[T any] struct {
	mu   sync.Mutex
	next int
	fs   map[int]func(T)
}

func (w *watchers[T]) add(f func(T)) (cancel func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fs == nil {
		w.fs = map[int]func(T){}
	}
	id := w.next
	w.next++
	w.fs[id] = f
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.fs, id)
	}
}

// tell calls each, in the order they were added, without the lock.
func (w *watchers[T]) tell(v T) {
	w.mu.Lock()
	fs := make([]func(T), 0, len(w.fs))
	for id := range w.next {
		if f := w.fs[id]; f != nil {
			fs = append(fs, f)
		}
	}
	w.mu.Unlock()
	for _, f := range fs {
		f(v)
	}
}
