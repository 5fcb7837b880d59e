package stdin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Keep is how many bytes of a stdin are kept for another attempt, and how far a command may be
// ahead of its task.
const Keep = 16 << 20

// Names in a job's folder.
const (
	wholeName = "stdin"      // ended, and all of it is there
	partName  = "stdin.part" // byte n is at n modulo Keep
)

// Spool is the stdin of one job on its way. One goroutine writes; any may read, and the newest who
// begins is the one that counts.
type Spool struct {
	keep int64

	mu      sync.Mutex
	f       *os.File
	total   int64 // bytes that came
	taken   int64 // bytes that the reader has; nothing before total-keep is there
	ended   bool  // nothing more comes
	broken  error // ended: why it is not whole; nil: it is
	readers int   // who is the newest
	changed chan struct{}
}

func newSpool(f *os.File, keep int64) *Spool {
	return &Spool{keep: keep, f: f, changed: make(chan struct{})}
}

// news wakes who waits. Called with mu held.
func (s *Spool) news() {
	close(s.changed)
	s.changed = make(chan struct{})
}

var errOver = errors.New("nothing more is taken: the task, or its stdin, has ended")

// Write takes more in. It waits while what is kept is full of what nobody has taken.
func (s *Spool) Write(ctx context.Context, b []byte) error {
	for len(b) > 0 {
		s.mu.Lock()
		if s.ended {
			s.mu.Unlock()
			return errOver
		}
		at := s.total % s.keep
		n := min(int64(len(b)), s.taken+s.keep-s.total, s.keep-at)
		if n == 0 {
			changed := s.changed
			s.mu.Unlock()
			select {
			case <-changed:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		_, err := s.f.WriteAt(b[:n], at)
		if err == nil {
			s.total += n
			s.news()
		}
		s.mu.Unlock()
		if err != nil {
			return fmt.Errorf("it could not be kept: %w", err)
		}
		b = b[n:]
	}
	return nil
}

// End says that nothing more comes, and why if that is not the end. The first word stands.
func (s *Spool) End(broken error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended, s.broken = true, broken
		s.news()
	}
}

// all tells whether everything that came is kept, up to the end.
func (s *Spool) all() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended && s.broken == nil && s.total <= s.keep
}

// reader is a task that reads.
type reader struct {
	s  *Spool
	me int
	at int64
}

// begin begins to read at an offset, in place of the reader before.
func (s *Spool) begin(at int64) (*reader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended && s.broken != nil:
		return nil, ended(s.broken)
	case at < s.total-s.keep:
		return nil, &Error{Code: CodeGone, Message: fmt.Sprintf("not run again: an earlier attempt has read some of its stdin, and of that only %d MiB are kept", s.keep>>20)}
	case at < 0 || at > s.total:
		return nil, &Error{Code: CodeBad, Message: "its stdin is not as long as that"}
	}
	s.readers++
	s.taken = at
	s.news()
	return &reader{s: s, me: s.readers, at: at}, nil
}

var errReplaced = &Error{Code: CodeBusy, Message: "another reader has taken it over"}

// read takes what is next into b, as far as limit. Without anything there it returns a channel that
// is closed when there is news; the end is io.EOF.
func (r *reader) read(b []byte, limit int64) (n int, changed <-chan struct{}, err error) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.me != s.readers:
		return 0, nil, errReplaced
	case s.ended && s.broken != nil:
		return 0, nil, ended(s.broken)
	case r.at == s.total && s.ended:
		return 0, nil, io.EOF
	}
	at := r.at % s.keep
	n = int(min(int64(len(b)), s.total-r.at, s.keep-at, limit-r.at))
	if n <= 0 {
		return 0, s.changed, nil
	}
	if _, err := s.f.ReadAt(b[:n], at); err != nil {
		return 0, nil, &Error{Code: CodeBroken, Message: "its stdin could not be read from the disk it was kept on: " + err.Error()}
	}
	r.at += int64(n)
	return n, nil, nil
}

// took notes how far the task has come: what is before is kept no longer than there is room.
func (r *reader) took(at int64) error {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if at > r.at || at < s.taken && r.me == s.readers {
		return errFrame
	}
	if r.me == s.readers {
		s.taken = at
		s.news()
	}
	return nil
}

func ended(why error) *Error {
	return &Error{Code: CodeBroken, Message: "its stdin ended before it was whole: " + why.Error()}
}
