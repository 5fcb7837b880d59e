package load

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
)

const (
	every = 10 * time.Second // between looks
	first = time.Second      // until processors are known at all: they need two looks
	step  = 30 * time.Second // between points of the hour
	kept  = int(time.Hour / step)
)

// sample is what a system says at one moment. What has no total is not known.
type sample struct {
	busy, total      uint64 // time of processors, in any unit, since any moment
	memory, memoryOf int64  // bytes in use, and of how many
	average          *int   // hundredths of tasks that ran or wanted to, over a minute
}

// point is the load of a peer over the step before At.
type point struct {
	At   int64        `cbor:"1,keyasint"` // milliseconds since 1970
	Load session.Load `cbor:"2,keyasint"`
}

// Meter knows the load of this machine. It is safe for concurrent use.
type Meter struct {
	read func() sample

	mu     sync.Mutex
	now    *session.Load // replaced, never changed
	last   sample        // of the look before
	marked sample        // of the newest point
	due    time.Time     // of the next point
	hour   []point       // the newest last
}

// NewMeter makes a Meter of this machine.
func NewMeter() *Meter { return &Meter{read: read} }

// Run looks now and then, until ctx ends.
func (m *Meter) Run(ctx context.Context) error {
	m.look(time.Now())
	t := time.NewTimer(first)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-t.C:
			m.look(now)
			t.Reset(every)
		}
	}
}

// Now is the newest load; the same pointer as long as nothing worth telling has changed. nil: none
// was read yet.
func (m *Meter) Now() *session.Load {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *Meter) look(now time.Time) {
	s := m.read()
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := s.since(m.last); m.now == nil || differs(*m.now, l) {
		m.now = &l
	}
	switch {
	case m.due.IsZero():
		m.marked, m.due = s, now.Add(step)
	case !now.Before(m.due):
		m.hour = append(m.hour[max(0, len(m.hour)+1-kept):], point{now.UnixMilli(), s.since(m.marked)})
		m.marked, m.due = s, now.Add(step-every/2) // looks come a little late
	}
	m.last = s
}

// past is a copy of the hour.
func (m *Meter) past() []point {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]point(nil), m.hour...)
}

// since is the load between two samples.
func (s sample) since(before sample) (l session.Load) {
	if before.total > 0 && s.total > before.total && s.busy >= before.busy {
		l.CPU = new(int(math.Round(1000 * min(1, float64(s.busy-before.busy)/float64(s.total-before.total)))))
	}
	if s.memoryOf > 0 {
		l.Memory, l.MemoryOf = new(min(max(0, s.memory), s.memoryOf)), s.memoryOf
	}
	l.Average = s.average
	return l
}

// differs tells whether two loads are so far apart that others are to hear of it.
func differs(a, b session.Load) bool {
	return apart(a.CPU, b.CPU, 20) || apart(a.Memory, b.Memory, max(1, b.MemoryOf/100)) || a.MemoryOf != b.MemoryOf || apart(a.Average, b.Average, 20)
}

func apart[T int | int64](a, b *T, most T) bool {
	if a == nil || b == nil {
		return a != b
	}
	return max(*a-*b, *b-*a) >= most
}
