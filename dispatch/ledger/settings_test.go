package ledger_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

func set(beat, grace int64) ledger.Command {
	return ledger.Command{Set: &ledger.Set{Beat: beat, Grace: grace}}
}

func TestSettingsAreKeptOneByOneAndSurviveASnapshot(t *testing.T) {
	l := newLog(t)
	if s := l.Settings(); s != (ledger.Settings{}) || s.Full() != (ledger.Settings{Beat: 1000, Grace: 3000, KeepJobs: ledger.KeepFinished, KeepFor: ledger.KeepFor, RequireOrders: ledger.Off}) {
		t.Fatalf("%+v", s)
	}
	before := encode(t, l.State)
	l.must(set(2000, 0))
	if s := l.Settings(); s.Full().Beat != 2000 || s.Full().Grace != 6000 {
		t.Errorf("a grace that nobody set is three beats: %+v", s)
	}
	l.must(set(0, 4000))
	if s := l.Settings(); s != (ledger.Settings{Beat: 2000, Grace: 4000}) {
		t.Errorf("%+v", s)
	}
	if r := l.one(set(2000, 4000)); !r.Existed || r.Refused != "" {
		t.Errorf("a repetition: %+v", r)
	}
	again, err := ledger.DecodeState(encode(t, l.State))
	if err != nil || again.Settings() != l.Settings() || !bytes.Equal(encode(t, again), encode(t, l.State)) {
		t.Errorf("after a snapshot: %+v %v", again.Settings(), err)
	}
	if bytes.Contains(before, []byte{16, 0xa2}) || bytes.Equal(before, encode(t, l.State)) {
		t.Error("settings that nobody made are in the snapshot, or those that somebody made are not")
	}
}

func TestSettingsThatWouldLoseEverySessionAreRefused(t *testing.T) {
	l := newLog(t)
	l.must(set(2000, 4000))
	for _, c := range []ledger.Command{
		set(0, 0), set(-1, 0), set(0, -1), set(99, 0), set(60_001, 600_000), set(0, 600_001), set(0, 3999), set(2001, 0), set(1000, 1999),
	} {
		l.refuses(ledger.CodeInvalid, c)
	}
	if s := l.Settings(); s != (ledger.Settings{Beat: 2000, Grace: 4000}) {
		t.Errorf("%+v", s)
	}
	l.must(set(60_000, 600_000), set(100, 200)) // the bounds themselves
}

func TestWhateverIsSetAGraceHoldsTwoBeats(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		l := newLog(t)
		for range rapid.IntRange(1, 8).Draw(r, "orders") {
			was := l.Settings()
			res := l.one(set(rapid.Int64Range(-10, 70_000).Draw(r, "beat"), rapid.Int64Range(-10, 700_000).Draw(r, "grace")))
			if full := l.Settings().Full(); full.Grace < 2*full.Beat || full.Beat < 100 || full.Beat > 60_000 || full.Grace > 600_000 {
				r.Fatalf("%+v", full)
			}
			if (res.Refused != "" || res.Existed) && l.Settings() != was {
				r.Fatalf("%+v changed %+v to %+v", res, was, l.Settings())
			}
		}
	})
}

func TestWhatIsKeptOfJobsThatAreOverCanBeSet(t *testing.T) {
	l := newLog(t)
	keep := func(jobs int, forMs int64) ledger.Command {
		return ledger.Command{Set: &ledger.Set{KeepJobs: jobs, KeepFor: forMs}}
	}
	over := func(id taskstate.JobID) {
		l.must(submit(id, 1), cancel(id))
	}
	for _, id := range []taskstate.JobID{"a", "b", "c"} {
		over(id)
	}
	l.must(keep(2, 0))
	if n := l.JobCount(); n != 2 {
		t.Fatalf("%d jobs are kept: what is above the new bound goes in the same step", n)
	}
	over("d")
	if _, ok := l.Job("b"); ok || l.JobCount() != 2 {
		t.Error("the oldest was kept, or more than two")
	}
	l.must(keep(0, 1000))
	l.stamp += 1001
	over("e")
	if n := l.JobCount(); n != 1 {
		t.Errorf("%d jobs are kept after their time", n)
	}
	for _, c := range []ledger.Command{keep(-1, 0), keep(ledger.MostKept+1, 0), keep(0, -1), keep(0, 999), keep(0, ledger.MostKeptFor+1)} {
		l.refuses(ledger.CodeInvalid, c)
	}
	again, err := ledger.DecodeState(encode(t, l.State))
	if err != nil || again.Settings() != (ledger.Settings{KeepJobs: 2, KeepFor: 1000}) {
		t.Errorf("%+v %v", again.Settings(), err)
	}
}
