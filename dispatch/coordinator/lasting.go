package coordinator

import (
	"maps"
	"slices"
	"time"

	"covey/dispatch/ledger"
	"covey/dispatch/rollout"
	"covey/taskstate"
)

// applied follows the decisions about what a job is to be – its spec, how far its tasks follow that,
// which of them there are – and about attempts that somebody asks for. What they mean, the ledger
// says in Result.Now. It tells whether the command was one.
func (u *upkeep) applied(cmd *ledger.Command, r *ledger.Result) bool {
	id, seen := about(cmd)
	if id == "" {
		return false
	}
	j := u.jobs.of(id)
	if j == nil {
		return true
	}
	if l := j.lasting; l != nil {
		own := seen != nil && *seen >= u.born && l.proposed > 0
		if own {
			l.proposed--
		}
		if own && r.Now == nil { // it would come to the same again
			u.stepAgain(l, u.clock.Elapsed(u.clock.Now().Add(refusedPause)))
		} else {
			l.stale = true
		}
	}
	if r.Now != nil {
		u.adopt(j, r.Now, cmd)
	}
	u.jobs.endJob(j)
	return true
}

// about is the job that such a command is about, "" for others, and how far its author had seen the
// ledger, where it says so: only steps do.
func about(cmd *ledger.Command) (id taskstate.JobID, seen *uint64) {
	switch {
	case cmd.Update != nil:
		return cmd.Update.Job.ID, nil
	case cmd.Renew != nil:
		return cmd.Renew.Job, &cmd.Renew.Seen
	case cmd.Retire != nil:
		return cmd.Retire.Job, &cmd.Retire.Seen
	case cmd.Grow != nil:
		return cmd.Grow.Job, &cmd.Grow.Seen
	case cmd.Rollout != nil:
		return cmd.Rollout.Job, &cmd.Rollout.Seen
	}
	return "", nil
}

// adopt takes over what a job is to be now, and the slots of it that are to stop, or not to begin.
func (u *upkeep) adopt(j *jobState, o *ledger.Outline, cmd *ledger.Command) {
	l, other := j.lasting, o.Job != j.job
	if l != nil {
		l.from, l.phase = o.Rollout.From, rollout.Phase(o.Rollout.State)
	}
	if other {
		u.respec(j, o)
	} else if cmd.Rollout != nil && l.phase.Active() {
		for _, s := range l.slots {
			s.failed = 0 // from here on it counts anew
		}
	}
	if cmd.Renew != nil && cmd.Renew.Reason == taskstate.ReasonRetried {
		j.faults = nil
		u.agenda.place() // whoever asks may have mended the peer
	}
	for _, s := range o.Slots {
		l.retire(s.Slot, s.Retired)
		if s.Leaving != "" {
			j.leave(s.Slot, leaving{why: s.Leaving, next: s.Next, retired: s.Retired})
			if p, h := u.peers.holder(j, s.Slot); p != nil {
				u.sessions.stopLeaving(p, h, s.Slot)
			}
		} else if s.Retired && !j.unwait(s.Slot) && j.underWay(s.Slot) {
			j.endEarly(s.Slot)
		}
	}
}

// pin notes which of the slots a command added are for which peer, before they wait.
func (u *upkeep) pin(o *ledger.Outline) {
	if o == nil || len(o.Slots) == 0 {
		return
	}
	if j := u.jobs.of(o.Job.ID); j != nil && j.lasting != nil {
		for _, s := range o.Slots {
			j.lasting.slot(s.Slot).pin = s.Pin
		}
	}
}

// respec makes another spec the one that is wanted. Tasks go on as they are until the rollout comes
// to them; those that do already what is wanted count as of it.
func (u *upkeep) respec(j *jobState, o *ledger.Outline) {
	version := o.Job.Version
	if version != j.job.Version {
		j.faults = nil
	}
	delete(j.size, version)
	j.job = o.Job
	l := j.lasting
	if l == nil {
		if u.jobs.schedules.changed(j, o.StartsFrom) {
			u.clock.WakeAt(u.clock.Now())
		}
		return
	}
	l.versions[version] = o.Job
	same := func(v int) bool { return v == version || slices.Contains(o.Same, v) }
	for _, s := range l.slots {
		if same(s.version) {
			s.version = version
		}
	}
	for n, x := range j.leaving {
		if same(x.next) && !x.retired {
			x.next = version
			j.leaving[n] = x
		}
	}
	for _, w := range j.groups {
		if same(w.body.Version) {
			w.body = o.Job
		}
	}
	for i := range j.later {
		if same(j.later[i].version) {
			j.later[i].version = version
		}
	}
	u.jobs.reclassify(j)
	l.tidyVersions(u.peers.list(), j)
}

// tidyVersions forgets versions nobody can need any more.
func (l *lasting) tidyVersions(all []*peerState, j *jobState) {
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
	for _, p := range all {
		if h := p.holds[j.id]; h != nil {
			for _, r := range h.slots {
				used[int(r.version)] = true
			}
		}
	}
	maps.DeleteFunc(l.versions, func(v int, _ *taskstate.Job) bool { return !used[v] })
}

func (l *lasting) ordered() []int { return slices.Sorted(maps.Keys(l.slots)) }

// lasting is what a service or global job has besides: the mirror of what the ledger keeps of it,
// and what was seen of its tasks. A nil one, as batch jobs have, takes note of nothing.
type lasting struct {
	versions map[int]*taskstate.Job
	from     int // version to go back to, 0 = none
	phase    rollout.Phase
	slots    map[int]*lastingSlot
	top      int // the highest slot there is

	stale    bool   // something changed since its step
	proposed int    // decisions of its step that are not applied, nor refused
	moving   int    // so many tasks are still to be moved, because a person asked; see balance
	seen     uint64 // changes of peers its step knew of
	wake     time.Time
}

// lastingSlot is a slot of a lasting job. It waits, or is open on a peer, or has ended; retired
// ones are not wanted.
type lastingSlot struct {
	attempt int // it is in, or waits for
	version int // of that attempt
	pin     taskstate.PeerID
	peer    taskstate.PeerID // open there
	waits   bool
	retired bool
	running time.Time // since when it is seen to run
	ran     time.Time // since when the attempt given to a peer last was seen to run, until another one is
	done    bool      // its attempt ended for good: none follows but by an update
	failed  int       // the version whose attempt failed last, before it had run for the monitor time

	failedAt time.Time // when that version first did; zero: before this core knew of it
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

func (l *lasting) stir() {
	if l != nil {
		l.stale = true
	}
}

// runs packs slots, ascending, into runs of the attempts they are in: whichever comes after those
// is not meant.
func (l *lasting) runs(slots []int) []ledger.Slots {
	var out []ledger.Slots
	for _, n := range slots {
		out = appendRun(out, ledger.Slots{First: n, N: 1, Attempt: l.slots[n].attempt})
	}
	return out
}

func (l *lasting) pinOf(n int) taskstate.PeerID {
	if l == nil || l.slots[n] == nil {
		return ""
	}
	return l.slots[n].pin
}

func (l *lasting) waits(n, attempt, version int) {
	if l == nil {
		return
	}
	s := l.slot(n)
	s.attempt, s.version, s.waits, s.retired, s.done, s.running = attempt, version, true, false, false, time.Time{}
	l.stale = true
}

func (l *lasting) begun(n, attempt, version int, p taskstate.PeerID) {
	if l == nil {
		return
	}
	s := l.slot(n)
	s.attempt, s.version, s.waits, s.retired, s.peer, s.running, s.ran, s.done = attempt, version, false, false, p, time.Time{}, time.Time{}, false
	l.stale = true
}

// ended notes how an attempt ended that was not told to.
func (l *lasting) ended(st *taskstate.Status, version int, job *taskstate.Job, now time.Time) {
	if l == nil {
		return
	}
	s := l.slot(st.Task.Slot)
	s.done = true
	monitor := time.Duration(job.Updating().Monitor) * time.Millisecond
	if st.State != taskstate.Shutdown && (s.ran.IsZero() || now.Sub(s.ran) < monitor) {
		if s.failed != version {
			s.failed, s.failedAt = version, now
		}
	}
}

// failedOn tells whether a version failed on the slot.
func (s *lastingSlot) failedOn(version int) bool { return version > 0 && s.failed == version }

func (l *lasting) retire(n int, retired bool) {
	if l == nil {
		return
	}
	s := l.slot(n)
	if s.retired = retired; retired {
		s.waits = false
	}
}

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

// finished tells whether a job none of whose slots waits or is open has come to its end as the
// ledger sees it: as many as are wanted have ended for good, and no update that goes on, or may be
// told to, could change that. A global job that ended so starts on nobody who comes later.
func (l *lasting) finished(count int) bool {
	wanted := 0
	for _, s := range l.slots {
		if !s.retired {
			wanted++
		}
	}
	return wanted > 0 && wanted >= count && !ledger.RolloutState(l.phase).Active()
}

// derive builds the mirror from the ledger.
func (l *lasting) derive(o *ledger.Outline) {
	if l == nil {
		return
	}
	maps.Copy(l.versions, o.Versions)
	l.from, l.phase = o.Rollout.From, rollout.Phase(o.Rollout.State)
	for _, s := range o.Slots {
		x := l.slot(s.Slot)
		x.attempt, x.version, x.pin, x.retired = s.Attempt, s.Version, s.Pin, s.Retired
		x.done = s.Final != nil
		if x.done && s.Final.State == taskstate.Failed { // for all that is known, before it had run for long
			x.failed = s.Version
		}
	}
}

// leaving is an open task whose worker is to stop it, for another reason than a cancel.
type leaving struct {
	why     taskstate.Reason
	next    int  // version of the attempt that follows
	retired bool // none follows
}

func (j *jobState) leave(slot int, l leaving) {
	if j.leaving == nil {
		j.leaving = map[int]leaving{}
	}
	j.leaving[slot] = l
}

func (j *jobState) leaves(slot int) bool { _, ok := j.leaving[slot]; return ok }

// stopLeaving puts into a Complete set what is to be stopped. Like the tasks of a cancelled job
// they are not granted: a worker that has them ends them with the right reason, one that has not
// says so.
func (h *holding) stopLeaving(f *framer) {
	if len(h.job.leaving) == 0 {
		return
	}
	slots := h.sorted(func(r rec) bool { return !r.is(ended | inherited) })
	for _, n := range slices.DeleteFunc(slots, func(n int) bool { return !h.job.leaves(n) }) {
		f.end(h, n, h.job.leaving[n].why)
	}
}
