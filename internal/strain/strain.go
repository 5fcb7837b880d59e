// Package strain gives others more time to answer when this process gets too little itself. On a
// machine that is busy with other things a peer that lives is answered late, and late by itself: if
// it then takes everybody for dead, closes connections and elects, that work makes all of them
// later still.
package strain

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// looks is how often a wait looks how late its own timer is.
	looks = 8
	// usual is how late a timer may be on a machine that has time.
	usual = 5 * time.Millisecond
	// much is how late one is where this process gets too little time for others to be worth
	// asking.
	much = 40 * time.Millisecond
	// wakes is how many times somebody has to be woken up, one after the other, for a question to
	// be carried, answered and read, a new connection included.
	wakes = 10
	// Most is by how much a wait can grow: to so many times what it was to be.
	Most = 5
)

// recentAge is how long one late timer counts.
const recentAge = 5 * time.Second

// late is when a timer of this process was much too late, in nanoseconds since 1970.
var late atomic.Int64

// Recent tells whether this process got much too little time in the last seconds, as far as a
// Timeout noticed.
func Recent() bool {
	age := time.Since(time.Unix(0, late.Load()))
	return 0 <= age && age < recentAge
}

// Timeout is context.WithTimeout for a wait that judges whoever is waited for. It grows by what the
// worst delay of this process's own timers in the meantime makes of an answer's way, to five times
// d at most. Its Deadline is that most, its error at the end context.DeadlineExceeded.
func Timeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	now := time.Now()
	c := &waiting{
		Context: parent, done: make(chan struct{}), began: now,
		limit: d, step: max(d/looks, time.Millisecond), most: now.Add(Most * d),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(c.step, c.look)
	c.due = now.Add(c.step)
	c.parted = context.AfterFunc(parent, func() { c.end(parent.Err()) })
	return c, func() { c.end(context.Canceled) }
}

// waiting is a context that ends when its time, which grows, is over.
type waiting struct {
	context.Context
	done   chan struct{}
	began  time.Time
	limit  time.Duration
	step   time.Duration
	most   time.Time
	parted func() bool // ends what watches the parent

	mu    sync.Mutex
	timer *time.Timer
	due   time.Time     // when timer ought to fire
	worst time.Duration // it was late
	err   error
}

// look is called by the timer.
func (c *waiting) look() {
	c.mu.Lock()
	now := time.Now()
	c.worst = max(c.worst, now.Sub(c.due))
	if now.Sub(c.due) > much {
		late.Store(now.UnixNano())
	}
	left := c.began.Add(grown(c.limit, c.worst)).Sub(now)
	if left > 0 && c.err == nil {
		step := min(left, c.step)
		c.due = now.Add(step)
		c.timer.Reset(step)
	}
	c.mu.Unlock()
	if left <= 0 {
		c.end(context.DeadlineExceeded)
	}
}

// grown is how long a wait of d lasts with timers so late.
func grown(d, late time.Duration) time.Duration {
	if late <= usual {
		return d
	}
	return min(d+wakes*late, Most*d)
}

func (c *waiting) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	c.timer.Stop()
	c.parted()
	close(c.done)
}

// Deadline is when it ends at the latest.
func (c *waiting) Deadline() (time.Time, bool) {
	if at, ok := c.Context.Deadline(); ok && at.Before(c.most) {
		return at, true
	}
	return c.most, true
}

func (c *waiting) Done() <-chan struct{} { return c.done }

func (c *waiting) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
