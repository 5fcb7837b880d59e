package worker

import (
	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/taskstate"
)

// tombstones forbid tasks that may still be sent: bounded, oldest out first.
type tombstones struct {
	of    map[taskstate.TaskID]tombstone
	ring  []journal.Tomb // oldest first
	fresh []journal.Tomb // not in a transaction yet
	next  uint64
}

type tombstone struct {
	number uint64
	onDisk bool
}

func (t *tombstones) has(id taskstate.TaskID) bool { _, ok := t.of[id]; return ok }

func (t *tombstones) add(r journal.Tomb, onDisk bool) {
	if t.of == nil {
		t.of = map[taskstate.TaskID]tombstone{}
	}
	t.of[r.Task] = tombstone{number: r.Number, onDisk: onDisk}
	t.ring = append(t.ring, r)
	t.next = max(t.next, r.Number+1)
}

// bury forbids tasks. It returns those that were forbidden before, and the numbers of tombstones
// that make room for new ones.
func (t *tombstones) bury(ids []taskstate.TaskID) (known []taskstate.TaskID, gone []uint64) {
	for _, id := range ids {
		if t.has(id) {
			known = append(known, id)
			continue
		}
		r := journal.Tomb{Number: t.next, Task: id}
		t.add(r, false)
		t.fresh = append(t.fresh, r)
	}
	for len(t.ring) > maxTombstones {
		gone = append(gone, t.ring[0].Number)
		delete(t.of, t.ring[0].Task)
		t.ring = t.ring[1:]
	}
	return known, gone
}

// unwritten hands out those to be written.
func (t *tombstones) unwritten() []journal.Tomb {
	f := t.fresh
	t.fresh = nil
	return f
}

// written notes what is on disk, and returns the tasks of these that are still forbidden.
func (t *tombstones) written(rs []journal.Tomb) (tasks []taskstate.TaskID) {
	for _, r := range rs {
		if t.has(r.Task) {
			t.of[r.Task] = tombstone{number: r.Number, onDisk: true}
			tasks = append(tasks, r.Task)
		}
	}
	return tasks
}
