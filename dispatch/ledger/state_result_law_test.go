package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// TestResultsTellWhatFollowsFromACommand: a peer that follows the ledger by entries and results
// alone knows every slot that waits again, and every job that was released or cut.
func TestResultsTellWhatFollowsFromACommand(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		st := ledger.NewState()
		for _, e := range anyHistory(r) {
			commands := e.Commands
			for i := range commands { // one by one: what the first does the second may undo
				e.Commands = commands[i : i+1]
				before := standing(st)
				checkResult(r, e, before, st, st.Apply(e)[0])
			}
		}
	})
}

// stood is how a job stood before a command.
type stood struct {
	slots              []ledger.SlotRecord
	blocked, cancelled bool
}

func standing(st *ledger.State) map[taskstate.JobID]stood {
	out := map[taskstate.JobID]stood{}
	for j := range st.Jobs() {
		s := stood{blocked: len(j.Blocked()) > 0}
		_, _, s.cancelled = j.Cancelled()
		for n := 1; n <= j.Slots(); n++ {
			s.slots = append(s.slots, j.Slot(n))
		}
		out[j.Job().ID] = s
	}
	return out
}

func checkResult(r *rapid.T, e ledger.Entry, before map[taskstate.JobID]stood, st *ledger.State, got ledger.Result) {
	again, released, cut := map[string]bool{}, map[taskstate.JobID]bool{}, map[taskstate.JobID]bool{}
	for _, a := range got.Again {
		j, _ := st.Job(a.Job)
		for n := a.Slots.First; n < a.Slots.First+a.Slots.N; n++ {
			s := j.Slot(n)
			if !s.Pending() || s.Attempt != a.Slots.Attempt || s.Version != a.Version || s.NotBefore != a.NotBefore {
				if _, _, cancelled := j.Cancelled(); !cancelled {
					r.Fatalf("%s\nsays again %+v, and slot %d is %+v", said(e), a, n, s)
				}
			}
			again[fmt.Sprint(a.Job, n)] = true
		}
	}
	for _, id := range got.Released {
		released[id] = true
	}
	for _, id := range got.Cut {
		cut[id] = true
	}
	for j := range st.Jobs() {
		id := j.Job().ID
		was, had := before[id]
		_, _, cancelled := j.Cancelled()
		if want := had && was.blocked && len(j.Blocked()) == 0 && !cancelled && !j.State().Final(); want != released[id] {
			r.Fatalf("%s\nreleased %v, and %s was blocked %t, is by %v", said(e), got.Released, id, was.blocked, j.Blocked())
		}
		if want := cancelled && !was.cancelled && e.Commands[0].Cancel == nil; want != cut[id] && e.Commands[0].Cancel == nil {
			r.Fatalf("%s\ncut %v, and %s was cancelled %t, is %t", said(e), got.Cut, id, was.cancelled, cancelled)
		}
		for n := 1; n <= j.Slots(); n++ {
			s, old := j.Slot(n), ledger.SlotRecord{}
			if n <= len(was.slots) {
				old = was.slots[n-1]
			}
			if e.Commands[0].Submit == nil && s.Pending() && (!old.Pending() || s.Attempt != old.Attempt || s.Version != old.Version || s.NotBefore != old.NotBefore) && !again[fmt.Sprint(id, n)] {
				if !relabelled(e.Commands[0]) {
					r.Fatalf("%s\nslot %d waits as %+v, was %+v, and the result says %+v", said(e), n, s, old, got)
				}
			}
		}
	}
}

// relabelled tells whether slots may be of another version after a command, although nothing
// happened to them.
func relabelled(c ledger.Command) bool { return c.Update != nil || c.Rollout != nil }

// TestASlotOnlyMovesForward: attempts go up, an attempt that has its end keeps it, what is retired
// is opened by nothing but a Renew.
func TestASlotOnlyMovesForward(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		st := ledger.NewState()
		for _, e := range anyHistory(r) {
			before := standing(st)
			st.Apply(e)
			renewed := slices.ContainsFunc(e.Commands, func(c ledger.Command) bool { return c.Renew != nil })
			for j := range st.Jobs() {
				for i, old := range before[j.Job().ID].slots {
					now := j.Slot(i + 1)
					checkStep(r, e, old, now, renewed)
				}
			}
		}
	})
}

func checkStep(r *rapid.T, e ledger.Entry, old, now ledger.SlotRecord, renewed bool) {
	late := now.Final != nil && now.Final.State == taskstate.Complete // an earlier attempt may have come back
	both := late && renewed                                           // by one entry a slot goes on to its next attempt, and back
	switch {
	case now.Attempt < old.Attempt && !late:
		r.Fatalf("%s\nslot %+v went back to %+v", said(e), old, now)
	case now.Attempt == old.Attempt && old.Final != nil && !both && (now.Final == nil || !sameEnd(*now.Final, *old.Final)):
		r.Fatalf("%s\nthe end of %+v became %+v", said(e), old, now)
	case old.Retired && !old.Open && !renewed && (!now.Retired || now.Open):
		r.Fatalf("%s\nretired %+v became %+v", said(e), old, now)
	case now.Pin != old.Pin, now.Version < old.Version && !renewed && now.Version != old.Next:
		r.Fatalf("%s\n%+v became %+v", said(e), old, now)
	case now.Retired && now.Open && now.Leaving == "", now.Leaving != "" && !now.Open:
		r.Fatalf("%s\nmakes no sense: %+v", said(e), now)
	}
}
