package ledger_test

import (
	"slices"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

// saver is a job of which files are kept.
func saver(id taskstate.JobID, n int) ledger.Command {
	c := submit(id, n)
	c.Submit.Job.Outputs = &taskstate.Outputs{Globs: []string{"*"}}
	return c
}

// kept is an end of which files are kept, by these peers.
func kept(id taskstate.JobID, slot int, root byte, keepers ...taskstate.PeerID) taskstate.Status {
	st := ended(id, slot, taskstate.Complete)
	st.Saved = &taskstate.Saved{Root: piece.Root{root, byte(slot), byte(slot >> 8), byte(slot >> 16)}, Bytes: 1 << 20, Files: 3, Keepers: keepers, Keep: 2}
	return st
}

func TestWhatIsKeptOfAnEndIsTold(t *testing.T) {
	l := newLog(t)
	one, two := kept("j", 1, 7, "p2", "p1"), kept("j", 300, 8, "p2")
	two.Saved.Logs, two.Saved.Why = piece.Root{4}, "nobody else is here"
	l.must(saver("j", 300), assign("j", "p2", run(1, 300, 1)), settle("p2", one, ended("j", 2, taskstate.Complete), two))
	back, err := ledger.DecodeState(encode(t, l.State))
	if err != nil {
		t.Fatal(err)
	}
	again, _ := back.Job("j")
	for what, j := range map[string]*ledger.JobRecord{"the state": l.record("j"), "its snapshot": again} {
		if s := j.Slot(1).Final.Saved; !s.Equal(one.Saved) {
			t.Errorf("%s: slot 1 keeps %+v", what, s)
		}
		if s := j.Slot(2).Final.Saved; s != nil {
			t.Errorf("%s: slot 2 keeps %+v", what, s)
		}
		listed := map[taskstate.TaskID]*taskstate.Saved{}
		for id, s := range j.Saved() {
			listed[id] = s
		}
		if len(listed) != 2 || !listed[taskstate.Task("j", 1, 1)].Equal(one.Saved) || !listed[taskstate.Task("j", 300, 1)].Equal(two.Saved) {
			t.Errorf("%s: listed are %+v", what, listed)
		}
	}
}

func TestAnEndThatIsToldAgainContradictsOnlyIfItKeepsOtherFiles(t *testing.T) {
	l := newLog(t)
	l.must(saver("j", 1), assign("j", "p2", run(1, 1, 1)), settle("p2", kept("j", 1, 7, "p2")))
	l.one(settle("p2", kept("j", 1, 7, "p2")))
	if n := l.record("j").Conflicts(); n != 0 {
		t.Errorf("the same end again: %d contradictions", n)
	}
	l.one(settle("p2", kept("j", 1, 7, "p2", "p1")))
	if n := l.record("j").Conflicts(); n != 0 {
		t.Errorf("one with another keeper, who may have been added since: %d contradictions", n)
	}
	l.one(settle("p2", kept("j", 1, 8, "p2")))
	if n := l.record("j").Conflicts(); n != 1 {
		t.Errorf("one with other files: %d contradictions", n)
	}
}

func TestASlotThatGetsAnotherAttemptKeepsNothing(t *testing.T) {
	l := newLog(t)
	l.must(saver("j", 2), assign("j", "p2", run(1, 2, 1)), settle("p2", kept("j", 1, 7, "p2"), kept("j", 2, 8, "p2")))
	l.must(renew("j", 0, run(1, 1, 1)), assign("j", "p2", run(1, 1, 2)))
	for id := range l.record("j").Saved() {
		if id.Slot != 2 {
			t.Errorf("%v is kept", id)
		}
	}
	if s := l.record("j").Past(1)[0].End.Saved; s != nil {
		t.Errorf("of what is behind it keeps %+v", s)
	}
	later := kept("j", 1, 9, "p2")
	later.Task.Attempt = 2
	l.must(settle("p2", later))
	if s := l.record("j").Slot(1).Final.Saved; !s.Equal(later.Saved) {
		t.Errorf("the next attempt keeps %+v", s)
	}
}

func TestALateSuccessThatCountsSaysWhatItKeeps(t *testing.T) {
	l := newLog(t)
	late := kept("j", 1, 7, "p2")
	l.must(saver("j", 1), assign("j", "p2", run(1, 1, 1)), supersede(taskstate.Task("j", 1, 1), true), settle("p2", late))
	if s := l.record("j").Slot(1).Final.Saved; !s.Equal(late.Saved) {
		t.Errorf("it keeps %+v", s)
	}
}

func TestWhatNoJobAskedForAndWhatCannotBeIsNotKept(t *testing.T) {
	l := newLog(t)
	wrong := kept("j", 1, 7, "p2", "p2")
	l.must(saver("j", 1), submit("plain", 1), assign("j", "p2", run(1, 1, 1)), assign("plain", "p2", run(1, 1, 1)))
	l.must(settle("p2", wrong, kept("plain", 1, 7, "p2")))
	for _, id := range []taskstate.JobID{"j", "plain"} {
		if s := l.record(id).Slot(1).Final; s == nil || s.Saved != nil {
			t.Errorf("%s: %+v", id, s)
		}
	}
}

func TestWhatIsKeptWeighs(t *testing.T) {
	weight := func(job ledger.Command, st ...taskstate.Status) int {
		l := newLog(t)
		l.must(job, assign("j", "p2", run(1, len(st), 1)), settle("p2", st...))
		return l.Kept()
	}
	plain := weight(submit("j", 2), ended("j", 1, taskstate.Complete), ended("j", 2, taskstate.Complete))
	logs := kept("j", 2, 7, "p2", "p1")
	logs.Saved.Logs = piece.Root{1}
	if with := weight(saver("j", 2), kept("j", 1, 7, "p2"), logs); with < plain+2*(48+32) {
		t.Errorf("two ends of which files are kept weigh %d, and %d without", with, plain)
	}
}

func TestCopiesThatAreMadeLaterCountAndOnesThatAreNotNeededMayGo(t *testing.T) {
	l := newLog(t)
	job := saver("j", 3)
	job.Submit.Job.Submitter = "home"
	one := kept("j", 1, 7, "p2")
	one.Saved.Why = "nobody else is here"
	l.must(job, assign("j", "p2", run(1, 3, 1)), settle("p2", one, kept("j", 2, 8, "p2", "p1"), ended("j", 3, taskstate.Complete)))
	say := func(peer taskstate.PeerID, not bool, lost []taskstate.PeerID, slots ...ledger.Slots) ledger.Result {
		return l.one(ledger.Command{Kept: &ledger.Kept{Peer: peer, Job: "j", Slots: slots, Lost: lost, Not: not}})
	}
	want := func(why string, slot int, keepers ...taskstate.PeerID) {
		t.Helper()
		s := l.record("j").Slot(slot).Final.Saved
		if !slices.Equal(s.Keepers, keepers) || len(keepers) >= 2 && s.Why != "" {
			t.Errorf("%s: slot %d keeps %+v, want keepers %v", why, slot, s, keepers)
		}
		back, err := ledger.DecodeState(encode(t, l.State))
		if err != nil {
			t.Fatal(err)
		}
		if back.Kept() != l.Kept() {
			t.Errorf("%s: it weighs %d, and restored %d", why, l.Kept(), back.Kept())
		}
	}
	if r := say("p3", false, nil, run(1, 3, 1)); r.Refused != ledger.CodePartly || len(r.Slots) != 1 || r.Slots[0] != run(3, 1, 1) {
		t.Errorf("of a task that left nothing: %+v", r)
	}
	want("another copy", 1, "p2", "p3")
	want("another copy", 2, "p2", "p1", "p3")
	say("p3", false, nil, run(1, 2, 1))
	want("said again", 1, "p2", "p3")
	say("p3", false, []taskstate.PeerID{"p2", "p3"}, run(1, 1, 1))
	want("one is lost", 1, "p3")
	if r := say("p3", true, nil, run(1, 2, 1)); len(r.Slots) != 1 {
		t.Errorf("copies that are needed: %+v", r)
	}
	say("home", false, nil, run(1, 2, 1))
	want("home", 2, "p2", "p1", "p3", "home")
	if r := say("p1", true, nil, run(2, 1, 1)); r.Refused != ledger.CodeNone {
		t.Errorf("%+v", r)
	}
	want("let go of", 2, "p2", "p3", "home")
	say("p2", true, nil, run(2, 1, 1))
	if r := say("p3", true, nil, run(2, 1, 1)); r.Refused != ledger.CodePartly {
		t.Errorf("the last but one: %+v", r)
	}
	want("let go of", 2, "p3", "home")
	if r := say("home", true, nil, run(2, 1, 1)); r.Refused != ledger.CodePartly {
		t.Errorf("the submitter's: %+v", r)
	}
	if r := say("p3", true, []taskstate.PeerID{"p3"}, run(1, 2, 1)); r.Refused != ledger.CodeNone {
		t.Errorf("copies that are lost: %+v", r)
	}
	want("one of two is lost", 1, "home")
	want("one of two is lost", 2, "home")
	for n := 1; n <= 2; n++ {
		if s := l.record("j").Slot(n).Final.Saved; s.Why == "" {
			t.Errorf("it does not say why there are too few copies: %+v", s)
		}
	}
	say("home", true, []taskstate.PeerID{"home"}, run(1, 1, 1))
	want("the last one is lost", 1)
	say("p1", false, nil, run(2, 1, 1))
	want("made again", 2, "home", "p1")
	if r := say("p1", false, nil, run(1, 1, 2)); r.Refused != ledger.CodePartly {
		t.Errorf("of another attempt: %+v", r)
	}
}

func TestWhatPeersKeepOfAJobIsTheSumOfWhatItsSlotsSay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLog(t)
		n := rapid.IntRange(1, 600).Draw(rt, "slots")
		l.must(saver("j", n), assign("j", "p2", run(1, (n+1)/2, 1)))
		if n > 1 {
			l.must(assign("j", "p1", run((n+1)/2+1, n/2, 1)))
		}
		for k := range rapid.IntRange(0, 12).Draw(rt, "ends") {
			slot, by := rapid.IntRange(1, n).Draw(rt, "slot"), "p2"
			if slot > (n+1)/2 {
				by = "p1"
			}
			keepers := rapid.SliceOfNDistinct(rapid.SampledFrom([]taskstate.PeerID{"p1", "p2", "p3", "p4"}), 0, 4, rapid.ID).Draw(rt, "keepers")
			st := kept("j", slot, byte(k), keepers...)
			st.Saved.Bytes = int64(rapid.IntRange(0, 9).Draw(rt, "bytes"))
			l.one(settle(by, st))
		}
		want := map[taskstate.PeerID]int64{}
		for _, s := range l.record("j").Saved() {
			for _, p := range s.Keepers {
				want[p] += s.Bytes
			}
		}
		got := ledger.KeptBy(l.record("j"))
		for _, p := range []taskstate.PeerID{"p1", "p2", "p3", "p4"} {
			if got[p] != want[p] {
				rt.Fatalf("%s keeps %d, by its slots %d", p, got[p], want[p])
			}
		}
	})
}
