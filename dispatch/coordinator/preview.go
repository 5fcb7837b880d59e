package coordinator

import (
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

func (pl *placer) preview(job *taskstate.Job) Preview {
	pl.fillPeers()
	old := pl.jobs.of(job.ID)
	j := &jobState{id: job.ID, job: job}
	l := &pendingGroup{job: j, body: job}
	n := job.Count
	if job.Parallel > 0 {
		n = min(n, job.Parallel)
	}
	peers := pl.scratch.peers
	switch {
	case old == nil:
	case taskstate.Restarts(old.job, job):
		pl.without(old, peers)
	default:
		n = max(0, n-old.wanted())
		pl.with(old, peers)
	}
	if job.Type == taskstate.GlobalJob {
		return pl.previewGlobal(l, old, peers)
	}
	return pl.previewed(placement.Place(pl.need(l, n), peers, pl.cfg.Seed), n)
}

// previewGlobal places one task on each peer that fits.
func (pl *placer) previewGlobal(l *pendingGroup, old *jobState, peers []placement.Peer) Preview {
	need := pl.need(l, len(peers))
	need.MaxPerPeer = 1
	plan := placement.Place(need, peers, pl.cfg.Seed)
	fit := 0
	for i, p := range pl.peers.list() {
		if pl.peers.fitsGlobal(l.job, p) && (peers[i].OfJob == 0 || old == nil) {
			fit++
		}
	}
	return pl.previewed(plan, max(fit, plan.Placed))
}

func (pl *placer) previewed(plan placement.Plan, tasks int) Preview {
	out := Preview{Tasks: tasks, Queued: plan.Queued, Waiting: max(0, tasks-plan.Placed), Reason: plan.Reason}
	for i, n := range plan.Counts {
		if n > 0 {
			out.Places = append(out.Places, Place{Peer: pl.peers.list()[i].id, Tasks: n})
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
