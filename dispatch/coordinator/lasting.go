package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

func (l *lasting) ordered() []int { return slices.Sorted(maps.Keys(l.slots)) }

// lasting is what a service or global job has besides: the mirror of what the ledger keeps of it,
// and what was seen of its tasks. A nil one, as batch jobs have, takes note of nothing.
type lasting struct {
	versions map[int]*taskstate.Job
	from     int // version to go back to, 0 = none
	phase    taskstate.RolloutState
	slots    map[int]*lastingSlot
	top      int // the highest slot there is

	stale    bool   // something changed since its step
	proposed int    // decisions of its step that are not applied, nor refused
	moving   int    // so many tasks are still to be moved, because a person asked; see balance
	seen     uint64 // changes of peers its step knew of
	wake     time.Time

	crowded time.Time // since when a task of an update that starts new tasks first waits to run; zero: none does
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

func (l *lasting) slot(n int) *lastingSlot {
	s := l.slots[n]
	if s == nil {
		s = &lastingSlot{}
		l.slots[n] = s
		l.top = max(l.top, n)
	}
	return s
}

func (l *lasting) markStale() {
	if l != nil {
		l.stale = true
	}
}

// runs packs slots, ascending, into runs of the attempts they are in: whichever comes after those
// is not meant.
func (l *lasting) runs(slots []int) []ledger.Slots {
	var out []ledger.Slots
	for _, n := range slots {
		out = ledger.AppendSlots(out, ledger.Slots{First: n, N: 1, Attempt: l.slots[n].attempt})
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

// ended notes how an attempt ended that was not told to. How long it ran its worker knows best: its
// end may be decided long after it, and that it runs be heard late.
func (l *lasting) ended(st *taskstate.Status, version int, job *taskstate.Job, now time.Time) {
	if l == nil {
		return
	}
	s := l.slot(st.Task.Slot)
	s.done = true
	never, ran := st.Took == 0 && s.ran.IsZero(), now.Sub(s.ran)
	if st.Took > 0 {
		ran = time.Duration(st.Took) * time.Millisecond
	}
	monitor := time.Duration(job.Updating().Monitor) * time.Millisecond
	if st.State != taskstate.Shutdown && (never || ran < monitor) && s.failed != version {
		s.failed, s.failedAt = version, now
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
	return wanted > 0 && wanted >= count && !l.phase.Active()
}

// derive builds the mirror from the ledger.
func (l *lasting) derive(o *ledger.Outline) {
	if l == nil {
		return
	}
	maps.Copy(l.versions, o.Versions)
	l.from, l.phase = o.Rollout.From, o.Rollout.State
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
