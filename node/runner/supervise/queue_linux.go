package supervise

import (
	"net"
	"sync"
	"time"
)

// startedWait is how long the news that something runs may wait for more: a process that ends
// sooner takes one message, not two, and waking a peer costs as much as all the rest of a message.
const startedWait = 5 * time.Millisecond

// queue gathers events while the last ones are being written, by a goroutine of its own: a peer
// that does not read must not keep the supervisor from anything. It is bounded by the tasks that
// run and those whose end is not acknowledged.
type queue struct {
	c     net.Conn
	mu    sync.Mutex
	more  sync.Cond // on mu: due or shut changed
	next  []byte
	spare []byte
	due   bool // there is something to be written at once
	armed bool // a timer makes it due
	shut  bool
	done  chan struct{}
}

func newQueue(c net.Conn) *queue {
	q := &queue{c: c, done: make(chan struct{})}
	q.more.L = &q.mu
	go q.run()
	return q
}

// add queues an event; it does not wait.
func (q *queue) add(e Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var room [256]byte
	q.next = appendFrame(q.next, appendEvent(room[:0], e))
	switch {
	case e.Kind != Started:
		q.due = true
		q.more.Signal()
	case !q.due && !q.armed:
		q.armed = true
		time.AfterFunc(startedWait, q.ripe)
	}
}

// ripe: what is queued has waited long enough.
func (q *queue) ripe() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = false
	q.due = len(q.next) > 0
	q.more.Signal()
}

// run writes what is due. It ends with the connection, or when close says so.
func (q *queue) run() {
	defer close(q.done)
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for !q.due && !q.shut {
			q.more.Wait()
		}
		if q.shut {
			return
		}
		batch := q.next
		q.next, q.due = q.spare[:0], false
		q.mu.Unlock()
		_, err := q.c.Write(batch)
		q.mu.Lock()
		if q.spare = batch; cap(batch) > 64<<10 {
			q.spare = nil
		}
		if err != nil {
			_ = q.c.Close() // the reader sees it
			q.shut = true
		}
	}
}

// close closes the connection and ends the goroutine. Nobody adds any more.
func (q *queue) close() {
	_ = q.c.Close()
	q.mu.Lock()
	q.shut = true
	q.mu.Unlock()
	q.more.Signal()
	<-q.done
}
