package swarm

import "time"

// How much is under way from one peer.
const (
	MinWindow = 64 << 10
	MaxWindow = 16 << 20
	Target    = 100 * time.Millisecond // how long bytes may wait on their way because of us
	meanOf    = time.Second            // a mean is of the last one or two
	bestFor   = 5 * time.Second        // a rate that was reached counts for this long, and up to twice
)

// Blocks are what is asked for at once.
const (
	minBlock = 16 << 10
	maxBlock = 256 << 10
)

// window sizes what is under way from one peer: what it delivers in Target and one way there and
// back.
type window struct {
	size  int           // bytes
	way   time.Duration // the shortest time from a question to the end of its answer
	got   int64         // bytes that came so far
	best  float64       // rate of this period, in bytes per second
	past  float64       // of the one before
	since time.Time     // when this period began

	// What came lately, and how long it was waited for; both are halved now and then.
	some  float64
	spent time.Duration
	last  time.Time // the last that came
}

// mark is how far a window was when something was asked.
type mark struct {
	at  time.Time
	got int64
}

func newWindow(way time.Duration, now time.Time) window {
	return window{size: MinWindow, way: max(way, 0), since: now}
}

func (w *window) mark(now time.Time) mark { return mark{now, w.got} }

// arrived learns from n bytes that were asked for at m.
func (w *window) arrived(n int, m mark, now time.Time) {
	took := max(now.Sub(m.at), time.Microsecond)
	w.got += int64(n)
	if w.way == 0 || took < w.way {
		w.way = took
	}
	w.some += float64(n)
	w.spent += now.Sub(later(w.last, m.at))
	w.last = now
	if w.spent > meanOf {
		w.some, w.spent = w.some/2, w.spent/2
	}
	if now.Sub(w.since) >= bestFor {
		w.past, w.best, w.since = w.best, 0, now
	}
	w.best = max(w.best, float64(w.got-m.got)/took.Seconds())
	w.size = int(min(max(max(w.best, w.past)*(w.way+Target).Seconds(), MinWindow), MaxWindow))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// mean is what came lately in each second in which something was under way; 0: nothing came.
func (w *window) mean() float64 {
	if w.spent <= 0 {
		return 0
	}
	return w.some / w.spent.Seconds()
}

// block is how much to ask for at once: eight of them fill the window, but for small ones.
func (w *window) block() int {
	n := minBlock
	for 2*n <= maxBlock && 16*n <= w.size {
		n *= 2
	}
	return n
}
