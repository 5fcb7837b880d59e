package worker

import "github.com/coveyproject/covey/taskstate"

// maxEnds bounds how many acknowledged ends are remembered. It is far more than end here while
// another peer's copy of the ledger is behind.
const maxEnds = 8192

// ends remembers how tasks ended after that was acknowledged: an attempt has one end. A coordinator
// that gives such an attempt again – one that lies, or the successor of one that acknowledged what
// it never had decided – hears the same end again, and nothing starts. The oldest make room. It is
// memory only: after a restart, what this peer's copy of the ledger says decides (node/guard).
type ends struct {
	of   map[taskstate.TaskID]taskstate.Status
	ring []taskstate.TaskID
	next int // where the oldest is, once the ring is full
}

func (e *ends) add(s taskstate.Status) {
	if _, known := e.of[s.Task]; known {
		return
	}
	if e.of == nil {
		e.of = map[taskstate.TaskID]taskstate.Status{}
	}
	e.of[s.Task] = s
	if len(e.ring) < maxEnds {
		e.ring = append(e.ring, s.Task)
		return
	}
	delete(e.of, e.ring[e.next])
	e.ring[e.next] = s.Task
	e.next = (e.next + 1) % maxEnds
}
