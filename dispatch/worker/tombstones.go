package worker

import (
	"slices"

	"covey/dispatch/session"
	"covey/dispatch/worker/journal"
	"covey/taskstate"
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

// drop buries tasks that are not here and never will be. The coordinator hears of it when that is
// on disk.
func (c *Core) drop(ids []taskstate.TaskID) {
	known, gone := c.tombs.bury(ids)
	c.tidy.tombs = append(c.tidy.tombs, gone...)
	c.sendDropped(known)
}

// maxDropped bounds the tasks in one Dropped frame.
const maxDropped = 10_000

// sendDropped says that these tasks will never run here.
func (c *Core) sendDropped(ids []taskstate.TaskID) {
	if !c.stream.up {
		return
	}
	c.sayDropped(slices.DeleteFunc(ids, func(id taskstate.TaskID) bool { return !c.tombs.of[id].onDisk }))
}

func (c *Core) sayDropped(ids []taskstate.TaskID) {
	for part := range slices.Chunk(ids, maxDropped) {
		c.send(session.Up{Dropped: &session.Dropped{Tasks: part}})
	}
}
