package sim

import (
	"slices"

	"github.com/coveyproject/covey/dispatch/coordinator"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/history"
)

// moves is I13: nothing is moved but to where there are fewer.
func (c *check) moves(id taskstate.JobID, moves []coordinator.Move) {
	l := c.w.quorum.leader
	if len(moves) == 0 {
		return
	}
	on, over := map[taskstate.PeerID]int{}, map[taskstate.PeerID]int{}
	l.replica.Read(func(st *ledger.State) {
		if rec, ok := st.Job(id); ok {
			for s := range rec.OpenSlots() {
				on[s.Peer]++
				if _, ended := c.outcomes[taskstate.Task(id, s.Slot, s.Attempt)]; ended {
					over[s.Peer]++ // as the coordinator may have heard
				}
			}
		}
	})
	for _, m := range moves {
		if on[m.From]-on[m.To]+over[m.To] < 2 {
			c.w.fail("I13", "slot %d of %s is to move from %s, which has %d tasks, to %s, which has %d", m.Slot, id, m.From, on[m.From], m.To, on[m.To])
		}
		on[m.From]--
		on[m.To]++
	}
}

// reopened takes note of a job that was over and goes on because somebody had it retried.
func (c *check) reopened(e *ledger.Entry, id taskstate.JobID) {
	rec, ok := c.w.quorum.truth.Job(id)
	if !ok || !c.over[id] {
		return
	}
	if _, over := rec.Ended(); over {
		return
	}
	delete(c.over, id)
	delete(c.cancels, id)
	c.ambiguous[c.w.quorum.leader.leading] = true // the coordinator has to begin anew
	c.lives[id] = append(c.lives[id], e.Index)
	c.w.load.byID[id].cancelled = false
	c.w.reader.followed(history.Submit, id)
}

// triedAgain is I1: what somebody was told is tried again was.
func (c *check) triedAgain() {
	for _, j := range c.w.load.jobs {
		rec, ok := c.w.quorum.truth.Job(j.job.ID)
		for n := 1; ok && n <= rec.Slots(); n++ {
			attempt, asked := c.promised[slot{j.job.ID, n}]
			if s := rec.Slot(n); asked && s.Attempt <= attempt && (s.Final == nil || s.Final.State != taskstate.Complete) {
				c.w.fail("I1", "%s.%d is in attempt %d, and after attempt %d another was promised", j.job.ID, n, s.Attempt, attempt)
			}
		}
	}
}

// life tells in which of its lives a job is for somebody who has heard of all entries up to one.
func (c *check) life(id taskstate.JobID, index uint64) int {
	n, _ := slices.BinarySearch(c.lives[id], index+1)
	return n
}

// retried is what a person's word changes about slots: they may run again, also where a job must
// not run twice.
func (c *check) retried(cmd *ledger.Renew) {
	if cmd.Reason != taskstate.ReasonRetried {
		return
	}
	j := c.w.load.byID[cmd.Job]
	j.retried = true
	for _, run := range cmd.Slots {
		for n := range run.All() {
			c.restarts.wanted[slot{cmd.Job, n}] = run.Attempt
		}
	}
}

// taskCancelled takes note of what nobody may start any more, as somebody was told: a task that was
// cancelled runs at most until its worker hears of that.
func (c *check) taskCancelled(t taskstate.TaskID) {
	rec, ok := c.w.quorum.truth.Job(t.Job)
	if !ok {
		return
	}
	switch s := rec.Slot(t.Slot); {
	case s.Open && s.Attempt == t.Attempt:
		c.gone[slotOf(t)] = t.Attempt
		if _, told := c.leaves[t]; !told {
			c.leaves[t] = c.w.now()
		}
	case c.reasons[t] != "": // superseded since: whoever was given it and is away may begin it still
		c.gone[slotOf(t)] = t.Attempt
	default:
		c.gone[slotOf(t)] = t.Attempt - 1
	}
}

// unwantedStart is I7: what was cancelled alone does not begin anew.
func (c *check) unwantedStart(p *peer, t taskstate.TaskID) {
	if last, ok := c.gone[slotOf(t)]; ok && t.Attempt > last {
		c.w.fail("I7", "%s starts %s, and its slot was cancelled: no attempt after %d may start", p.id, t, last)
	}
}

// settled takes note of ends that nobody minds, also if their job goes on later without them.
func (c *check) settled(cmd *ledger.Settle) {
	for i := range cmd.Statuses {
		id := cmd.Statuses[i].Task
		if rec, ok := c.w.quorum.truth.Job(id.Job); ok {
			if _, _, cancelled := rec.Cancelled(); cancelled {
				c.unmissed[id] = true
			}
			c.files.keptSo(&cmd.Statuses[i])
		}
	}
}
