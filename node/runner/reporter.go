package runner

import (
	"strings"
	"sync"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// reporter hands reports to the sink in the order they were made, from one goroutine, so that
// what makes a report never waits for its reader. It holds at most two reports per task that
// was started and not yet reported over: the worker bounds it.
type reporter struct {
	sink func(taskstate.RunReport)
	mu   sync.Mutex
	more sync.Cond
	next []taskstate.RunReport
	shut bool
	done chan struct{}
}

func newReporter(sink func(taskstate.RunReport)) *reporter {
	r := &reporter{sink: sink, done: make(chan struct{})}
	r.more.L = &r.mu
	go r.run()
	return r
}

// add queues reports together: nobody else's come between them.
func (r *reporter) add(reports ...taskstate.RunReport) {
	for i := range reports {
		reports[i].Message = cutMessage(reports[i].Message)
		if reports[i].At == 0 {
			reports[i].At = time.Now().UnixMilli()
		}
	}
	r.mu.Lock()
	idle := len(r.next) == 0
	r.next = append(r.next, reports...)
	r.mu.Unlock()
	if idle {
		r.more.Signal()
	}
}

func (r *reporter) run() {
	defer close(r.done)
	var batch []taskstate.RunReport
	for {
		r.mu.Lock()
		for len(r.next) == 0 && !r.shut {
			r.more.Wait()
		}
		if len(r.next) == 0 {
			r.mu.Unlock()
			return
		}
		batch, r.next = r.next, batch[:0]
		r.mu.Unlock()
		for i := range batch {
			r.sink(batch[i])
		}
		clear(batch)
		if cap(batch) > 8192 {
			batch = nil // one burst must not keep its memory for ever
		}
	}
}

// close delivers what is queued and ends the goroutine.
func (r *reporter) close() {
	r.mu.Lock()
	r.shut = true
	r.mu.Unlock()
	r.more.Signal()
	<-r.done
}

// cutMessage makes a message valid – a file's name may be any bytes – and as short as a status may
// carry, without tearing a character.
func cutMessage(s string) string {
	const mark = " […]"
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= taskstate.MaxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:taskstate.MaxMessage-len(mark)], "") + mark
}
