package worker

import (
	"slices"

	"covey/dispatch/session"
	"covey/dispatch/worker/journal"
	"covey/taskstate"
)

// keepJob remembers a job body. Jobs are immutable: what is known stays.
func (c *Core) keepJob(j *taskstate.Job) {
	if id := session.BodyOf(j); c.jobs[id] == nil {
		h := &heldJob{job: j}
		c.jobs[id] = h
		c.idle++
		c.idleBytes += h.size()
	}
}

// size estimates the bytes of a body: what can be large in one.
func (j *heldJob) size() int {
	n := 256
	if p := j.job.Run.Process; p != nil {
		n += len(p.Script)
		for _, a := range p.Command {
			n += len(a)
		}
		for k, v := range p.Env {
			n += len(k) + len(v)
		}
	}
	return n
}

// frameNeeds ties a job body to a frame.
func (c *Core) frameNeeds(f *heldFrame, j *heldJob) {
	if slices.Contains(f.jobs, j) {
		return
	}
	f.jobs = append(f.jobs, j)
	if j.frames++; j.frames == 1 {
		c.idle--
		c.idleBytes -= j.size()
	}
}

// dropIdleJobs forgets bodies without tasks when there are more, or larger, than that. Should a
// grant need one again, a Complete set is asked for, which brings it.
func (c *Core) dropIdleJobs(keep, size int) {
	if c.idle <= keep && c.idleBytes <= size {
		return
	}
	for id, j := range c.jobs {
		if j.frames == 0 && !j.onDisk {
			delete(c.jobs, id)
			c.idle--
			c.idleBytes -= j.size()
		}
	}
}

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

// take hands out those to be written.
func (t *tombstones) take() []journal.Tomb {
	f := t.fresh
	t.fresh = nil
	return f
}

// trim forgets the oldest and returns their numbers.
func (t *tombstones) trim() (gone []uint64) {
	for len(t.ring) > maxTombstones {
		gone = append(gone, t.ring[0].Number)
		delete(t.of, t.ring[0].Task)
		t.ring = t.ring[1:]
	}
	return gone
}

// drop buries tasks that are not here and never will be. The coordinator hears of it when that is
// on disk.
func (c *Core) drop(ids []taskstate.TaskID) {
	var known []taskstate.TaskID
	for _, id := range ids {
		if c.tombs.has(id) {
			known = append(known, id)
			continue
		}
		r := journal.Tomb{Number: c.tombs.next, Task: id}
		c.tombs.add(r, false)
		c.tombs.fresh = append(c.tombs.fresh, r)
	}
	c.tidy.tombs = append(c.tidy.tombs, c.tombs.trim()...)
	c.sendDropped(known)
}

// maxDropped bounds the tasks in one Dropped frame.
const maxDropped = 10_000

// sendDropped says that these tasks will never run here.
func (c *Core) sendDropped(ids []taskstate.TaskID) {
	if !c.link.up {
		return
	}
	c.sayDropped(slices.DeleteFunc(ids, func(id taskstate.TaskID) bool { return !c.tombs.of[id].onDisk }))
}

func (c *Core) sayDropped(ids []taskstate.TaskID) {
	for part := range slices.Chunk(ids, maxDropped) {
		c.send(session.Up{Dropped: &session.Dropped{Tasks: part}})
	}
}
