package ledger_test

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// clone is a state of its own with the same content.
func clone(r *rapid.T, st *ledger.State) *ledger.State {
	out, err := ledger.DecodeState(encode(r, st))
	if err != nil {
		r.Fatal(err)
	}
	return out
}

// next is the entry after the last one, decided in the same moment.
func next(st *ledger.State, cmds ...ledger.Command) ledger.Entry {
	return ledger.Entry{Index: st.Index() + 1, Epoch: st.Epoch(), Stamp: st.Stamp(), By: st.Coordinator(), Commands: cmds}
}

// someState is what a history leaves behind, with what the histories lack: a founded cluster,
// invites, settings, labels.
func someState(r *rapid.T) *ledger.State {
	st := ledger.NewState()
	st.Apply(ledger.Entry{Index: 1, Epoch: taskstate.At(1, 0), Stamp: 1, By: "p1", Commands: []ledger.Command{
		{Found: &ledger.Found{Cluster: "c", Generation: 1, Founder: entryFor("p1", admission.AllRoles()...)}}, invite("t", 1), invite("u", 0),
	}})
	history := anyHistory(r)
	for _, e := range history[:rapid.IntRange(1, len(history)).Draw(r, "how far")] {
		e.Index++
		st.Apply(e)
	}
	return st
}

// anyWord draws a command of any kind, the rarer ones included.
func anyWord(r *rapid.T, st *ledger.State) ledger.Command {
	peer := rapid.SampledFrom([]string{"p1", "p2", "p3", "p4"}).Draw(r, "whom")
	ticket := rapid.SampledFrom([]string{"", "t", "u", "v"}).Draw(r, "ticket")
	switch rapid.SampledFrom([]string{"blind", "blind", "apt", "apt", "found", "admit", "invite", "revoke", "set", "label", "lead", "empty"}).Draw(r, "kind") {
	case "blind":
		return rapid.Custom(anyCommand).Draw(r, "command")
	case "apt":
		return aptCommand(r, st)
	case "found":
		return ledger.Command{Found: &ledger.Found{Cluster: rapid.SampledFrom([]string{"c", "d", ""}).Draw(r, "cluster"), Generation: rapid.Uint64Range(0, 2).Draw(r, "generation"), Founder: entryFor("p1", admission.AllRoles()...)}}
	case "admit":
		return admit(peer, ticket)
	case "invite":
		return invite(ticket, rapid.IntRange(0, 2).Draw(r, "uses"))
	case "revoke":
		return ledger.Command{Revoke: &ledger.Revoke{ID: ticket}}
	case "set":
		return set(rapid.SampledFrom([]int64{0, 1000, 2000, 99}).Draw(r, "beat"), rapid.SampledFrom([]int64{0, 4000, 9000}).Draw(r, "grace"))
	case "label":
		key := rapid.SampledFrom([]string{"zone", "disk", ""}).Draw(r, "label")
		return ledger.Command{Label: &ledger.Label{Peer: peer, Set: map[string]string{key: "x"}, Unset: []string{"rack"}}}
	case "lead":
		return ledger.Command{Lead: &ledger.Lead{}}
	}
	return ledger.Command{}
}

// refusedWhole tells whether all of a command was refused.
func refusedWhole(res ledger.Result) bool {
	return res.Refused != ledger.CodeNone && res.Refused != ledger.CodePartly
}

// TestARefusedCommandChangesNothing: neither does one that answers that it was so already.
func TestARefusedCommandChangesNothing(t *testing.T) {
	codes := map[ledger.Code]int{}
	rapid.Check(t, func(r *rapid.T) {
		st := someState(r)
		for range 12 {
			c := anyWord(r, st)
			with, without := clone(r, st), clone(r, st)
			res := with.Apply(next(st, c))[0]
			without.Apply(next(st))
			codes[res.Refused]++
			if !refusedWhole(res) && !res.Existed {
				st = with
				continue
			}
			if !bytes.Equal(encode(r, with.Unchained()), encode(r, without.Unchained())) {
				r.Fatalf("%s\nanswers %+v and changes\n%s", said(next(st, c)), res, differing(show(with), show(without)))
			}
			if len(res.Again)+len(res.Released)+len(res.Cut)+len(res.Overtaken) > 0 || res.Reopened != nil {
				r.Fatalf("%s\nis refused, and something follows from it: %+v", said(next(st, c)), res)
			}
		}
	})
	for _, c := range []ledger.Code{ledger.CodeNone, ledger.CodeUnknown, ledger.CodeConflict, ledger.CodeInvalid} {
		if codes[c] == 0 {
			t.Errorf("no command was answered %q, so that little is proved: %v", c, codes)
		}
	}
}

// Who does not hear an answer says it again. Renew and Grow have fields that keep them from being
// done twice (Slots.Attempt, First); of the others a second time changes nothing, except that an
// end that contradicts another is counted as often as it comes.
func TestWhatIsSaidTwiceIsDoneOnce(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		st := someState(r)
		for range 12 {
			c := anyWord(r, st)
			if c.Renew != nil || c.Grow != nil {
				continue
			}
			st.Apply(next(st, c))
			again, still := clone(r, st), clone(r, st)
			res := again.Apply(next(st, c))[0]
			still.Apply(next(st))
			if c.Settle != nil && uncounted(again) == uncounted(still) {
				continue
			}
			if !bytes.Equal(encode(r, again.Unchained()), encode(r, still.Unchained())) {
				r.Fatalf("%s\nsaid again answers %+v and changes\n%s", said(next(st, c)), res, differing(show(again), show(still)))
			}
		}
	})
}

// uncounted is show without the ends that contradict others.
func uncounted(st *ledger.State) (out string) {
	for line := range strings.Lines(show(st)) {
		if !strings.HasPrefix(line, "  twice ") {
			out += line
		}
	}
	return out
}

func TestEachCommandSaysWhyItIsRefused(t *testing.T) {
	l := newLog(t)
	long := string(make([]byte, 600))
	scheduled := func(change func(j *taskstate.Job)) ledger.Command {
		c := submit("x", 1)
		c.Submit.Job.Schedule = &taskstate.Schedule{Cron: "* * * * *"}
		change(&c.Submit.Job)
		return c
	}
	tombstone := entryFor("p9", admission.Worker)
	tombstone.Removed = true
	after, origin, tooMany := submit("x", 1), submit("x", 1), submit("x", 1)
	after.Submit.Job.After = []taskstate.JobID{"none"}
	origin.Submit.Job.Origin = &taskstate.Origin{Job: "batch", At: 5}
	for range ledger.MaxAfter + 1 {
		tooMany.Submit.Job.After = append(tooMany.Submit.Job.After, "batch")
	}
	l.must(submit("batch", 2), service("web", 2), invite("t", 1))
	labels := func(set map[string]string, unset ...string) ledger.Command {
		return ledger.Command{Label: &ledger.Label{Peer: "p2", Set: set, Unset: unset}}
	}
	many := map[string]string{}
	for i := range ledger.MaxLabels + 1 {
		many["l"+string(rune('0'+i/10))+string(rune('0'+i%10))] = "x"
	}
	for _, c := range []struct {
		why  string
		cmd  ledger.Command
		code ledger.Code
	}{
		{"a peer without an id", ledger.Command{Admit: &ledger.Admit{}}, ledger.CodeInvalid},
		{"a tombstone is no admission", ledger.Command{Admit: &ledger.Admit{Entry: tombstone}}, ledger.CodeInvalid},
		{"nobody of that name to remove", ledger.Command{Remove: &ledger.Remove{Peer: "p9"}}, ledger.CodeUnknown},
		{"the tombstone of another peer", ledger.Command{Remove: &ledger.Remove{Peer: "p2", Entry: &tombstone}}, ledger.CodeInvalid},
		{"a stranger leaves", ledger.Command{Depart: &ledger.Depart{Peer: "p9"}}, ledger.CodeUnknown},
		{"a stranger registers", ledger.Command{Register: &ledger.Register{Peer: "p9", Incarnation: "i"}}, ledger.CodeUnknown},
		{"no incarnation", ledger.Command{Register: &ledger.Register{Peer: "p2"}}, ledger.CodeInvalid},
		{"an invite without a secret", ledger.Command{Invite: &ledger.Invite{ID: "x"}}, ledger.CodeInvalid},
		{"an invite without an id", ledger.Command{Invite: &ledger.Invite{Secret: []byte("x")}}, ledger.CodeInvalid},
		{"another invite of that id", ledger.Command{Invite: &ledger.Invite{ID: "t", Secret: []byte("other")}}, ledger.CodeConflict},
		{"no such invite", ledger.Command{Revoke: &ledger.Revoke{ID: "x"}}, ledger.CodeUnknown},
		{"a service by the clock", scheduled(func(j *taskstate.Job) { j.Type = taskstate.ServiceJob }), ledger.CodeInvalid},
		{"a schedule that a schedule started", scheduled(func(j *taskstate.Job) { j.Origin = &taskstate.Origin{Job: "batch"} }), ledger.CodeInvalid},
		{"after a job that nobody knows", after, ledger.CodeUnknown},
		{"after more jobs than are kept in mind", tooMany, ledger.CodeInvalid},
		{"started by what has no schedule", origin, ledger.CodeInvalid},
		{"another service of that name", named(service("web2", 1), "name-web"), ledger.CodeConflict},
		{"nothing to cancel", cancel("none"), ledger.CodeUnknown},
		{"a task of no job", supersede(taskstate.Task("none", 1, 1), true), ledger.CodeUnknown},
		{"a task beyond the slots", supersede(taskstate.Task("batch", 3, 1), true), ledger.CodeUnknown},
		{"a task that nobody has", supersede(taskstate.Task("batch", 1, 1), true), ledger.CodeUnknown},
		{"an update of a batch job", ledger.Command{Update: &ledger.Update{Job: submit("batch", 2).Submit.Job}}, ledger.CodeInvalid},
		{"a rollout of a batch job", ledger.Command{Rollout: &ledger.Rollout{Job: "batch", State: taskstate.RolloutPaused}}, ledger.CodeInvalid},
		{"back to a version that never was", ledger.Command{Rollout: &ledger.Rollout{Job: "web", State: taskstate.RolloutRollingBack}}, ledger.CodeUnknown},
		{"a pause of nothing", ledger.Command{Rollout: &ledger.Rollout{Job: "web", State: taskstate.RolloutPaused}}, ledger.CodeConflict},
		{"a rollout of another version", ledger.Command{Rollout: &ledger.Rollout{Job: "web", State: taskstate.RolloutUpdating, Version: 7}}, ledger.CodeConflict},
		{"a run skipped by what has no schedule", ledger.Command{Skip: &ledger.Skip{Job: "batch", At: 5}}, ledger.CodeInvalid},
		{"a run of nothing skipped", ledger.Command{Skip: &ledger.Skip{Job: "none", At: 5}}, ledger.CodeUnknown},
		{"no such word about a peer", avail("p2", "asleep"), ledger.CodeInvalid},
		{"a grace before now", ledger.Command{Avail: &ledger.SetAvailability{Peer: "p2", Availability: ledger.AvailDrain, Grace: -1}}, ledger.CodeInvalid},
		{"a word about a stranger", avail("p9", ledger.AvailDrain), ledger.CodeUnknown},
		{"no labels at all", labels(nil), ledger.CodeInvalid},
		{"a label without a name", labels(map[string]string{"": "x"}), ledger.CodeInvalid},
		{"a label too long to keep", labels(map[string]string{"a": long}), ledger.CodeInvalid},
		{"no name to take away", labels(nil, ""), ledger.CodeInvalid},
		{"a name too long to take away", labels(nil, long), ledger.CodeInvalid},
		{"more labels than are kept", labels(many), ledger.CodeInvalid},
		{"labels of a stranger", ledger.Command{Label: &ledger.Label{Peer: "p9", Unset: []string{"a"}}}, ledger.CodeUnknown},
	} {
		before := show(l.State)
		if r := l.one(c.cmd); r.Refused != c.code {
			t.Errorf("%s: answered %+v, want %q", c.why, r, c.code)
		}
		if now := show(l.State); now != before {
			t.Errorf("%s: it changes\n%s", c.why, differing(now, before))
		}
	}
}

// named gives what is submitted another name.
func named(c ledger.Command, name string) ledger.Command {
	c.Submit.Job.Name = name
	return c
}
