package ledger_test

import (
	"iter"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// onlyFirst takes one element and leaves.
func onlyFirst[T any](seq iter.Seq[T]) (out []T) {
	for x := range seq {
		out = append(out, x)
		if len(out) == 1 {
			break
		}
	}
	return out
}

func TestWhoHasSeenEnoughMayLeave(t *testing.T) {
	l := rich(t)
	j, again := l.record("open"), l.record("again")
	for what, c := range map[string]struct{ all, one []taskstate.TaskID }{
		"open on a peer": {slices.Collect(l.OpenOn("p1")), onlyFirst(l.OpenOn("p1"))},
	} {
		if len(c.all) < 2 || !slices.Equal(c.one, c.all[:1]) {
			t.Errorf("%s: %v of %v", what, c.one, c.all)
		}
	}
	ids := func(list []*ledger.JobRecord) (out []string) {
		for _, j := range list {
			out = append(out, string(j.Job().ID))
		}
		return out
	}
	names := func(list []ledger.Member) (out []string) {
		for _, m := range list {
			out = append(out, m.Name)
		}
		return out
	}
	for what, c := range map[string]struct{ all, one []string }{
		"jobs":    {ids(slices.Collect(l.Jobs())), ids(onlyFirst(l.Jobs()))},
		"members": {names(slices.Collect(l.Members())), names(onlyFirst(l.Members()))},
	} {
		if len(c.all) < 2 || !slices.Equal(c.one, c.all[:1]) {
			t.Errorf("%s: %v of %v", what, c.one, c.all)
		}
	}
	if all, one := slices.Collect(j.PendingSlots()), onlyFirst(j.PendingSlots()); len(all) < 2 || !slices.Equal(one, all[:1]) {
		t.Errorf("pending slots: %v of %v", one, all)
	}
	if one := onlyFirst(j.OpenSlots()); len(one) != 1 || one[0].Slot != 300 {
		t.Errorf("open slots: %+v", one)
	}
	if one := onlyFirst(j.Waiting()); len(one) != 1 || one[0].Slots.First != 1 {
		t.Errorf("waiting: %+v", one)
	}
	if one := onlyFirst(again.PastSlots()); !slices.Equal(one, []int{1}) {
		t.Errorf("slots with a past: %v", one)
	}
}

// What a person means by a word is found by reading all jobs once for each rule, the newest first.
func TestAJobIsFoundAsANaiveReadingFindsIt(t *testing.T) {
	word := rapid.StringMatching(`[ab]{1,3}`)
	rapid.Check(t, func(r *rapid.T) {
		l := newLog(t)
		var accepted []taskstate.Job
		for _, id := range rapid.SliceOfNDistinct(word, 0, 8, rapid.ID).Draw(r, "ids") {
			c := submit(taskstate.JobID(id), 1)
			c.Submit.Job.Name = word.Draw(r, "name")
			l.must(c)
			accepted = append([]taskstate.Job{c.Submit.Job}, accepted...)
		}
		asked := rapid.OneOf(word, rapid.Just("")).Draw(r, "asked")
		var want []string
		for _, rule := range []func(taskstate.Job) bool{
			func(j taskstate.Job) bool { return string(j.ID) == asked },
			func(j taskstate.Job) bool { return j.Name == asked },
			func(j taskstate.Job) bool { return strings.HasPrefix(string(j.ID), asked) },
		} {
			for _, j := range accepted {
				if asked != "" && rule(j) {
					want = append(want, string(j.ID))
				}
			}
			if len(want) > 0 {
				break
			}
		}
		var got []string
		for _, j := range l.FindJobs(asked) {
			got = append(got, string(j.Job().ID))
		}
		if !slices.Equal(got, want) {
			r.Fatalf("%q finds %v, want %v among %v", asked, got, want, accepted)
		}
	})
}

func TestInvitesAreListedAndFoundAsTheyWereMade(t *testing.T) {
	l := newLog(t)
	for i, id := range []string{"z", "a", "m"} {
		l.stamp += int64(i)
		l.must(invite(id, 0))
	}
	l.must(invite("b", 0)) // in the same moment as m
	var ids []string
	for _, r := range l.Invites() {
		ids = append(ids, r.ID)
	}
	if !slices.Equal(ids, []string{"z", "a", "b", "m"}) {
		t.Errorf("the oldest first, of one moment by id: %v", ids)
	}
	if r, ok := l.InviteByKey([]byte("hash of m")); !ok || r.ID != "m" {
		t.Errorf("found %+v, %t", r, ok)
	}
	for _, hash := range [][]byte{nil, {}, []byte("hash of ")} {
		if r, ok := l.InviteByKey(hash); ok {
			t.Errorf("%q finds %+v", hash, r)
		}
	}
	l.must(ledger.Command{Invite: &ledger.Invite{ID: "c", Secret: []byte("hash of m"), Expires: 5000}})
	if r, _ := l.InviteByKey([]byte("hash of m")); r.ID != "c" {
		t.Errorf("of two with one secret every peer must find the same: %s", r.ID)
	}
}
