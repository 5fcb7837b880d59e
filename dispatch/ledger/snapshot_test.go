package ledger_test

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// rich is a state with something of everything.
func rich(t *testing.T) *log { return richWith(t, ledger.Lead{Chain: true}) }

func richWith(t *testing.T, lead ledger.Lead) *log {
	l := plain(t)
	l.must(ledger.Command{Lead: &lead})
	web, gl, next, cron := service("web", 3), submit("gl", 0), submit("next", 2), submit("cron", 1)
	gl.Submit.Job.Type, next.Submit.Job.After = taskstate.GlobalJob, []taskstate.JobID{"open", "web"}
	cron.Submit.Job.Schedule = &taskstate.Schedule{Cron: "* * * * *"}
	again := submit("again", 3)
	again.Submit.Job.MaxFails, again.Submit.Job.Restart = 9, &taskstate.Restart{Condition: taskstate.RestartOnFailure, Attempts: 3, Window: 9000}
	run1 := submit("run1", 1)
	run1.Submit.Job.Origin = &taskstate.Origin{Job: "cron", At: 60_000}
	l.must(web, gl, next, cron, again, run1, avail("p1", ledger.AvailDrain), ledger.Command{Skip: &ledger.Skip{Job: "cron", At: 120_000, Run: "run1"}})
	l.must(ledger.Command{Label: &ledger.Label{Peer: "p2", Set: map[string]string{"zone": "b"}, Unset: []string{"rack"}}})
	l.must(assign("again", "p2", run(1, 2, 1)), settle("p2", ended("again", 1, taskstate.Failed), ended("again", 2, taskstate.Complete)))
	l.must(assignOf(1, "web", "p2", run(1, 2, 1)), update(spec(web, 2), 1), renew("web", 2, run(1, 1, 1), run(3, 1, 1)), retire("web", run(2, 1, 1)))
	l.must(ledger.Command{Grow: &ledger.Grow{Job: "gl", Peers: []taskstate.PeerID{"p1", "p2"}}}, retire("gl", run(1, 1, 1)), assignOf(1, "gl", "p2", run(2, 1, 1)))
	l.must(settle("p2", ended("gl", 2, taskstate.Complete)))
	return l
}

// plain is a state with nothing but batch jobs.
func plain(t *testing.T) *log {
	l := newLog(t)
	l.must(invite("t", 2), admit("p3", "t"), ledger.Command{Remove: &ledger.Remove{Peer: "p3"}})
	l.must(submit("done", 2), assign("done", "p2", run(1, 2, 1)), settle("p2", ended("done", 1, taskstate.Complete), ended("done", 2, taskstate.Failed)))
	l.must(submit("cut", 700), assign("cut", "p1", run(600, 3, 1)), supersede(taskstate.Task("cut", 601, 1), true), cancel("cut"))
	l.must(submit("open", 1000), assign("open", "p1", run(300, 3, 1)), supersede(taskstate.Task("open", 301, 1), true))
	return l
}

func TestASnapshotIsRefusedIfAnythingInItIsOff(t *testing.T) {
	b := encode(t, scarred(t).State)
	if _, err := ledger.DecodeState(b); err != nil {
		t.Fatal(err)
	}
	for i := range b { // most changes are noticed; none may panic, and what is let in must encode
		c := bytes.Clone(b)
		c[i] ^= 1
		if s, err := ledger.DecodeState(c); err == nil {
			encode(t, s)
		}
		if _, err := ledger.DecodeState(b[:i]); err == nil {
			t.Fatalf("the first %d of %d bytes were read as a whole state", i, len(b))
		}
	}
	if _, err := ledger.DecodeState(append(b, 0)); err == nil {
		t.Error("a byte too many was not noticed")
	}
}

func TestASnapshotOfAnotherVersionSaysWhatToDo(t *testing.T) {
	b := encode(t, ledger.NewState())
	i := bytes.Index(b, []byte{1, 5}) // field 1, version 5
	b[i+1] = 9
	if _, err := ledger.DecodeState(b); err == nil || !strings.Contains(err.Error(), "update") {
		t.Errorf("version 9: %v", err)
	}
}

func TestAHundredThousandSettledSlotsAreSmall(t *testing.T) {
	const many, most = 100_000, 60
	l := newLog(t)
	var all []taskstate.Status
	for n := 1; n <= many; n++ {
		all = append(all, ended("j", n, taskstate.Complete))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l.must(submit("j", many), assign("j", "p2", run(1, many, 1)), settle("p2", all...))
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / many; got > most {
		t.Errorf("%d bytes per slot, want at most %d", got, most)
	}
	if b := encode(t, l.State); len(b) > 12*many {
		t.Errorf("%d bytes of snapshot per slot", len(b)/many)
	}
}

func TestForgottenJobsAreNotForgottenByASnapshot(t *testing.T) {
	l := newLog(t)
	l.must(submit("j", 1), cancel("j"))
	l.stamp += ledger.KeepFor + 1
	l.must(ledger.Command{Lead: &ledger.Lead{}})
	back, err := ledger.DecodeState(encode(t, l.State))
	if err != nil {
		t.Fatal(err)
	}
	l.State = back
	l.refuses(ledger.CodeOver, submit("j", 1))
}

// FuzzDecodeState holds DecodeState to two promises: it never panics, and what it lets in is a
// state: it encodes to a snapshot of itself and takes further entries.
func FuzzDecodeState(f *testing.F) {
	empty, err := ledger.NewState().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(empty)
	f.Add(encode(f, rich(&testing.T{}).State))
	f.Add(encode(f, scarred(&testing.T{}).State))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ledger.DecodeState(b)
		if err != nil {
			return
		}
		c := encode(t, s)
		again, err := ledger.DecodeState(c)
		if err != nil {
			t.Fatalf("does not read its own snapshot: %v", err)
		}
		if !bytes.Equal(c, encode(t, again)) {
			t.Fatal("a snapshot of a snapshot differs")
		}
		l := &log{State: s, t: t, epoch: s.Epoch(), stamp: s.Stamp()}
		for _, id := range slices.Collect(s.Jobs()) {
			n := id.Slots()
			l.apply(anyUse(id.Job().ID, n)...)
			l.apply(assign(id.Job().ID, "p1", run(1, n, 1)), settle("p1", ended(id.Job().ID, 1, taskstate.Complete)), supersede(taskstate.Task(id.Job().ID, n, 1), true), cancel(id.Job().ID))
		}
		encode(t, s)
		l.apply(submit("new", 2), assign("new", "p2", run(1, 1, 1)), ledger.Command{Remove: &ledger.Remove{Peer: "p2"}})
	})
}

// A snapshot that version 0.1 wrote, with ends that are settled, past and late, becomes what this
// program makes of the same decisions.
func TestASnapshotOfVersion01HoldsWhatItHeld(t *testing.T) {
	b, err := os.ReadFile("testdata/snapshot-0.1.cbor")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.DecodeState(b); err == nil {
		t.Error("it is read as it is")
	}
	now, err := ledger.FromVersion01(b)
	if err != nil {
		t.Fatal(err)
	}
	old, err := ledger.DecodeState(now)
	if err != nil {
		t.Fatal(err)
	}
	l := richWith(t, ledger.Lead{})
	wrong := settle("p1", ended("open", 301, taskstate.Failed))
	wrong.Settle.Incarnation = "i-p1"
	l.apply(wrong, settle("p1", ended("open", 301, taskstate.Failed)))
	if !bytes.Equal(encode(t, old), encode(t, l.State)) {
		t.Error("it is read as something else than what was written")
	}
	if past := l.record("open").Past(301); len(past) != 1 || past[0].Late == nil {
		t.Errorf("the late end is not in it: %+v", past)
	}
	if again, err := ledger.FromVersion01(now); err != nil || !bytes.Equal(again, now) {
		t.Errorf("one of now is changed, or refused: %v", err)
	}
	for i := range b { // whatever a bad disk makes of it: an error or a snapshot, never a panic
		for _, c := range [][]byte{b[:i], append(append(bytes.Clone(b[:i]), b[i]^1), b[i+1:]...)} {
			if now, err := ledger.FromVersion01(c); err == nil {
				_, _ = ledger.DecodeState(now)
			}
		}
	}
	old.Apply(ledger.Entry{Index: old.Index() + 1, Epoch: old.Epoch(), Stamp: old.Stamp(), By: "p1", Commands: []ledger.Command{submit("more", 1)}})
	if _, ok := old.Job("more"); !ok {
		t.Error("it takes no further entries")
	}
}

// anyUse is one of each command about versions and slots, for a job.
func anyUse(id taskstate.JobID, n int) []ledger.Command {
	every := []ledger.Slots{run(1, n, 0)}
	return []ledger.Command{
		{Rollout: &ledger.Rollout{Job: id, State: taskstate.RolloutRollingBack}},
		{Renew: &ledger.Renew{Job: id, Slots: every}},
		{Retire: &ledger.Retire{Job: id, Slots: []ledger.Slots{run(n, 1, 0)}}},
		{Grow: &ledger.Grow{Job: id, N: 1}},
		{Update: &ledger.Update{Job: taskstate.Job{ID: id, Type: taskstate.ServiceJob, Name: "name-" + string(id), Count: 2, Timeout: 5}}},
		{Rollout: &ledger.Rollout{Job: id, State: taskstate.RolloutCompleted}},
		{Renew: &ledger.Renew{Job: id, Slots: every}},
	}
}

// FuzzApply feeds a state an entry that anybody could have written: it must not panic, and what
// comes of it must be a state.
func FuzzApply(f *testing.F) {
	add := func(c ...ledger.Command) {
		b, err := wire.Marshal(ledger.Entry{Epoch: taskstate.At(1, 1), Stamp: 5, By: "p1", Commands: c})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, id := range []taskstate.JobID{"web", "gl", "open", "again", "cut", "next", "cron"} {
		add(anyUse(id, 3)...)
		add(cancel(id), submit(id, 1), assignOf(2, id, "p2", run(1, 3, 1)))
	}
	add(avail("p2", ledger.AvailPause), ledger.Command{Label: &ledger.Label{Peer: "p1", Set: map[string]string{"a": "b"}, Unset: []string{"c"}}})
	add(settle("p2", kept("kept", 4, 3, "p2", "p3"), kept("kept", 1, 3, "p9"), kept("open", 1, 1, "p2")), ledger.Command{Renew: &ledger.Renew{Job: "kept", Slots: []ledger.Slots{run(1, 1, 0)}}})
	add(settle("p2", ended("web", 1, taskstate.Failed), ended("again", 1, taskstate.Complete)), supersede(taskstate.Task("web", 2, 1), true))
	state := encode(f, scarred(&testing.T{}).State)
	f.Fuzz(func(t *testing.T, b []byte) {
		var e ledger.Entry
		if err := wire.Unmarshal(b, &e); err != nil {
			return
		}
		s, err := ledger.DecodeState(state)
		if err != nil {
			t.Fatal(err)
		}
		e.Index = s.Index() + 1
		e.Stamp = min(e.Stamp, 1<<50)
		s.Apply(e)
		c := encode(t, s)
		again, err := ledger.DecodeState(c)
		if err != nil {
			t.Fatalf("%s\nleaves a state that is none: %v", said(e), err)
		}
		if !bytes.Equal(c, encode(t, again)) {
			t.Fatal("a snapshot of a snapshot differs")
		}
	})
}
