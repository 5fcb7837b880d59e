package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is how many bytes one direction of a stream holds before its writer waits.
const window = 256 << 10

type pipe struct {
	mu     sync.Mutex
	queue  []chunk
	size   int
	ended  bool  // the writer has finished
	gone   bool  // the reader has closed
	broken error // the stream was reset
	wake   chan struct{}
}

type chunk struct {
	data  []byte
	first time.Time // when it would have arrived if nothing had held it up
	due   time.Time
}

func newPipe() *pipe { return &pipe{wake: make(chan struct{})} }

// changed wakes both sides. The lock is held.
func (p *pipe) changed() {
	close(p.wake)
	p.wake = make(chan struct{})
}

// take copies what is due; held back is what a cut or the delay keeps, due says until when.
func (p *pipe) take(b []byte, cut bool) (n int, due time.Time, wake <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil {
		return 0, due, p.wake, p.broken
	}
	if cut {
		return 0, due, p.wake, nil
	}
	now := time.Now()
	for len(p.queue) > 0 && n < len(b) {
		c := &p.queue[0]
		if c.due.After(now) {
			break
		}
		k := copy(b[n:], c.data)
		n += k
		if c.data = c.data[k:]; len(c.data) == 0 {
			p.queue = p.queue[1:]
		}
	}
	if n > 0 {
		p.size -= n
		p.changed()
		return n, due, p.wake, nil
	}
	if len(p.queue) > 0 {
		return 0, p.queue[0].due, p.wake, nil
	}
	if p.ended {
		return 0, due, p.wake, io.EOF
	}
	return 0, due, p.wake, nil
}

// room is how many bytes can be put.
func (p *pipe) room() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return window - p.size
}

func (p *pipe) put(b []byte, due time.Time) (int, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.broken != nil:
		return 0, p.wake, p.broken
	case p.ended:
		return 0, p.wake, net.ErrClosed
	case p.gone:
		return 0, p.wake, os.NewSyscallError("write", syscall.EPIPE)
	}
	n := min(len(b), window-p.size)
	if n > 0 {
		p.queue = append(p.queue, chunk{append([]byte(nil), b[:n]...), due, due})
		p.size += n
		p.changed()
	}
	return n, p.wake, nil
}

// resume lets what a cut has held up since a moment arrive when TCP sends it next: the longer it
// has tried in vain, the later.
func (p *pipe) resume(since, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.queue {
		if c := &p.queue[i]; !c.due.Before(since) {
			c.due = resent(c.first, now, firstResend)
			break // what is behind it waits for it
		}
	}
	p.changed()
}

// How long TCP waits for an answer before it sends again, the first time; it doubles each time, up
// to the last.
const (
	firstResend = 200 * time.Millisecond
	lastResend  = 2 * time.Minute
	synResend   = time.Second // of the first packet of a connection
)

// resent is when something is sent again next, from now on, that was sent first at a moment and
// never answered.
func resent(first, now time.Time, wait time.Duration) time.Time {
	at := first
	for at.Before(now) {
		at, wait = at.Add(wait), min(2*wait, lastResend)
	}
	return at
}

func (p *pipe) finish() { p.update(func() { p.ended = true }) }

func (p *pipe) abandon() { p.update(func() { p.gone, p.queue, p.size = true, nil, 0 }) }

func (p *pipe) fail() {
	p.update(func() {
		p.broken = os.NewSyscallError("read", syscall.ECONNRESET)
		p.queue, p.size = nil, 0
	})
}

func (p *pipe) update(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.changed()
}

func (p *pipe) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken != nil || p.gone
}
