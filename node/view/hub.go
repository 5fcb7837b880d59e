package view

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// event is one thing that happened, as compact as it can be kept: most are never read.
type event struct {
	seq   uint64
	at    int64 // milliseconds since 1970
	kind  string
	job   taskstate.JobID
	task  taskstate.TaskID
	peer  taskstate.PeerID
	state string
	exit  int
	held  taskstate.Confined
	note  string
	gone  bool          // the job was forgotten
	kept  time.Duration // age of the hub when it came in
}

// Kinds of events.
const (
	kindJob         = "job"
	kindTask        = "task"
	kindPeer        = "peer"
	kindCoordinator = "coordinator"
	kindSnapshot    = "snapshot"
	kindSynced      = "synced"
	kindBookmark    = "bookmark"
	kindEnd         = "end"
)

// hubSize is how many events are kept for those who resume; a reader further behind starts over
// from a list.
const hubSize = 8192

// hubAge is how long they are kept. Who comes back later has more use for how things stand than for
// how they came to.
const hubAge = time.Hour

// hub is a ring of events, bounded by count and by age, with any number of readers, each at its own
// pace. Appending never waits for a reader: one who falls out of the ring is told that it lost
// events.
type hub struct {
	boot string // tells this start of the peer from others in tokens

	size uint64               // events kept at most
	age  func() time.Duration // since the hub began; never steps back

	mu    sync.Mutex
	ring  []event
	first uint64 // seq of the oldest event kept; next, if none is
	next  uint64 // seq of the next event; seqs start at 1
	wake  chan struct{}
}

func newHub(boot string) *hub {
	began := time.Now()
	return &hub{boot: boot, size: hubSize, age: func() time.Duration { return time.Since(began) }, first: 1, next: 1}
}

// expire forgets what is too old. The caller has the lock.
func (h *hub) expire(now time.Duration) {
	for ; h.first < h.next; h.first++ {
		old := &h.ring[(h.first-1)%h.size]
		if now-old.kept <= hubAge {
			break
		}
		*old = event{} // its texts may be large
	}
}

// append numbers and keeps events and wakes readers once.
func (h *hub) append(evs []event) {
	if len(evs) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.age()
	h.expire(now)
	for _, e := range evs {
		e.seq, e.kept = h.next, now
		if uint64(len(h.ring)) < h.size {
			h.ring = append(h.ring, e)
		} else {
			h.ring[(h.next-1)%h.size] = e
		}
		h.next++
		h.first = max(h.first, h.next-min(h.next, h.size))
	}
	if h.wake != nil {
		close(h.wake)
		h.wake = nil
	}
}

// after returns the events with a seq above seen, whether some were lost in between, and a channel
// that is closed when there is more. The slice is the caller's.
func (h *hub) after(seen uint64) (evs []event, lost bool, more <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expire(h.age())
	from := seen + 1
	if from < h.first {
		from, lost = h.first, true
	}
	for s := from; s < h.next; s++ {
		evs = append(evs, h.ring[(s-1)%h.size])
	}
	if h.wake == nil {
		h.wake = make(chan struct{})
	}
	return evs, lost, h.wake
}

func (h *hub) last() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next - 1
}

func (h *hub) token(seq uint64) string { return h.boot + "." + strconv.FormatUint(seq, 10) }

// parseToken reads a token of this very hub. ok is false for one of another peer or start, or one
// from the future.
func (h *hub) parseToken(s string) (seq uint64, ok bool, err error) {
	boot, n, found := strings.Cut(s, ".")
	seq, perr := strconv.ParseUint(n, 10, 64)
	if !found || perr != nil {
		return 0, false, api.Errorf(api.Usage, "token %q: expected the token of an event that `peer watch` printed", s)
	}
	return seq, boot == h.boot && seq <= h.last(), nil
}

func (h *hub) public(e event) api.Event {
	p := api.Event{
		Seq: e.seq, Token: h.token(e.seq), Time: time.UnixMilli(e.at).UTC(), Kind: e.kind, Job: string(e.job),
		Peer: e.peer, State: e.state, Message: e.note, Forgotten: e.gone,
	}
	if e.kind == kindTask {
		p.Job, p.Task = string(e.task.Job), e.task.String()
		if e.exit != taskstate.NoExit {
			p.Exit = &e.exit
		}
	}
	return p
}

func taskEvent(s taskstate.Status, peer taskstate.PeerID) event {
	e := event{at: s.At, kind: kindTask, task: s.Task, peer: peer, state: s.State.String(), exit: taskstate.NoExit, held: s.Held, note: s.Message}
	if s.State.Final() {
		e.exit = s.Exit
	}
	return e
}

func (e event) String() string { return fmt.Sprintf("%d %s %s %s", e.seq, e.kind, e.task, e.state) }

// newest is the number of the event that comes next: it differs once anything has happened.
func (h *hub) newest() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next
}
