package worker

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// maxOutbox bounds the frames that wait to be written: a coordinator that does not read loses the
// session, and gets everything that counts again on the next.
const maxOutbox = 4 * journal.MaxTasks

// reasonWait is how long a failed write waits for the reader to learn the reason.
const reasonWait = 200 * time.Millisecond

// streamEvent tells the owner that a stream came up or went.
type streamEvent struct {
	stream *stream
	up     bool
}

// endedBy is why a session is over; the first reason stands.
type endedBy struct {
	why        string
	again      bool
	hint       taskstate.PeerID
	retryAfter time.Duration
}

// stream is a connection to a coordinator: a reader, a writer, and a queue between the owner and
// the writer.
type stream struct {
	id   uint64
	conn net.Conn
	log  *slog.Logger
	over chan struct{} // closed by end
	wake wake.Signal   // something to write

	dialled target // whom, in the hope of which epoch
	lied    func(peer taskstate.PeerID, what string)
	dialect func() int // nil: 1
	load    func() *session.Load
	allow   func(time.Duration) time.Duration // how long to wait where d is enough on fast links

	mu      sync.Mutex
	outbox  []session.Up
	reason  *endedBy
	welcome *session.Welcome
	beaten  uint64 // newest beat sent
	once    sync.Once
}

func newStream(id uint64, conn net.Conn, log *slog.Logger) *stream {
	return &stream{id: id, conn: conn, log: log, over: make(chan struct{}), wake: wake.New(), load: func() *session.Load { return nil }, allow: func(d time.Duration) time.Duration { return d }}
}

// send queues a frame; it never blocks.
func (l *stream) send(u session.Up) {
	l.mu.Lock()
	full := len(l.outbox) >= maxOutbox
	if !full {
		l.outbox = append(l.outbox, u)
	}
	l.mu.Unlock()
	if full {
		l.end(endedBy{why: "the coordinator does not read what it is sent"})
		return
	}
	l.wake.Set()
}

func (l *stream) queued() []session.Up {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.outbox
	l.outbox = nil
	return o
}

// end gives the session up.
func (l *stream) end(why endedBy) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason == nil {
		l.reason = &why
		close(l.over)
	}
}

func (l *stream) close() { l.once.Do(func() { _ = l.conn.Close() }) }

func (l *stream) outcome() sessionEnd {
	l.mu.Lock()
	defer l.mu.Unlock()
	return sessionEnd{
		err: fmt.Errorf("session over: %s", l.reason.why), registered: l.welcome != nil,
		again: l.reason.again, hint: l.reason.hint, retryAfter: l.reason.retryAfter,
	}
}

// olderThan tells whether the session's epoch, or the one it was dialled for, is below e.
func (l *stream) olderThan(e, dialled taskstate.Epoch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.welcome != nil {
		return l.welcome.Epoch.Less(e)
	}
	return dialled.Less(e)
}

func (l *stream) greeted() *session.Welcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.welcome
}

// read passes frames to the owner until the stream ends. Silence is the end as well: the
// coordinator answers every beat.
func (l *stream) read(ctx context.Context, to chan<- Event) {
	r := wire.NewReader(l.conn, 0)
	_ = l.conn.SetReadDeadline(time.Now().Add(l.allow(welcomeLimit)))
	for {
		d := new(session.Down)
		if err := r.Read(d); err != nil {
			l.end(endedBy{why: "read: " + err.Error()})
			return
		}
		if !l.note(d) {
			return
		}
		if w := l.greeted(); w != nil {
			_ = l.conn.SetReadDeadline(time.Now().Add(l.allow(session.Millis(w.Grace))))
		}
		if d.Welcome == nil && d.Assignments == nil && d.Ack == nil && d.Released == nil {
			continue
		}
		select {
		case to <- Frame{Stream: l.id, Down: d}:
		case <-ctx.Done():
			return
		}
	}
}

// note takes in what concerns the session itself, and tells whether it goes on.
func (l *stream) note(d *session.Down) bool {
	switch {
	case d.Refuse != nil:
		l.end(refusal(d.Refuse))
		return false
	case d.Beat != nil && !d.Beat.Held && l.greeted() != nil:
		l.end(endedBy{why: "the coordinator no longer holds it", again: true})
		return false
	case d.Beat != nil && d.Beat.Beat > 0 && d.Beat.Grace > 0:
		l.pace(d.Beat)
	case d.Welcome != nil && (d.Welcome.Beat <= 0 || d.Welcome.Grace <= 0):
		l.end(endedBy{why: "a Welcome without beat and grace"})
		return false
	case d.Welcome != nil && beyond(d.Welcome.Epoch, l.dialled.epoch):
		if l.lied != nil {
			l.lied(l.dialled.peer, "an epoch that no honest coordinator can name")
		}
		l.end(endedBy{why: "a Welcome in epoch " + d.Welcome.Epoch.String() + ", which cannot be"})
		return false
	case d.Welcome != nil:
		l.mu.Lock()
		first := l.welcome == nil
		if first {
			l.welcome = d.Welcome
		}
		l.mu.Unlock()
		l.wake.Set()
	}
	return true
}

// beyond tells of an epoch that cannot follow on one that is known: a worker that obeyed it would
// obey no other ever again.
func beyond(e, known taskstate.Epoch) bool {
	if e.Generation != known.Generation {
		return e.Generation > known.Generation+admission.MaxLeap || e.Term > 1<<62
	}
	return e.Term > known.Term+admission.MaxLeap
}

// pace takes over another beat and grace. The writer beats at once, so that the coordinator knows
// that they are known.
func (l *stream) pace(a *session.BeatAnswer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.welcome
	if w == nil || w.Beat == a.Beat && w.Grace == a.Grace {
		return
	}
	next := *w
	next.Beat, next.Grace = a.Beat, a.Grace
	l.welcome = &next
	l.wake.Set()
}

func refusal(r *session.Refuse) endedBy {
	return endedBy{
		why:  fmt.Sprintf("refused: %s (%s)", r.Message, r.Code),
		hint: r.Coordinator, retryAfter: min(max(0, session.Millis(r.RetryAfter)), maxRetryAfter),
	}
}

// write sends what is queued, and a beat now and then: the first at once, and one at once when beat
// and grace have changed.
func (l *stream) write(ctx context.Context) {
	w := wire.NewWriter(l.conn, 0)
	beat := time.NewTimer(time.Hour)
	beat.Stop()
	defer beat.Stop()
	var paced *session.Welcome // whose beat it keeps
	var loaded *session.Load   // told last
	for {
		due := false
		select {
		case <-ctx.Done():
			return
		case <-l.over:
			return
		case <-l.wake:
		case <-beat.C:
			due = true
		}
		if g := l.greeted(); g != nil && (due || paced != g) {
			paced = g
			l.beaten++
			b := &session.Beat{N: l.beaten}
			if now := l.load(); now != loaded {
				b.Load, loaded = now, now
			}
			l.send(session.Up{Beat: b})
			beat.Reset(around(session.Millis(g.Beat)))
		}
		if err := l.drain(w); err != nil {
			l.awaitReason(ctx)
			l.end(endedBy{why: "write: " + err.Error()})
			return
		}
	}
}

// awaitReason lets the reader hear why the other side closed: a refusal is written before that, and
// says more than a failed write.
func (l *stream) awaitReason(ctx context.Context) {
	t := time.NewTimer(reasonWait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.over:
	case <-ctx.Done():
	}
}

func (l *stream) drain(w *wire.Writer) error {
	for {
		ups := l.queued()
		if len(ups) == 0 {
			return w.Flush()
		}
		limit := welcomeLimit
		if g := l.greeted(); g != nil {
			limit = session.Millis(g.Grace)
		}
		_ = l.conn.SetWriteDeadline(time.Now().Add(l.allow(limit)))
		for _, u := range ups {
			l.speak(&u)
			if err := w.Write(u); err != nil {
				return err
			}
		}
	}
}

// speak has a frame say what this program reads, and nothing that others do not.
func (l *stream) speak(u *session.Up) {
	if u.Hello != nil {
		u.Hello.Dialect = wire.Dialect
	}
	speaks := 1
	if l.dialect != nil {
		speaks = l.dialect()
	}
	wire.Clip(u, speaks)
}

// around is d ± 10 %, drawn anew each time, so that workers do not beat in step.
func around(d time.Duration) time.Duration {
	return d*9/10 + rand.N(max(d/5, 1))
}

// The backoff between sessions: after every failure the bound grows to min(backoffStep + 2·bound,
// backoffMax) and the delay is drawn from [0, bound). A registration resets it.
const (
	backoffStep   = 100 * time.Millisecond
	backoffMax    = 8 * time.Second
	sessionDial   = 3 * time.Second
	welcomeLimit  = 5 * time.Second
	maxRetryAfter = time.Minute
)

// target is whom to dial.
type target struct {
	peer  taskstate.PeerID
	epoch taskstate.Epoch
}

// sessionEnd is how one session went.
type sessionEnd struct {
	err        error
	registered bool
	again      bool             // a new one at once
	hint       taskstate.PeerID // whom to ask instead
	retryAfter time.Duration
}
