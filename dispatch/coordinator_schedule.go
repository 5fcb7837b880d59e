package dispatch

import (
	"covey/dispatch/ledger"
	"covey/placement"
	"covey/taskstate"
)

// Bounds of one proposal, so that an entry of the ledger stays well below a frame.
const (
	maxAssign     = 8192      // slots assigned
	maxDecideSize = 512 << 10 // estimated bytes of Settle and Supersede
	jobTurn       = 64        // slots a job gets before the next job's turn, if several have something to place
	statusBytes   = 72        // a status without its words, encoded

	supersedeBytes = 2 * statusBytes
)

// scratch is reused from step to step.
type scratch struct {
	peers []placement.Peer
}

// propose turns what is decided into proposals, as long as the pipeline has room. What comes up while it is full gathers, and
// goes out as one when the next proposal is done.
func (c *Coordinator) propose() {
	for c.inflight < c.cfg.Pipeline {
		cmds := c.cut()
		if len(cmds) == 0 {
			return
		}
		c.inflight++
		c.effects = append(c.effects, ProposeCommands{Commands: cmds})
	}
}

// cut takes the next proposal out of what is decided, and plans assignments for what is free after it.
func (c *Coordinator) cut() []ledger.Command {
	var cmds []ledger.Command
	for _, r := range c.registers {
		cmds = append(cmds, ledger.Command{Register: r})
	}
	c.registers = nil
	size := 0
	n := 0
	for ; n < len(c.supersedes) && size < maxDecideSize; n++ {
		cmds = append(cmds, ledger.Command{Supersede: c.supersedes[n]})
		size += supersedeBytes
	}
	if c.supersedes = c.supersedes[n:]; len(c.supersedes) == 0 {
		c.supersedes = nil
	}
	cmds, size = c.cutReplacements(cmds, size)
	cmds = c.cutSettles(cmds, size)
	if c.dirty {
		cmds = c.plan(cmds, maxAssign)
	}
	return cmds
}

func (c *Coordinator) cutSettles(cmds []ledger.Command, size int) []ledger.Command {
	for len(c.settling) > 0 && size < maxDecideSize {
		p := c.settling[0]
		n := 0
		for ; n < len(p.ends) && size < maxDecideSize; n++ {
			size += statusBytes + len(p.ends[n].Message) + len(p.ends[n].Reason)
		}
		if n > 0 {
			cmds = append(cmds, ledger.Command{Settle: &ledger.Settle{
				Peer: p.id, Incarnation: p.incarnation, Statuses: p.ends[:n:n],
			}})
		}
		if p.ends = p.ends[n:]; len(p.ends) > 0 {
			break
		}
		p.ends = nil
		c.settling = c.settling[1:]
	}
	return cmds
}

// plan assigns what waits to whom there is room with: jobs take turns, in the order of their age. A class of jobs that needs what
// nobody has is left alone until something changes.
func (c *Coordinator) plan(cmds []ledger.Command, budget int) []ledger.Command {
	c.dirty = false
	c.fillPeers()
	lines := c.busyClasses()
	for len(lines) > 0 && budget > 0 {
		rest := lines[:0]
		for _, k := range lines {
			var placed int
			cmds, placed = c.turn(cmds, k, min(budget, c.turnSize()))
			if budget -= placed; placed > 0 && len(k.line) > 0 {
				rest = append(rest, k)
			}
		}
		lines = rest
	}
	if budget <= 0 {
		c.dirty = true // there may be more in the next proposal
	}
	return cmds
}

// turnSize is how many slots a job may take at once.
func (c *Coordinator) turnSize() int {
	n := 0
	for _, k := range c.classes {
		if n += len(k.line); n > 1 {
			return jobTurn
		}
	}
	return maxAssign
}

// busyClasses lists the classes with jobs in line; empty classes are dropped.
func (c *Coordinator) busyClasses() []*class {
	kept := c.classes[:0]
	for _, k := range c.classes {
		if len(k.line) > 0 {
			kept = append(kept, k)
		} else {
			delete(c.classOf, k.need)
		}
	}
	for i := len(kept); i < len(c.classes); i++ {
		c.classes[i] = nil
	}
	c.classes = kept
	return append([]*class(nil), kept...)
}

// turn lets the next job of a class place up to n slots. If it places none for want of room, it keeps its place in the line – but
// a job that only its own cap holds back lets the next one try.
func (c *Coordinator) turn(cmds []ledger.Command, k *class, n int) ([]ledger.Command, int) {
	for tries := len(k.line); tries > 0; tries-- {
		j := k.line[0]
		want := min(n, j.mayStart())
		if j.cancelled || want == 0 {
			k.line = k.line[1:]
			j.queued = false
			continue
		}
		plan := c.place(j, want)
		j.noteWaiting(plan.Reason, c.now)
		if plan.Placed > 0 || j.job.MaxPerPeer > 0 {
			k.line = append(k.line[1:], j)
		}
		if plan.Placed > 0 {
			return c.assign(cmds, j, plan), plan.Placed
		}
		if j.job.MaxPerPeer == 0 {
			return cmds, 0
		}
	}
	return cmds, 0
}

// fillPeers describes the peers to placement as they are now.
func (c *Coordinator) fillPeers() {
	c.scratch.peers = c.scratch.peers[:0]
	for _, p := range c.order {
		c.scratch.peers = append(c.scratch.peers, placement.Peer{
			ID:        p.id,
			Ready:     !p.worker || p.standing == Ready && p.session.synced,
			Available: p.worker && !p.left && !c.now.Before(p.stopping) && p.offer.Trouble == "",
			Offer:     p.offer.Resources,
		})
		c.measure(&c.scratch.peers[len(c.scratch.peers)-1], p)
	}
}

// measure tells placement what p can take now. A worker starts its queue in order: while something waits there, nothing more starts
// at once, whatever else is free.
func (c *Coordinator) measure(at *placement.Peer, p *peerState) {
	at.Free, at.Ahead, at.Room, at.Total = p.free(), c.ahead(p), c.cfg.Outstanding-p.outstanding, p.outstanding
	if queue := p.queued(); queue > 0 {
		at.Free, at.Ahead = taskstate.Resources{}, max(0, at.Ahead-queue)
	}
}

func (c *Coordinator) place(j *jobState, n int) placement.Plan {
	for i, p := range c.order {
		c.scratch.peers[i].OfJob = 0
		if h := p.holds[j.id]; h != nil {
			c.scratch.peers[i].OfJob = h.live
		}
	}
	c.seed++
	return placement.Place(placement.Need{Tasks: n, Resources: j.job.Resources, MaxPerPeer: j.job.MaxPerPeer}, c.scratch.peers, c.seed)
}

// assign carries out a plan: the slots are under way until the ledger says so.
func (c *Coordinator) assign(cmds []ledger.Command, j *jobState, plan placement.Plan) []ledger.Command {
	for i, n := range plan.Counts {
		if n == 0 {
			continue
		}
		p := c.order[i]
		slots := j.take(n)
		for _, run := range slots {
			j.inflight = append(j.inflight, assigning{peer: p.id, Slots: run})
		}
		p.promise(j, p.hold(j), n)
		c.measure(&c.scratch.peers[i], p)
		cmds = append(cmds, ledger.Command{Assign: &ledger.Assign{Job: j.id, Peer: p.id, Incarnation: p.incarnation, Slots: slots}})
	}
	return cmds
}
