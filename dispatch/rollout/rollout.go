package rollout

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/coveyproject/covey/taskstate"
)

// Slot is a slot that is wanted, as it is now.
type Slot struct {
	N       int
	Version int   // of the attempt it has, or gets next
	Leaving bool  // that attempt has not begun: the one before it was told to end
	Running bool  // the attempt of Version runs
	Down    bool  // nothing of it runs for certain: it waits for a peer. Otherwise one that is not Running may do so unheard
	Failing bool  // Version is not the target, and failed here: what runs of it will not for long
	Since   int64 // when it began to run, or ended for good (milliseconds)
	Done    bool  // the attempt of Version has ended, and its job wants no other: it is as it will be
	Surge   bool  // above the number wanted, for as long as the update lasts

	// An attempt of the target ended within the monitor time, or never ran. The slot counts as
	// failed from then on, whatever its restarts come to, and is not waited for.
	Failed   bool
	FailedAt int64 // when it first did (milliseconds)
}

// Input is all a step depends on. Times are milliseconds of one clock.
type Input struct {
	Update taskstate.Update // complete with defaults
	Phase  taskstate.RolloutState
	Target int    // version to reach
	Slots  []Slot // those wanted, the surge included
	Now    int64
}

// Output is what is to be done.
type Output struct {
	Renew   []int                  // slots that get Target now
	Surge   int                    // how many slots above the number wanted there should be
	Fresh   []int                  // slots above that number that are not through with the update: who gives slots up begins with them
	Phase   taskstate.RolloutState // the one to record, RolloutNone to leave it
	Message string                 // why, for people
	Failed  int                    // of an update that is complete: on how many slots it failed
	Wake    int64                  // ask again no later than this; 0: when something changes
}

// Step decides what an update does next.
func Step(in Input) Output {
	if !in.Phase.Moving() {
		return Output{}
	}
	v := survey(in)
	out := Output{Surge: v.surgeWanted(in), Fresh: v.fresh, Wake: v.wake}
	if out.stopForFailures(in, v) {
		return out
	}
	switch {
	case len(v.old)+len(v.stale)+v.flux == 0:
		// It is complete before its surge goes. Those that go then need not be the surge – one that
		// has failed for good goes first – and an update that went on would watch what stays, want
		// its surge back for that, and so on for ever.
		out.Phase, out.Surge, out.Failed = taskstate.RolloutCompleted, v.surge, min(v.failed, v.wanted)
		out.Message = v.done(in, out.Failed)
		if in.Phase == taskstate.RolloutRollingBack {
			out.Phase = taskstate.RolloutRolledBack
		}
	default:
		out.Renew = append(v.next(in), v.stale...)
	}
	return out
}

// view is what a step needs to know of the slots.
type view struct {
	wanted int    // slots without the surge
	old    []Slot // of another version, the surge excluded
	flux   int    // changing, or watched, or in the delay after that; the surge excluded
	moving int    // of these, those that do not run: an update, or a restart, is under way
	broken int    // of old, those that do not run, or not for long, for certain
	failed int    // slots on which Target failed, the surge included
	surge  int    // surge slots there are
	stable int    // surge slots that run Target and have been watched, or failed
	fresh  []int  // surge slots that would be in flux, were they not that
	stale  []int  // surge slots of another version: the update was turned back
	wake   int64
}

func survey(in Input) view {
	var v view
	for _, s := range in.Slots {
		stable, at := s.settled(in)
		if s.Failed {
			v.failed++
		}
		if at > in.Now && (v.wake == 0 || at < v.wake) {
			v.wake = at
		}
		if s.Surge && !s.through(in) {
			v.fresh = append(v.fresh, s.N)
		}
		switch {
		case s.Surge && s.Version == in.Target && stable:
			v.surge, v.stable = v.surge+1, v.stable+1
		case s.Surge:
			v.surge++
			if s.Version != in.Target {
				v.stale = append(v.stale, s.N)
			}
		case s.Version != in.Target:
			v.wanted++
			v.old = append(v.old, s)
			if s.Down || s.Leaving || s.Failing {
				v.broken++
			}
		case !stable:
			v.wanted++
			v.flux++
			if !s.Running {
				v.moving++
			}
		default:
			v.wanted++
		}
	}
	return v
}

// settled tells whether the update is through with a slot, as it has taken its version for good or
// failed, and otherwise when it will be, if time alone decides.
func (s Slot) settled(in Input) (bool, int64) {
	at := s.Since + in.Update.Monitor
	switch {
	case s.Version != in.Target:
		return false, 0
	case s.Failed:
		at = s.FailedAt
	case s.Leaving:
		return false, 0
	case s.Done:
		return true, 0
	case !s.Running:
		return false, 0
	}
	if !s.Surge {
		at += in.Update.Delay
	}
	return in.Now >= at, at
}

// through tells whether a surge slot would count as settled in the place of one that is wanted.
func (s Slot) through(in Input) bool {
	s.Surge = false
	ok, _ := s.settled(in)
	return ok
}

// atOnce is how many slots may be in flux.
func (v view) atOnce(in Input) int {
	if in.Update.Parallelism <= 0 {
		return v.wanted
	}
	return min(in.Update.Parallelism, v.wanted)
}

// surgeWanted is the number of extra slots: as many as may be in flux, until none is left that
// could be.
func (v view) surgeWanted(in Input) int {
	if in.Update.Order != taskstate.StartFirst || len(v.old)+v.flux == 0 {
		return 0
	}
	return v.atOnce(in)
}

// next picks the slots that change now, in order: first those that are down anyway, or that an
// update before told to end, then those of which nobody has heard that they run – should they run
// all the same, one more is down – then those that run a version which failed there, then the
// others.
//
// On the way back to a version that is known to be good, what is broken does not wait for what runs
// to be watched, and what failed goes before what nobody has heard of: that takes nothing down for
// long, and each moment it waits, the bad version fails again.
func (v view) next(in Input) []int {
	room := v.atOnce(in)
	if in.Update.Order == taskstate.StartFirst {
		room = min(room, v.stable)
	}
	room = min(room-v.flux, len(v.old))
	if in.Phase == taskstate.RolloutRollingBack {
		room = max(room, min(v.broken, v.atOnce(in)-v.moving))
	}
	if room <= 0 {
		return nil
	}
	back := in.Phase == taskstate.RolloutRollingBack
	slices.SortFunc(v.old, func(a, b Slot) int {
		return cmp.Or(cmp.Compare(a.cost(back), b.cost(back)), cmp.Compare(a.N, b.N))
	})
	out := make([]int, room)
	for i := range out {
		out[i] = v.old[i].N
	}
	slices.Sort(out)
	return out
}

// cost is how much more may be down when the slot changes.
func (s Slot) cost(back bool) int {
	switch {
	case s.Down || s.Leaving:
		return 0
	case s.Failing && (back || !s.Running):
		return 1
	case !s.Running:
		return 2
	case s.Failing:
		return 3
	}
	return 4
}

// stopForFailures ends the update, or turns it back, if more failed than it bears.
func (out *Output) stopForFailures(in Input, v view) bool {
	if v.failed <= v.tolerated(in) {
		return false
	}
	said := fmt.Sprintf("version %d failed on %d of %s", in.Target, v.failed, slots(v.wanted))
	switch {
	case in.Phase == taskstate.RolloutRollingBack && in.Update.OnFailure != taskstate.ContinueUpdate:
		out.Phase, out.Message = taskstate.RolloutRollbackPaused, said // a rollback is never rolled back
	case in.Update.OnFailure == taskstate.ContinueUpdate:
		return false
	case in.Update.OnFailure == taskstate.RollBackUpdate:
		out.Phase, out.Message = taskstate.RolloutRollingBack, said
	default:
		out.Phase, out.Message = taskstate.RolloutPaused, said
	}
	return true
}

// tolerated is on how many slots the update may fail. A share of them is not lost to rounding: 0.29
// of 100 is 29.
func (v view) tolerated(in Input) int {
	return int(in.Update.MaxFailureRatio*float64(v.wanted) + 1e-9)
}

// done says how the update ended that reached every slot.
func (v view) done(in Input, failed int) string {
	if failed > 0 {
		return fmt.Sprintf("version %d has reached all %s and failed on %d", in.Target, slots(v.wanted), failed)
	}
	return fmt.Sprintf("version %d runs on all %s", in.Target, slots(v.wanted))
}

func slots(n int) string {
	if n == 1 {
		return "1 slot"
	}
	return fmt.Sprintf("%d slots", n)
}
