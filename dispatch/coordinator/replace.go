package coordinator

import (
	"cmp"
	"fmt"
	"time"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// dueReplacements looks whether a peer has been unreachable for as long as a job allows. What is given up is decided when the next
// proposal is cut, so that a sign of life counts until the last moment.
func (c *Core) dueReplacements() {
	for _, p := range c.order {
		c.dueSick(p)
		c.dueStall(p)
		if p.standing != Unreachable {
			continue
		}
		for _, h := range p.holds {
			if due, ever := c.replaceAt(p, h.job); ever && len(h.slots) > 0 {
				if c.now.Before(due) {
					c.wakeAt(due)
				} else {
					c.replacing = true
				}
			}
		}
	}
}

// cutReplacements gives up what is due, as far as one proposal reaches: in the same entry of the ledger the slots wait again.
func (c *Core) cutReplacements(cmds []ledger.Command, size int) ([]ledger.Command, int) {
	if !c.replacing {
		return cmds, size
	}
	c.replacing = false
	for _, p := range c.order {
		if p.standing != Unreachable || p.session != nil { // a Hello is a sign of life, welcomed or not
			continue
		}
		for _, h := range p.byAge() {
			if due, ever := c.replaceAt(p, h.job); !ever || c.now.Before(due) {
				continue
			}
			slots := h.sorted(func(r rec) bool { return !r.is(deciding) })
			if len(slots) == 0 || !h.job.cancelled && !c.mayReplace(p) {
				continue // what is cancelled needs no replacement, only an end
			}
			if cmds, size = c.giveUpSlots(h, slots, taskstate.ReasonUnreachable, cmds, size); c.replacing {
				return cmds, size
			}
		}
	}
	return c.cutUntaken(cmds, size)
}

// giveUpSlots adds to cmds that the attempts of these slots are given up. It stops, and says so in replacing, where one proposal ends.
func (c *Core) giveUpSlots(h *holding, slots []int, why taskstate.Reason, cmds []ledger.Command, size int) ([]ledger.Command, int) {
	for _, n := range slots {
		if size >= maxDecideSize {
			c.replacing = true
			return cmds, size
		}
		r := h.slots[n]
		r.marks |= deciding
		h.slots[n] = r
		t := taskstate.Task(h.job.id, n, int(r.attempt))
		cmds = append(cmds, ledger.Command{Supersede: c.givenUp(h, t, r, why, false)})
		size += supersedeBytes
	}
	return cmds, size
}

// replaceAt is when attempts of a job on an unreachable peer are given up; ever is false for work that must not run twice. A
// cancelled job waits for nobody.
func (c *Core) replaceAt(p *peerState, j *jobState) (due time.Time, ever bool) {
	switch {
	case j.cancelled:
		return p.lostSince, true
	case j.job.Unreachable.Wait:
		return time.Time{}, false
	}
	return p.lostSince.Add(time.Duration(j.job.Unreachable.ReplaceAfter) * time.Millisecond), true
}

// waitingForPeers says which of a job's tasks hang on peers that do not answer.
func (c *Core) waitingForPeers(j *jobState) string {
	if j == nil {
		return ""
	}
	for _, p := range c.order {
		h := p.holds[j.id]
		if h == nil || len(h.slots) == 0 {
			continue
		}
		if p.standing == Ready {
			if said := cmp.Or(c.stalledTasks(h, p), c.inLine(h, p)); said != "" {
				return said
			}
			continue
		}
		tasks := fmt.Sprintf("tasks on peer %s, which is %s: %d", p.id, p.standing, len(h.slots))
		switch due, ever := c.replaceAt(p, j); {
		case c.frozen.Active() && ever && p.standing == Unreachable:
			return tasks + "; replacement is frozen: " + c.frozen.String() + " (peer thaw)"
		case p.standing != Unreachable:
			return tasks
		case !ever:
			return tasks + "; they must not run twice and wait for it (unreachable.wait)"
		default:
			said := fmt.Sprintf("%s; they go elsewhere in %s", tasks, max(0, later(due, c.held(p)).Sub(c.now).Round(100*time.Millisecond)))
			if c.now.Before(c.comeback.until) {
				said += ", for other peers are just coming back"
			}
			return said
		}
	}
	return ""
}
