package dispatch

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"covey/dispatch/ledger"
	"covey/dispatch/rollout"
	"covey/p2p/wire"
	"covey/taskstate"
)

// lasting is what a service or global job has besides: the mirror of what the ledger keeps of it, and what was seen of its tasks. A nil one,
// as batch jobs have, takes note of nothing.
type lasting struct {
	versions map[int]*taskstate.Job
	from     int // version to go back to, 0 = none
	phase    rollout.Phase
	slots    map[int]*lastingSlot
	top      int // the highest slot there is

	stale    bool   // something changed since its step
	proposed [][]byte // decisions of its step that are not applied, encoded: persons decide alike
	seen     uint64 // changes of peers its step knew of
	wake     time.Time
}

// lastingSlot is a slot of a lasting job. It waits, or is open on a peer, or has ended; retired ones are not wanted.
type lastingSlot struct {
	version int // of its attempt, or of the one it waits for
	pin     taskstate.PeerID
	peer    taskstate.PeerID // open there
	waits   bool
	retired bool
	running time.Time // since when it was seen to run
	done    bool      // its attempt was complete, and none follows
	failed  int       // the version whose attempt failed last, before it had run for the monitor time
}

func newLasting(j *jobState) *lasting {
	return &lasting{versions: map[int]*taskstate.Job{j.job.Version: j.job}, slots: map[int]*lastingSlot{}, stale: true}
}

func (l *lasting) slot(n int) *lastingSlot {
	s := l.slots[n]
	if s == nil {
		s = &lastingSlot{}
		l.slots[n] = s
		l.top = max(l.top, n)
	}
	return s
}

// stir has the job's step look again.
func (l *lasting) stir() {
	if l != nil {
		l.stale = true
	}
}

// pinOf is the only peer a slot may go to.
func (l *lasting) pinOf(n int) taskstate.PeerID {
	if l == nil || l.slots[n] == nil {
		return ""
	}
	return l.slots[n].pin
}

// waits notes that a slot waits for an attempt.
func (l *lasting) waits(n, version int) {
	if l == nil {
		return
	}
	s := l.slot(n)
	s.version, s.waits, s.retired, s.done, s.running = version, true, false, false, time.Time{}
	l.stale = true
}

// begun notes that a slot's attempt was given to a peer.
func (l *lasting) begun(n, version int, p taskstate.PeerID) {
	if l == nil {
		return
	}
	s := l.slot(n)
	s.version, s.waits, s.retired, s.peer, s.running, s.done = version, false, false, p, time.Time{}, false
	l.stale = true
}

// ended notes how an attempt ended that was not told to.
func (l *lasting) ended(st *taskstate.Status, version int, job *taskstate.Job, now time.Time) {
	if l == nil {
		return
	}
	s := l.slot(st.Task.Slot)
	s.done = st.State == taskstate.Complete
	monitor := time.Duration(job.Updating().Monitor) * time.Millisecond
	if st.State != taskstate.Shutdown && (s.running.IsZero() || now.Sub(s.running) < monitor) {
		s.failed = version
	}
}

// retire notes whether a slot is wanted.
func (l *lasting) retire(n int, retired bool) {
	if l == nil {
		return
	}
	s := l.slot(n)
	if s.retired = retired; retired {
		s.waits = false
	}
}

// over notes that a slot is open no more.
func (l *lasting) over(n int, p taskstate.PeerID) {
	if l == nil {
		return
	}
	if s := l.slot(n); s.peer == p {
		s.peer = ""
		if !s.waits {
			s.running = time.Time{}
		}
	}
	l.stale = true
}

// deriveLasting builds the mirror from the ledger.
func (c *Coordinator) deriveLasting(j *jobState, r *ledger.JobRecord) {
	c.addSchedule(j, max(r.LastRun(), r.Accepted()))
	l := j.lasting
	if l == nil {
		return
	}
	for _, v := range r.Versions() {
		l.versions[v] = r.JobOf(v)
	}
	ro := r.Rollout()
	l.from, l.phase = ro.From, rollout.Phase(ro.State)
	for n := 1; n <= r.Slots(); n++ {
		s := r.Slot(n)
		x := l.slot(n)
		x.version, x.pin, x.retired = s.Version, s.Pin, s.Retired
		x.done = s.Final != nil && s.Final.State == taskstate.Complete
	}
}

// appliedLasting follows the decisions about services and global jobs, and about attempts that somebody asks for. It tells whether the
// command was one.
func (c *Coordinator) appliedLasting(cmd *ledger.Command, r *ledger.Result) bool {
	var id taskstate.JobID
	var follow func(j *jobState)
	switch {
	case cmd.Update != nil:
		id, follow = cmd.Update.Job.ID, func(j *jobState) { c.appliedUpdate(j, &cmd.Update.Job, r) }
	case cmd.Renew != nil:
		id, follow = cmd.Renew.Job, func(j *jobState) { c.appliedRenew(j, cmd.Renew, r) }
	case cmd.Retire != nil:
		id, follow = cmd.Retire.Job, func(j *jobState) { c.appliedRetire(j, cmd.Retire, r) }
	case cmd.Grow != nil:
		id, follow = cmd.Grow.Job, func(j *jobState) { c.appliedGrow(j, cmd.Grow, r) }
	case cmd.Rollout != nil:
		id, follow = cmd.Rollout.Job, func(j *jobState) { c.appliedRollout(j, cmd.Rollout, r) }
	default:
		return false
	}
	j := c.jobs[id]
	if j == nil {
		return true
	}
	if l := j.lasting; l != nil {
		l.stale = true
		l.decided(cmd)
	}
	if !r.Existed && (r.Refused == ledger.CodeNone || r.Refused == ledger.CodePartly) {
		follow(j)
	}
	c.endJob(j)
	return true
}

// decided takes a command out of those that are under way, if it is one of them: what a person decided meanwhile is not, and the step that
// waits for its own would decide the same twice.
func (l *lasting) decided(cmd *ledger.Command) {
	b, err := wire.Marshal(cmd)
	if err != nil {
		return
	}
	if i := slices.IndexFunc(l.proposed, func(x []byte) bool { return bytes.Equal(x, b) }); i >= 0 {
		l.proposed = slices.Delete(l.proposed, i, i+1)
	}
}

// appliedUpdate takes a new spec over. Tasks go on as they are until the rollout comes to them.
func (c *Coordinator) appliedUpdate(j *jobState, job *taskstate.Job, r *ledger.Result) {
	next := *job
	next.Version, next.Submitter, next.Origin = r.Version, j.job.Submitter, j.job.Origin
	if j.lasting == nil {
		c.reschedule(j, &next)
		return
	}
	if l := j.lasting; next.Version != j.job.Version {
		if l.from == 0 || l.phase != rollout.Updating && l.phase != rollout.Paused {
			l.from = j.job.Version
		}
		l.phase = rollout.Updating
	}
	c.want(j, &next)
}

// want makes a spec the one that is wanted.
func (c *Coordinator) want(j *jobState, next *taskstate.Job) {
	l := j.lasting
	if next.Version != j.job.Version {
		j.faults = nil
	}
	delete(j.size, next.Version)
	j.job, l.versions[next.Version] = next, next
	same := map[int]bool{}
	for v, b := range l.versions {
		same[v] = !taskstate.Restarts(b, next)
	}
	for _, s := range l.slots {
		if same[s.version] { // it does already what is wanted: after a way back, for instance
			s.version = next.Version
		}
	}
	for n, x := range j.leaving {
		if same[x.next] && !x.retired {
			x.next = next.Version
			j.leaving[n] = x
		}
	}
	for _, w := range j.lots {
		if same[w.body.Version] {
			w.body = next
		}
	}
	for i := range j.later {
		if same[j.later[i].version] {
			j.later[i].version = next.Version
		}
	}
	c.reclassify(j)
	l.tidyVersions(c, j)
}

// tidyVersions forgets versions nobody can need any more.
func (l *lasting) tidyVersions(c *Coordinator, j *jobState) {
	used := map[int]bool{j.job.Version: true, l.from: true}
	for _, s := range l.slots {
		used[s.version] = true
	}
	for _, x := range j.leaving {
		used[x.next] = true
	}
	for _, x := range j.inflight {
		used[x.body.Version] = true
	}
	for _, p := range c.order {
		if h := p.holds[j.id]; h != nil {
			for _, r := range h.slots {
				used[int(r.version)] = true
			}
		}
	}
	maps.DeleteFunc(l.versions, func(v int, _ *taskstate.Job) bool { return !used[v] })
}

// appliedRollout follows how far an update has come. Turned back, the version before is wanted again.
func (c *Coordinator) appliedRollout(j *jobState, ro *ledger.Rollout, r *ledger.Result) {
	l := j.lasting
	if l == nil {
		return
	}
	if before := l.versions[l.from]; r.Version > j.job.Version && before != nil {
		next := *before
		next.Version, l.from, l.phase = r.Version, 0, rollout.RollingBack
		c.want(j, &next)
		return
	}
	l.phase = movedTo(l.phase, rollout.Phase(ro.State))
	for _, s := range l.slots {
		if l.phase.Active() {
			s.failed = 0 // from here on it counts anew
		}
	}
}

// movedTo is what becomes of a rollout that is told to pause or to go on: turned back, it does so as what it is.
func movedTo(is, told rollout.Phase) rollout.Phase {
	back := is == rollout.RollingBack || is == rollout.RollbackPaused
	switch {
	case back && told == rollout.Updating:
		return rollout.RollingBack
	case back && told == rollout.Paused:
		return rollout.RollbackPaused
	}
	return told
}

// slotsOf yields the slots of runs, without those refused.
func slotsOf(runs, refused []ledger.Slots) []int {
	no := map[int]bool{}
	for _, r := range refused {
		for n := r.First; n < r.First+r.N; n++ {
			no[n] = true
		}
	}
	var out []int
	for _, r := range runs {
		for n := r.First; n < r.First+r.N; n++ {
			if !no[n] {
				out = append(out, n)
			}
		}
	}
	return out
}

// appliedGrow learns which of the slots that were added are for which peer; they wait already.
func (c *Coordinator) appliedGrow(j *jobState, g *ledger.Grow, r *ledger.Result) {
	l := j.lasting
	if l == nil || len(g.Peers) == 0 {
		return
	}
	has := map[taskstate.PeerID]bool{}
	for _, s := range l.slots {
		has[s.pin] = true
	}
	var fresh []int
	for _, a := range r.Again {
		for n := a.Slots.First; n < a.Slots.First+a.Slots.N; n++ {
			fresh = append(fresh, n)
		}
	}
	for _, p := range g.Peers {
		if has[p] || p == "" || len(fresh) == 0 {
			continue
		}
		has[p] = true
		n := fresh[0]
		fresh = fresh[1:]
		s := l.slot(n)
		s.pin = p
		for _, w := range j.lots { // from the lot of those that may go anywhere
			for _, q := range []*slotQueue{&w.again, &w.fresh} {
				if attempt, ok := q.attempt(n); ok {
					q.remove(n)
					j.wait(ledger.Slots{First: n, N: 1, Attempt: attempt}, s.version, p)
				}
			}
		}
	}
	c.enqueue(j)
}

// appliedRenew has slots get a fresh attempt. Those that are open are stopped first.
func (c *Coordinator) appliedRenew(j *jobState, w *ledger.Renew, r *ledger.Result) {
	for _, n := range slotsOf(w.Slots, r.Slots) {
		if p, h := c.holder(j, n); p != nil {
			version := w.Version
			if version == 0 && j.lasting != nil {
				version = j.lasting.slot(n).version
			}
			j.leave(n, leaving{why: w.Reason, next: version})
			j.lasting.retire(n, false)
			c.stopLeaving(p, h, n)
		}
	}
}

// appliedRetire ends slots that are not wanted any more.
func (c *Coordinator) appliedRetire(j *jobState, w *ledger.Retire, r *ledger.Result) {
	for _, n := range slotsOf(w.Slots, r.Slots) {
		if p, h := c.holder(j, n); p != nil {
			j.leave(n, leaving{why: w.Reason, retired: true})
			c.stopLeaving(p, h, n)
		} else if !j.unwait(n) && j.underWay(n) {
			if j.early == nil {
				j.early = map[int]bool{}
			}
			j.early[n] = true
		}
		j.lasting.retire(n, true)
	}
}

// holder finds the peer a slot is open on.
func (c *Coordinator) holder(j *jobState, slot int) (*peerState, *holding) {
	for _, p := range c.order {
		if h := p.holds[j.id]; h != nil {
			if _, open := h.slots[slot]; open {
				return p, h
			}
		}
	}
	return nil, nil
}

// ordered lists the slots of a lasting job, ascending.
func (l *lasting) ordered() []int { return slices.Sorted(maps.Keys(l.slots)) }
