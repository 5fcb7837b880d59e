package dispatch

import (
	"context"
	"slices"

	"covey/placement"
	"covey/taskstate"
)

// Preview is where the tasks of a job would go if it came now. It travels between peers.
type Preview struct {
	Places  []Place   `cbor:"1,keyasint,omitempty"` // peers that would get tasks, by id
	Tasks   int       `cbor:"2,keyasint"`           // tasks that are asked for now: an update that restarts nothing asks for those it adds
	Queued  int       `cbor:"3,keyasint,omitempty"` // so many of those placed would wait on their peer until something there ends
	Waiting int       `cbor:"4,keyasint,omitempty"` // tasks that no peer could take now
	Reason  string    `cbor:"5,keyasint,omitempty"` // why not all could be placed, for people
	Refused []Refusal `cbor:"6,keyasint,omitempty"` // the same, counted
}

// Place is a peer and how many tasks it would get.
type Place struct {
	Peer  taskstate.PeerID `cbor:"1,keyasint"`
	Tasks int              `cbor:"2,keyasint"`
}

// Refusal is a reason, for people, and the number of peers it kept away.
type Refusal struct {
	Text  string `cbor:"1,keyasint"`
	Peers int    `cbor:"2,keyasint"`
}

// Preview tells where the tasks of a job would go now. If there is a job with its id, it is taken for an update of that. Nothing is
// changed; a moment later the answer may be another.
func (c *Coordinator) Preview(job *taskstate.Job) Preview {
	c.fillPeers()
	old := c.jobs[job.ID]
	j := &jobState{id: job.ID, job: job}
	l := &lot{job: j, body: job}
	n := job.Count
	if job.Parallel > 0 {
		n = min(n, job.Parallel)
	}
	peers := c.scratch.peers
	switch {
	case old == nil:
	case taskstate.Restarts(old.job, job):
		c.without(old, peers)
	default:
		n = max(0, n-old.wanted())
		c.with(old, peers)
	}
	if job.Type == taskstate.GlobalJob {
		return c.previewGlobal(l, old, peers)
	}
	return c.previewed(placement.Place(c.need(l, n), peers, c.cfg.Seed), n)
}

// previewGlobal places one task on each peer that fits.
func (c *Coordinator) previewGlobal(l *lot, old *jobState, peers []placement.Peer) Preview {
	need := c.need(l, len(peers))
	need.MaxPerPeer = 1
	plan := placement.Place(need, peers, c.cfg.Seed)
	fit := 0
	for i, p := range c.order {
		if c.fitsGlobal(l.job, p) && (peers[i].OfJob == 0 || old == nil) {
			fit++
		}
	}
	return c.previewed(plan, max(fit, plan.Placed))
}

func (c *Coordinator) previewed(plan placement.Plan, tasks int) Preview {
	out := Preview{Tasks: tasks, Queued: plan.Queued, Waiting: max(0, tasks-plan.Placed), Reason: plan.Reason}
	for i, n := range plan.Counts {
		if n > 0 {
			out.Places = append(out.Places, Place{Peer: c.order[i].id, Tasks: n})
		}
	}
	for _, r := range plan.Refused {
		out.Refused = append(out.Refused, Refusal{Text: r.Text, Peers: r.Peers})
	}
	return out
}

// wanted counts the slots of a lasting job that are there and not on their way out.
func (j *jobState) wanted() (n int) {
	if j.lasting == nil {
		return 0
	}
	for k, s := range j.lasting.slots {
		if !s.retired && !j.leaving[k].retired {
			n++
		}
	}
	return n
}

// with has peers, as described for placement, count the tasks of a job that are there.
func (c *Coordinator) with(j *jobState, peers []placement.Peer) {
	avoided := c.avoided(j)
	for i, p := range c.order {
		peers[i].Faulty = avoided[p.id]
		if h := p.holds[j.id]; h != nil {
			peers[i].OfJob = h.live
		}
	}
}

// without has peers look as if the tasks of a job were not there: they make room for their successors.
func (c *Coordinator) without(j *jobState, peers []placement.Peer) {
	for i, p := range c.order {
		if h := p.holds[j.id]; h != nil {
			at := &peers[i]
			at.Room, at.Total = at.Room+h.live, at.Total-h.live
			at.Free = at.Free.Add(j.job.Resources.Times(int64(h.live)))
		}
	}
}

// Move is a task of a service that would be better elsewhere.
type Move struct {
	Slot    int              `cbor:"1,keyasint"`
	Attempt int              `cbor:"2,keyasint"`
	From    taskstate.PeerID `cbor:"3,keyasint"`
	To      taskstate.PeerID `cbor:"4,keyasint"` // as it looks now: where it goes is decided when it has ended
}

// Rebalance tells which tasks of a service to move so that its peers differ by one task at most, by slot. Nothing is changed. While tasks
// are on their way – busy – there is nothing to say yet.
func (c *Coordinator) Rebalance(id taskstate.JobID) (moves []Move, busy bool) {
	j := c.jobs[id]
	if j == nil || j.lasting == nil || j.job.Type != taskstate.ServiceJob || j.cancelled {
		return nil, false
	}
	if len(j.leaving)+len(j.inflight)+j.pending() > 0 {
		return nil, true
	}
	c.fillPeers()
	c.with(j, c.scratch.peers)
	var out []Move
	for _, m := range placement.Rebalance(c.need(&lot{job: j, body: j.job}, 0), c.scratch.peers) {
		h := c.peers[m.From].holds[id]
		if h == nil {
			continue
		}
		slots := h.sorted(func(r rec) bool { return !r.is(ended | stopped | deciding) })
		slices.Reverse(slots)
		for _, n := range slots {
			taken := slices.ContainsFunc(out, func(x Move) bool { return x.Slot == n })
			if m.N > 0 && !taken && !j.leaves(n) {
				out = append(out, Move{Slot: n, Attempt: int(h.slots[n].attempt), From: m.From, To: m.To})
				m.N--
			}
		}
	}
	slices.SortFunc(out, func(a, b Move) int { return a.Slot - b.Slot })
	return out, false
}

// Preview tells where the tasks of a job would go now; see Coordinator.Preview.
func (c *Coord) Preview(ctx context.Context, job *taskstate.Job) (p Preview, err error) {
	err = c.ask(ctx, func(core *Coordinator) { p = core.Preview(job) })
	return p, err
}

// Rebalance tells which tasks of a service to move; see Coordinator.Rebalance.
func (c *Coord) Rebalance(ctx context.Context, id taskstate.JobID) (moves []Move, busy bool, err error) {
	err = c.ask(ctx, func(core *Coordinator) { moves, busy = core.Rebalance(id) })
	return moves, busy, err
}
