package coordinator

import (
	"slices"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

func (c *Core) derive(st *ledger.State) {
	for m := range st.Members() {
		if m.In() {
			c.peers.know(&m)
		}
	}
	var records []*ledger.JobRecord
	for r := range st.Jobs() {
		c.tasks.deriveGivenUp(r)
		if _, over := r.Ended(); !over {
			records = append(records, r)
		}
	}
	slices.Reverse(records) // the oldest first
	for _, r := range records {
		c.deriveJob(r)
	}
}

func (c *Core) deriveJob(r *ledger.JobRecord) {
	j := c.jobs.takeUp(r.Outline())
	_, _, j.cancelled = r.Cancelled()
	c.jobs.delay(j) // nobody knows when it last started one
	for a := range r.Waiting() {
		_ = c.jobs.waits(a, false)
	}
	for s := range r.OpenSlots() {
		p := c.peers.of(s.Peer)
		if p == nil {
			continue // the ledger takes from a peer that it removes all it has
		}
		h := p.hold(j)
		x := rec{index: s.Index, attempt: uint32(s.Attempt), version: uint32(s.Version), state: taskstate.Assigned}
		if c.tasks.lost(s.Index) {
			x.marks |= inherited
		}
		h.slots[s.Slot] = x
		j.open++
		p.promise(h, 1, j.body(s.Version))
		j.lasting.begun(s.Slot, s.Attempt, s.Version, s.Peer)
		if s.Leaving != "" && !j.cancelled {
			j.leave(s.Slot, leaving{why: s.Leaving, next: s.Next, retired: s.Retired})
			j.lasting.retire(s.Slot, s.Retired)
		}
	}
	c.jobs.enqueue(j)
}

// takeUp begins to drive a job that is under way, or goes on after it was over. Which of its slots
// wait, and who has others, comes after.
func (js *jobs) takeUp(o *ledger.Outline) *jobState {
	j := js.addJob(o.Job, o.Index) // Version is the ledger's
	j.first, j.blocked = o.First, o.Blocked
	if js.schedules.add(j, o.StartsFrom) {
		js.clock.WakeAt(js.clock.Now())
	}
	j.lasting.derive(o)
	return j
}

// deriveGivenUp finds the attempts of a job whose end may still come.
func (ts *tasks) deriveGivenUp(j *ledger.JobRecord) {
	for n := range j.PastSlots() {
		s := j.Slot(n)
		for _, p := range j.Past(n) {
			if p.Late == nil && !(s.Final != nil && s.Attempt == p.Attempt) {
				ts.given.add(taskstate.Task(j.Job().ID, n, p.Attempt))
			}
		}
	}
}
