package tasklog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// cursor reads the streams of one task, as far as they are.
type cursor struct {
	req   Request
	limit int64
	dir   string // of all tasks
	rel   string // the task's, in it
	over  <-chan struct{}
	live  bool
	parts []*part

	mu     sync.Mutex // files are opened and closed under it
	closed bool
}

// part is one stream: its file, once it is there, and how far it is read.
type part struct {
	stream string
	f      *os.File
	at     int64
	times  marks
	gone   int64 // bytes before at that are not kept any more, and were not yet said to be
	ours   bool  // something in it was seen to be this task's
	ended  bool

	settled bool // looked at since the task is over
}

func (c *cursor) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var err error
	for _, p := range c.parts {
		if p.f != nil {
			err = errors.Join(err, p.f.Close())
			p.f = nil
		}
	}
	return err
}

// open opens a part's file if it is there by now, and finds where to begin.
func (c *cursor) open(p *part) (*os.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.f != nil || c.closed {
		return p.f, nil
	}
	f, err := openBeneath(c.dir, filepath.Join(c.rel, p.stream))
	if at, ok := errors.AsType[*os.PathError](err); ok && linked(at.Err) {
		return nil, c.replaced(p)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil // not yet, or the task left nothing
	}
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		_ = f.Close()
		return nil, errors.Join(err, c.replaced(p))
	}
	if p.at == 0 {
		if p.at, err = c.first(p, f); err != nil {
			_ = f.Close()
			return nil, err
		}
	}
	p.f = f
	return f, nil
}

// first is where a stream begins that is asked for from its start.
func (c *cursor) first(p *part, f *os.File) (at int64, err error) {
	if c.req.Tail > 0 {
		at, err = tailOffset(f, c.req.Tail, c.end())
	}
	if c.req.Since == 0 || err != nil {
		return at, err
	}
	since, err := c.sinceOffset(p, f)
	return max(at, since), err
}

func (c *cursor) path(p *part) string { return filepath.Join(c.dir, c.rel, p.stream) }

func (c *cursor) replaced(p *part) error {
	return fmt.Errorf("its %s is not the file it was given: the task put something else there", p.stream)
}

// named tells whether the task's folder still has this file. The runner gives the files of a task
// that ended and wrote nothing to a later one, by renaming, before that one starts: what is read
// from such a file is another's. A file that once had something of this task is never given away.
func (c *cursor) named(p *part, f *os.File) bool {
	there, err := os.Lstat(c.path(p))
	if err != nil {
		return false
	}
	read, err := f.Stat()
	return err == nil && os.SameFile(there, read)
}

// settle is for a stream whose task is over, of a file that was opened before: is it what others
// read from now on? Where the task's folder has no such file any more, it left nothing. One that
// nothing was read from is opened anew, by its name.
func (c *cursor) settle(p *part) error {
	if _, err := os.Lstat(c.path(p)); err != nil || c.named(p, p.f) {
		return nil
	}
	if p.ours {
		return c.replaced(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	err := p.f.Close()
	p.f = nil
	return err
}

// end is where reading stops for now: at the cap while the task runs, because what is beyond will
// be cut away.
func (c *cursor) end() int64 {
	if c.running() && c.limit > 0 {
		return c.limit
	}
	return 1<<63 - 1
}

func (c *cursor) running() bool {
	if !c.live {
		return false
	}
	select {
	case <-c.over:
		return false
	default:
		return true
	}
}

// read reads what is there, with times no more than came at once. Nothing and end means that
// nothing will follow.
func (c *cursor) read(p *part, b []byte) (n int, end bool, err error) {
	running := c.running() // asked before reading: what is read after its end is all there is
	if p.f != nil && !running && !p.settled {
		p.settled = true
		if err := c.settle(p); err != nil {
			return 0, false, err
		}
	}
	f, err := c.open(p)
	if err != nil {
		return 0, false, err
	}
	if f != nil {
		p.skip(f)
		part := b
		if room := c.end() - p.at; room < int64(len(b)) {
			part = b[:max(0, room)]
		}
		if c.req.Times {
			part = part[:c.date(p, int64(len(part)))]
		}
		n, err = f.ReadAt(part, p.at)
		if keptFrom(f, p.at) > p.at { // it was dropped meanwhile
			return c.read(p, b)
		}
		if c.req.Times && n > 0 && p.times.now == 0 {
			p.times.now = written(f)
		}
		p.at += int64(n)
		if err != nil && !errors.Is(err, io.EOF) {
			return n, false, err
		}
		if p.ours = p.ours || n > 0 && (c.running() || c.named(p, f)); n > 0 && !p.ours {
			return 0, true, nil
		}
	}
	return n, n == 0 && (!running || !c.req.Follow), nil
}

// skip goes on to what is kept: of a service the oldest output is dropped, which reads as zeros,
// and what is left stays where it was.
func (p *part) skip(f *os.File) {
	from := keptFrom(f, p.at)
	p.gone, p.at = p.gone+from-p.at, from
}

// pause waits until there may be more and says how long to wait next time.
func (c *cursor) pause(ctx context.Context, last time.Duration) (time.Duration, error) {
	next := min(max(2*last, lookSoon), lookLate)
	t := time.NewTimer(next)
	defer t.Stop()
	select {
	case <-c.over: // closed for good: the next read sees the end
	case <-t.C:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return next, nil
}

// run gives f everything, taking turns between the streams.
func (c *cursor) run(ctx context.Context, f func(Chunk) error) error {
	buf := make([]byte, MaxChunk)
	var wait time.Duration
	for {
		open, got := 0, false
		for _, p := range c.parts {
			if p.ended {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			n, end, err := c.read(p, buf)
			if err != nil {
				return &Error{Code: codeOf(err), Message: "the output could not be read: " + err.Error()}
			}
			p.ended = end
			if n > 0 || end {
				got = true
				if err := f(Chunk{Stream: p.stream, Offset: p.at - int64(n), Data: buf[:n], EOF: end, At: p.times.now, Dropped: p.gone}); err != nil {
					return err
				}
				p.gone = 0
			}
			if !end {
				open++
			}
		}
		switch {
		case open == 0:
			return nil
		case got:
			wait = 0
			continue
		}
		var err error
		if wait, err = c.pause(ctx, wait); err != nil {
			return err
		}
	}
}

// codeOf tells what passes, so that it is worth asking again, from what stays.
func codeOf(err error) string {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return CodeBusy
		}
	}
	return CodeFailed
}

// tailOffset finds where the last lines begin, reading backwards. A last line without a newline
// counts.
func tailOffset(f *os.File, lines int, end int64) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return tailFrom(f, lines, keptFrom(f, 0), min(st.Size(), end))
}

// tailFrom finds where the last lines before at begin, but not before from.
func tailFrom(f io.ReaderAt, lines int, from, at int64) (int64, error) {
	buf := make([]byte, MaxChunk)
	last := true
	for at > from {
		n := min(at-from, int64(len(buf)))
		b := buf[:n]
		if _, err := f.ReadAt(b, at-n); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if last && b[n-1] == '\n' {
			b = b[:n-1] // ends the last line, begins none
		}
		last = false
		for i := bytes.LastIndexByte(b, '\n'); i >= 0; i = bytes.LastIndexByte(b[:i], '\n') {
			if lines--; lines == 0 {
				return at - n + int64(i) + 1, nil
			}
		}
		at -= n
	}
	return from, nil
}
