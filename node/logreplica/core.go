package logreplica

import (
	"cmp"
	"errors"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/coveyproject/covey/node/care"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/taskstate"
)

// How long a peer that refused is not asked, and when output that no peer took is offered again.
const (
	nonePause  = time.Hour        // after a peer said that it keeps nothing
	lostPause  = 30 * time.Second // after a peer could not be reached, or failed
	busyPause  = 10 * time.Second
	stuckPause = time.Minute
	maxOffers  = 4 // peers that are asked whether they have a copy, before it is sent
)

// Output is what a task printed here.
type Output struct {
	Task      taskstate.TaskID
	Submitter taskstate.PeerID
	Out, Err  int64
	Failed    bool
	Fresh     bool // no other peer can have it yet
}

// Core decides which output is copied to which peer, and when. It is pure: what happens and the
// time are arguments.
type Core struct {
	self    taskstate.PeerID
	leaving bool
	peers   map[taskstate.PeerID]care.Peer
	counted map[taskstate.PeerID]bool // whose copies counted when the members were looked at last
	no      map[taskstate.PeerID]decline
	jobs    map[taskstate.JobID]*jobOutput
}

type decline struct {
	until time.Time
	why   string
}

// jobOutput is the output of one job that has one copy, as far as this peer knows.
type jobOutput struct {
	submitter taskstate.PeerID
	of        map[attempt]*one
	again     time.Time // some are stuck: then they are offered once more
	why       string    // they are
}

type attempt struct{ slot, attempt int }

// one is the output of one task.
type one struct {
	out, err            int64
	failed, fresh       bool
	busy, stuck, silent bool
	step                int8 // peers that were asked, of those that may be
}

func (o *one) bytes() int64 { return o.out + o.err }

func (o *one) large() bool { return o.bytes() > smallOutput }

// Batch is what is to be sent to a peer.
type Batch struct {
	keep.Batch
	Peer  taskstate.PeerID
	Large bool // its lane
}

// NewCore makes a core that knows nothing yet.
func NewCore(self taskstate.PeerID) *Core {
	return &Core{self: self, no: map[taskstate.PeerID]decline{}, jobs: map[taskstate.JobID]*jobOutput{}}
}

// Add takes in output that is here.
func (c *Core) Add(all []Output) {
	for _, o := range all {
		j := c.jobs[o.Task.Job]
		if j == nil {
			j = &jobOutput{submitter: o.Submitter, of: map[attempt]*one{}}
			c.jobs[o.Task.Job] = j
		}
		at := attempt{o.Task.Slot, o.Task.Attempt}
		if was := j.of[at]; was != nil && was.out == o.Out && was.err == o.Err {
			continue // under way, perhaps
		}
		j.of[at] = &one{out: o.Out, err: o.Err, failed: o.Failed, fresh: o.Fresh, silent: o.Out+o.Err == 0}
	}
}

// Retain forgets jobs that are not known any more.
func (c *Core) Retain(known func(taskstate.JobID) bool) {
	maps.DeleteFunc(c.jobs, func(id taskstate.JobID, _ *jobOutput) bool { return !known(id) })
}

// Drop forgets output that is not here any more.
func (c *Core) Drop(tasks []taskstate.TaskID) {
	for _, t := range tasks {
		if j := c.jobs[t.Job]; j != nil {
			delete(j.of, attempt{t.Slot, t.Attempt})
		}
	}
}

// Sees takes in the members, and reports whether it is to be looked anew what has one copy: a peer
// is gone on which copies may be, or one came that may have what was taken for the only one.
func (c *Core) Sees(peers map[taskstate.PeerID]care.Peer, now time.Time) (look bool) {
	for id, p := range peers {
		if p.Here && !c.peers[id].Here {
			delete(c.no, id)
			look = look || len(c.jobs) > 0
		}
	}
	for id := range c.counted {
		look = look || !counts(peers[id], now)
	}
	c.counted = map[taskstate.PeerID]bool{}
	for id, p := range peers {
		if id != c.self && counts(p, now) {
			c.counted[id] = true
		}
	}
	if !maps.Equal(peers, c.peers) {
		c.peers = peers
		c.unstick() // there may be another peer to ask
	}
	return look
}

// counts reports whether copies on a peer count. The zero Peer is no member.
func counts(p care.Peer, now time.Time) bool {
	return p != (care.Peer{}) && !p.Drained && (p.Here || now.Sub(p.Since) < care.LostAfter)
}

// Counts reports whether the output of tasks that ran on a peer counts as a copy.
func (c *Core) Counts(peer taskstate.PeerID, now time.Time) bool {
	p := c.peers[peer]
	if c.leaving {
		return p.Here && !p.Drained
	}
	return counts(p, now)
}

// Leave notes that this peer is about to go, or stays after all.
func (c *Core) Leave(on bool) {
	c.leaving = on
	clear(c.no)
	c.unstick()
}

func (c *Core) unstick() {
	for _, j := range c.jobs {
		j.unstick()
	}
}

func (j *jobOutput) unstick() {
	j.again, j.why = time.Time{}, ""
	for _, o := range j.of {
		o.stuck, o.step = false, 0
	}
}

// keepers are the peers that may keep a job's output, in their order.
func (c *Core) keepers(job taskstate.JobID, submitter taskstate.PeerID) []taskstate.PeerID {
	var may []taskstate.PeerID
	for id, p := range c.peers {
		if id != c.self && p.Here && !p.Drained && (!p.Blind || id == submitter) {
			may = append(may, id)
		}
	}
	return keep.Order(taskstate.TaskID{Job: job}, submitter, may)
}

// Next is what one lane is to send: a large output by itself, or many small ones.
func (c *Core) Next(large bool, now time.Time) (b Batch, ok bool) {
	for id, j := range c.jobs {
		if !j.again.IsZero() && !j.again.After(now) {
			j.unstick()
		}
		if b, ok := c.nextOf(id, j, large, now); ok {
			return b, true
		}
	}
	return b, false
}

// nextOf is that of one job: failed tasks first, then the smallest output.
func (c *Core) nextOf(id taskstate.JobID, j *jobOutput, large bool, now time.Time) (b Batch, ok bool) {
	keepers := c.keepers(id, j.submitter)
	if len(keepers) == 0 {
		return b, false
	}
	ranked := map[int][]attempt{}
	for at, o := range j.of {
		if o.busy || o.stuck || o.large() != large || !c.aim(j, o, keepers, now) {
			continue
		}
		r := rank(o)
		if len(ranked[r]) < keep.MaxPrinted {
			ranked[r] = append(ranked[r], at)
		}
	}
	b = Batch{Batch: keep.Batch{Job: id, Flush: c.leaving}, Large: large}
	var first *one
	bytes := int64(0)
	for _, r := range slices.Sorted(maps.Keys(ranked)) {
		for _, at := range ranked[r] {
			o := j.of[at]
			if first == nil {
				first, b.Peer, b.Offer = o, keepers[o.step], !o.fresh
			}
			if o.fresh {
				bytes += o.bytes()
			}
			full := len(b.Tasks) > 0 && bytes > keep.InlineBytes || len(b.Tasks) == keep.MaxPrinted
			if full || o.step != first.step || o.fresh != first.fresh {
				return b, true
			}
			o.busy = true
			b.Tasks = append(b.Tasks, keep.Printed{Slot: at.slot, Attempt: at.attempt, Out: o.out, Err: o.err, Failed: o.failed})
		}
	}
	return b, first != nil
}

// aim finds the next peer for an output; false: there is none, and it is stuck for a while.
func (c *Core) aim(j *jobOutput, o *one, keepers []taskstate.PeerID, now time.Time) bool {
	most := len(keepers)
	if !o.fresh {
		most = min(most, maxOffers)
	}
	for ; int(o.step) < most; o.step++ {
		no := c.no[keepers[o.step]]
		if !no.until.After(now) {
			return true
		}
		j.why = no.why
	}
	if !o.fresh { // none of them has it
		o.fresh, o.step = true, 0
		return c.aim(j, o, keepers, now)
	}
	o.stuck = true
	if j.again.IsZero() {
		j.again = now.Add(stuckPause)
	}
	return false
}

// rank orders output: that of failed tasks, then by how much it is.
func rank(o *one) int {
	r := bits.Len64(uint64(o.bytes()))
	if !o.failed {
		r += 64
	}
	return r
}

// Done takes in what came of a batch.
func (c *Core) Done(b Batch, lacks []int, err error, name string, now time.Time) {
	if err != nil {
		c.no[b.Peer] = declineOf(err, name, now)
	}
	j := c.jobs[b.Job]
	if j == nil {
		return
	}
	for i, p := range b.Tasks {
		at := attempt{p.Slot, p.Attempt}
		o := j.of[at]
		switch {
		case o == nil:
		case err != nil, c.leaving && !b.Flush:
			o.busy = false
		case !slices.Contains(lacks, i):
			delete(j.of, at)
		default:
			o.busy = false
			o.step++
			if !b.Offer {
				j.why = name + " has no room for more copies of what its tasks print"
			}
		}
	}
	if len(j.of) == 0 {
		delete(c.jobs, b.Job)
	}
}

func declineOf(err error, name string, now time.Time) decline {
	pause := lostPause
	var no *keep.Refused
	switch {
	case errors.Is(err, keep.ErrHungUp):
		pause = nonePause
	case errors.As(err, &no) && no.Code == keep.CodeNone:
		pause = nonePause
	case errors.As(err, &no) && no.Code == keep.CodeBusy:
		pause = busyPause
	}
	return decline{now.Add(pause), name + ": " + err.Error()}
}

// Settled reports whether nothing can be done now about what has one copy.
func (c *Core) Settled() bool {
	for id, j := range c.jobs {
		if len(c.keepers(id, j.submitter)) == 0 {
			continue
		}
		for _, o := range j.of {
			if !o.stuck {
				return false
			}
		}
	}
	return true
}

// Wake is when something that is stuck is tried again; zero: nothing is.
func (c *Core) Wake() (at time.Time) {
	for _, j := range c.jobs {
		if !j.again.IsZero() && (at.IsZero() || j.again.Before(at)) {
			at = j.again
		}
	}
	return at
}

// Sole is what only this peer has, of one job or of all, by job. A job whose output is being copied
// has no reason.
func (c *Core) Sole(only taskstate.JobID) (s keep.Sole) {
	for id, j := range c.jobs {
		if only != "" && id != only {
			continue
		}
		row := keep.SoleJob{Job: string(id), Why: j.why}
		for _, o := range j.of {
			if !o.silent {
				row.Tasks++
				row.Bytes += o.bytes()
			}
		}
		if len(c.keepers(id, j.submitter)) == 0 {
			row.Why = "no other peer that is here may read it"
		}
		if row.Tasks > 0 {
			s.Jobs = append(s.Jobs, row)
		}
	}
	slices.SortFunc(s.Jobs, func(a, b keep.SoleJob) int { return cmp.Compare(a.Job, b.Job) })
	return s
}
