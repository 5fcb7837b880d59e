package sim

import (
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/history"
)

// watched is what an update has done so far to a job that lasts.
type watched struct {
	spec    *taskstate.Job // wanted now
	before  []former       // wanted a moment ago: decisions may rest on it
	down    map[int]taken  // slots whose running task an update ended, until their next task starts
	version int            // wanted, that cannot run
	hit     map[int]taken  // slots that lost a running task to it
}

type former struct {
	spec  *taskstate.Job
	until time.Duration
}

type taken struct {
	peer *peer
	at   time.Duration
}

// abreast is how long a decision may rest on what was wanted before.
const abreast = 15 * time.Second

func (c *check) watch(rec *ledger.JobRecord) *watched {
	id := rec.Job().ID
	x := c.lasting[id]
	if x == nil {
		x = &watched{spec: rec.Job(), down: map[int]taken{}, hit: map[int]taken{}}
		c.lasting[id] = x
	}
	if x.spec != rec.Job() {
		x.before = append(x.before, former{x.spec, c.w.now()})
		x.spec = rec.Job()
	}
	for len(x.before) > 0 && c.w.now()-x.before[0].until > abreast {
		x.before = x.before[1:]
	}
	return x
}

// specs lists what people want of the job, and what they wanted a moment ago.
func (x *watched) specs(j *work) []*taskstate.Job {
	out := []*taskstate.Job{j.meant(x.spec)}
	for _, b := range x.before {
		out = append(out, j.meant(b.spec))
	}
	return out
}

// followed hears a command that was decided, and what it brought about.
func (c *check) followed(cmd *ledger.Command, r *ledger.Result) {
	for _, a := range r.Again {
		if cmd.Renew == nil { // the coordinator that renews a slot does not restart it, also where a restart waited for its delay
			c.restarts.again(&a)
		}
	}
	switch {
	case cmd.Submit != nil && cmd.Submit.Job.Origin != nil && r.Refused == ledger.CodeNone && !r.Existed && !r.Skipped:
		c.scheduled(&cmd.Submit.Job)
	case cmd.Update != nil && r.Refused == ledger.CodeNone:
		c.about(cmd.Update.Job.ID)
	case cmd.Rollout != nil && r.Refused == ledger.CodeNone:
		if x := c.about(cmd.Rollout.Job); x != nil && cmd.Rollout.State == taskstate.RolloutUpdating {
			clear(x.hit) // somebody wants it to go on
		}
	case cmd.Renew != nil:
		c.renewed(cmd.Renew, r)
	case cmd.Retire != nil:
		c.retired(cmd.Retire, r)
	case cmd.Grow != nil && r.Refused == ledger.CodeNone:
		c.upward(cmd.Grow.Job)
	case cmd.Assign != nil:
		c.once(cmd.Assign)
	}
}

func (c *check) about(id taskstate.JobID) *watched {
	if rec, ok := c.w.quorum.truth.Job(id); ok && rec.Lasts() {
		return c.watch(rec)
	}
	return nil
}

// heardWithin is how long news may be under way: what happened since then the coordinator need not
// know when it comes to a decision, nor until that is written.
const heardWithin = 2 * time.Second

// scheduled takes note of a job that a schedule started.
func (c *check) scheduled(job *taskstate.Job) {
	w := c.w
	parent := w.load.byID[job.Origin.Job]
	for _, j := range w.load.jobs {
		if o := j.job.Origin; o != nil && o.Job == job.Origin.Job && !c.over[j.job.ID] && parent.job.Schedule.Overlap == taskstate.SkipOverlap {
			w.fail("I13", "the schedule %s starts %s while %s goes on", parent.job.ID, job.ID, j.job.ID)
		}
	}
	w.reader.followed(history.Submit, job.ID)
	j := &work{job: *job, acked: true, ackedAt: w.now()}
	w.load.jobs = append(w.load.jobs, j)
	w.load.byID[job.ID] = j
}

// renewed is I11 and I12: whom updates take down.
func (c *check) renewed(cmd *ledger.Renew, r *ledger.Result) {
	w := c.w
	rec, ok := w.quorum.truth.Job(cmd.Job)
	if !ok || r.Refused != ledger.CodeNone && r.Refused != ledger.CodePartly {
		return
	}
	x, took := c.about(cmd.Job), false
	for _, n := range decidedOf(cmd.Slots, r) {
		s := rec.Slot(n)
		delete(c.restarts.of, slot{cmd.Job, n})
		if s.Leaving == "" {
			continue
		}
		task, p := taskstate.Task(cmd.Job, n, s.Attempt), w.byID[s.Peer]
		if _, told := c.leaves[task]; told {
			continue // the coordinator that told it to end took it down; a worker that lies may never hear of it
		}
		c.leaves[task] = w.now()
		if proc := p.procs[task]; x != nil && cmd.Reason == taskstate.ReasonUpdated && proc != nil && !proc.halted && w.now()-proc.since > heardWithin {
			x.down[n], took = taken{p, w.now()}, true
			c.ruined(x, rec, n)
		}
	}
	switch {
	case x == nil:
	case cmd.Reason == taskstate.ReasonUpdated && took: // what was down before may be so by an update that was allowed more at once
		c.downward(x, rec)
	case cmd.Reason == taskstate.ReasonScaled: // a person may want back what is not wanted
		c.upward(cmd.Job)
	}
}

// decidedOf lists the slots of runs that were not refused.
func decidedOf(runs []ledger.Slots, r *ledger.Result) (out []int) {
	if r.Refused != ledger.CodeNone && r.Refused != ledger.CodePartly {
		return nil
	}
	for _, run := range runs {
		for n := range run.All() {
			if !slices.ContainsFunc(r.Slots, func(no ledger.Slots) bool { return n >= no.First && n < no.First+no.N }) {
				out = append(out, n)
			}
		}
	}
	return out
}

func (c *check) retired(cmd *ledger.Retire, r *ledger.Result) {
	rec, ok := c.w.quorum.truth.Job(cmd.Job)
	if !ok {
		return
	}
	x := c.about(cmd.Job)
	for _, n := range decidedOf(cmd.Slots, r) {
		if s := rec.Slot(n); s.Leaving != "" {
			c.leaves[taskstate.Task(cmd.Job, n, s.Attempt)] = c.w.now()
		}
		if x != nil {
			delete(x.down, n)
		}
	}
}

// downward is I11: how many are down because of an update.
func (c *check) downward(x *watched, rec *ledger.JobRecord) {
	j := c.w.load.byID[rec.Job().ID]
	most, least, first := 0, rec.Slots(), true
	for _, spec := range x.specs(j) {
		u := spec.Updating()
		if u.Parallelism == 0 {
			u.Parallelism = rec.Slots()
		}
		most, least, first = max(most, u.Parallelism), min(least, spec.Count), first && u.Order == taskstate.StartFirst
	}
	down, which := 0, []int(nil)
	for n, t := range x.down {
		if rec.Slot(n).Retired || c.excused(rec, t) || c.outOfReach(rec, n) {
			continue
		}
		down++
		which = append(which, n)
	}
	slices.Sort(which)
	if down > most {
		c.w.fail("I11", "an update has taken down %d tasks of %s (slots %v), %d are allowed at once", down, rec.Job().ID, which, most)
	}
	if there := wanted(rec); first && len(x.before) == 0 && there-down < least {
		c.w.fail("I11", "an update has taken down %d tasks of %s of %d, and the new ones come first: %d are wanted", down, rec.Job().ID, there, least)
	}
}

// excused tells whether an update goes on without a slot of a global job: nobody waits for a peer
// that is unreachable or paused.
func (c *check) excused(rec *ledger.JobRecord, t taken) bool {
	p := t.peer
	return rec.Job().Type == taskstate.GlobalJob && (p.pains > 0 || p.trouble > t.at || p.life == nil || c.passive(p.id) || c.unreachable(p))
}

// outOfReach tells whether a slot that an update before took down has its next task on a peer that
// is unreachable by now: for all that is known it may run there, as any other of the old version.
func (c *check) outOfReach(rec *ledger.JobRecord, n int) bool {
	s := rec.Slot(n)
	p := c.w.byID[s.Peer]
	return s.Open && p != nil && s.Version != rec.Job().Version && c.unreachable(p)
}

// unreachable tells whether the coordinator counts a peer as that, rightly or not.
func (c *check) unreachable(p *peer) bool {
	return c.finds(p, func(l coordinator.PeerLoad) bool { return l.Standing == coordinator.Unreachable })
}

// finds tells whether the coordinator finds something of a peer.
func (c *check) finds(p *peer, f func(coordinator.PeerLoad) bool) bool {
	t := c.w.quorum.leader.term
	return t != nil && slices.ContainsFunc(t.core.Peers(), func(l coordinator.PeerLoad) bool { return l.Peer == p.id && f(l) })
}

// wanted counts the slots that are wanted.
func wanted(rec *ledger.JobRecord) int {
	n := 0
	for k := 1; k <= rec.Slots(); k++ {
		if !rec.Slot(k).Retired {
			n++
		}
	}
	return n
}

// upward is I11: how many slots there are, whatever they do.
func (c *check) upward(id taskstate.JobID) {
	rec, ok := c.w.quorum.truth.Job(id)
	if !ok || rec.Job().Type != taskstate.ServiceJob {
		return
	}
	most := 0
	for _, spec := range c.about(id).specs(c.w.load.byID[id]) {
		n, u := spec.Count, spec.Updating()
		switch {
		case u.Order == taskstate.StopFirst:
		case u.Parallelism == 0:
			n += spec.Count
		default:
			n += min(u.Parallelism, spec.Count)
		}
		most = max(most, n)
	}
	if n := wanted(rec); n > most {
		c.w.fail("I11", "%s has %d slots that are wanted, and may have %d", id, n, most)
	}
}

// once is I14, as the ledger decides: of a global job no peer has two tasks.
func (c *check) once(a *ledger.Assign) {
	rec, ok := c.w.quorum.truth.Job(a.Job)
	if !ok || rec.Job().Type != taskstate.GlobalJob {
		return
	}
	has := map[taskstate.PeerID]int{}
	for s := range rec.OpenSlots() {
		if n := has[s.Peer]; n != 0 {
			c.w.fail("I14", "%s is given the slots %d and %d of the global job %s", s.Peer, n, s.Slot, a.Job)
		}
		has[s.Peer] = s.Slot
	}
}

// begun hears that a task starts: I14, as it really is, and what of an update is over.
func (c *check) begun(p *peer, r *proc) {
	t := r.launch.Task
	if x := c.lasting[t.Job]; x != nil {
		delete(x.down, t.Slot)
	}
	if r.launch.Job.Type == taskstate.GlobalJob {
		for id := range p.procs {
			if _, _, _, st := c.w.quorum.truth.Assigned(id); id.Job == t.Job && id.Slot != t.Slot && st == taskstate.Known {
				c.w.fail("I14", "%s starts %s of a global job, and runs %s", p.id, t, id)
			}
		}
	}
	c.restarts.early(t)
}

// ruined is I12: a running task gave way to one that cannot run.
func (c *check) ruined(x *watched, rec *ledger.JobRecord, n int) {
	j := c.w.load.byID[rec.Job().ID]
	next := rec.JobOf(rec.Slot(n).Next)
	if next == nil || !broken(next) || broken(rec.JobOf(rec.Slot(n).Version)) {
		return
	}
	if x.version != rec.Job().Version {
		x.version = rec.Job().Version
		clear(x.hit)
	}
	x.hit[n] = x.down[n]
	most := 0
	for _, spec := range x.specs(j) {
		u := spec.Updating()
		if u.Parallelism == 0 || u.OnFailure == taskstate.ContinueUpdate {
			return
		}
		most = max(most, u.Parallelism+int(u.MaxFailureRatio*float64(max(spec.Count, wanted(rec)))+1e-9))
	}
	hit := 0 // of slots that are wanted: for one whose peer leaves, another may be changed
	for n, t := range x.hit {
		if !rec.Slot(n).Retired && !c.excused(rec, t) && !c.heldUp(rec.Slot(n).Peer, t.at) {
			hit++
		}
	}
	if hit > most {
		c.w.fail("I12", "version %d of %s, which cannot run, has replaced %d tasks, and should have stopped after %d", x.version, rec.Job().ID, hit, most)
	}
}

// heldUp tells whether news of a peer may have been on its way for long: a fault has touched it, or
// all gossip, since a moment.
func (c *check) heldUp(id taskstate.PeerID, since time.Duration) bool {
	p := c.w.byID[id] // nobody: it waits
	return p != nil && (p.pains > 0 || p.trouble > since || c.w.net.lossy > 0 || c.w.net.healed > since)
}
