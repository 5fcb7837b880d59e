package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator/clock"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/rollout"
	"github.com/coveyproject/covey/taskstate"
)

// upkeep brings services and global jobs nearer to what is wanted of them.
type upkeep struct {
	clock    *clock.Clock
	agenda   *agenda
	outbox   *outbox
	peers    *peers
	jobs     *jobs
	sessions *sessions
	placer   *placer

	born uint64 // index the core was built at: no command of its own had seen less
}

// refusedPause is how long a job's step rests when the ledger refused what it came to, and nothing
// else changes: by what this core knows it would come to the same again, at once and for ever.
const refusedPause = time.Second

// stepAgain has a job's step look again at a time, told as to a rollout.
func (u *upkeep) stepAgain(l *lasting, at int64) {
	when := u.clock.After(at)
	if l.wake.IsZero() || when.Before(l.wake) {
		l.wake = when
	}
	u.clock.WakeAt(l.wake)
}

func (u *upkeep) renew(j *jobState, slots []int, version int, why taskstate.Reason) {
	if len(slots) > 0 {
		u.decideFor(j, ledger.Command{Renew: &ledger.Renew{Job: j.id, Slots: j.lasting.runs(slots), Version: version, Reason: why}})
	}
}

// applied follows the decisions about what a job is to be – its spec, how far its tasks follow
// that, which of them there are – and about attempts that somebody asks for. What they mean, the
// ledger says in Result.Now. It tells whether the command was one.
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
		l.from, l.phase = o.Rollout.From, o.Rollout.State
	}
	if other {
		u.respec(j, o)
	} else if cmd.Rollout != nil && l.phase.Moving() {
		for _, s := range l.slots {
			s.failed = 0 // from here on it counts anew
		}
	}
	if cmd.Renew != nil && cmd.Renew.Reason == taskstate.ReasonRetried {
		j.faults = nil
		j.owners.Forget()
		u.agenda.place() // the person who asks may have mended the peer
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
	u.agenda.place() // its order may have been renewed
	l := j.lasting
	if l == nil {
		for _, w := range j.groups {
			w.body = o.Job
		}
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

// Move is a task of a service that would be better elsewhere.
type Move struct {
	Slot    int              `cbor:"1,keyasint"`
	Attempt int              `cbor:"2,keyasint"`
	From    taskstate.PeerID `cbor:"3,keyasint"`
	To      taskstate.PeerID `cbor:"4,keyasint"` // as it looks now: where it goes is decided when it has ended
}

func (u *upkeep) rebalance(id taskstate.JobID) (moves []Move, busy bool) {
	j := u.jobs.of(id)
	if j == nil || j.lasting == nil || j.job.Type != taskstate.ServiceJob || j.cancelled {
		return nil, false
	}
	if len(j.leaving)+len(j.inflight)+j.pending() > 0 || u.peers.undecided(id) {
		return nil, true
	}
	var out []Move
	for _, m := range u.placer.rebalance(j) {
		h := u.peers.of(m.From).holds[id]
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

func (u *upkeep) onBalance(b Balance) {
	if j := u.jobs.of(b.Job); j != nil && j.lasting != nil {
		j.lasting.moving, j.lasting.stale = b.Moves, true
	}
}

// balance goes on moving tasks of a service, no more at once than its update may, and only when
// those before have run for as long as an update would watch them. It looks anew each time where
// tasks should be, and never moves more than it was asked to.
func (u *upkeep) balance(j *jobState, in rollout.Input) {
	l := j.lasting
	if l.moving == 0 {
		return
	}
	if in.Phase.Moving() {
		l.moving = 0 // the update gives every task its place
		return
	}
	room, wake := u.mayMove(in)
	if wake > 0 {
		u.stepAgain(l, wake)
	}
	if room <= 0 {
		return
	}
	moves, busy := u.rebalance(j.id)
	if busy {
		u.stepAgain(l, u.clock.Elapsed(u.clock.Now().Add(refusedPause)))
		return
	}
	moves = moves[:min(len(moves), room, l.moving)]
	if l.moving -= len(moves); len(moves) == 0 {
		l.moving = 0
	}
	var slots []int
	for _, m := range moves {
		slots = append(slots, m.Slot)
	}
	u.renew(j, slots, 0, taskstate.ReasonMoved)
}

// mayMove is how many slots may be stopped now so that no more are down than an update may have
// down, and when to ask again, 0 if time alone changes nothing.
func (u *upkeep) mayMove(in rollout.Input) (room int, wake int64) {
	room = in.Update.Parallelism
	if room <= 0 {
		room = len(in.Slots)
	}
	for _, s := range in.Slots {
		settled := s.Since + in.Update.Monitor + in.Update.Delay
		switch {
		case s.Done && !s.Leaving:
		case s.Leaving || !s.Running:
			room--
		case in.Now < settled:
			if room--; wake == 0 || settled < wake {
				wake = settled
			}
		}
	}
	return room, wake
}

// decideFor has a command decided that the job's step came to, from what it knows now: should that
// be another by then, it is dropped.
func (u *upkeep) decideFor(j *jobState, cmd ledger.Command) {
	_, seen := about(&cmd)
	*seen = u.clock.Index()
	u.outbox.decide(cmd)
	j.lasting.proposed++
}
