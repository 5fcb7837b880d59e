package main

import (
	"io"
	"os"
	"sync"
)

// results is standard output that remembers whether it took everything: a full disk behind a
// redirection must not look like success. Its methods may be called from several goroutines.
type results struct {
	w io.Writer

	mu  sync.Mutex
	err error // of the first write that failed
}

// Write implements io.Writer.
func (r *results) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil // a full device refuses even that
	}
	n, err := r.w.Write(b)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.err == nil {
			r.err = err
		}
	}
	return n, err
}

// failed is why not everything was written, nil if it was.
func (r *results) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// lost tells whether results written here were lost: that is said once, at the end.
func lost(w io.Writer) bool {
	r, ok := w.(*results)
	return ok && r.failed() != nil
}

func fileOf(w io.Writer) (*os.File, bool) {
	if r, ok := w.(*results); ok {
		w = r.w
	}
	f, ok := raw(w).(*os.File)
	return f, ok
}
