package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/taskstate"
)

func TestFinishedJobsAreForgottenByCountAndAgeAndNeverRunAgain(t *testing.T) {
	l := newLog(t)
	l.must(ledger.Command{Set: &ledger.Set{KeepJobs: ledger.KeepFinished}})
	l.must(submit("running", 1), assign("running", "p2", run(1, 1, 1)))
	for i := range ledger.KeepFinished + 5 {
		id := taskstate.JobID(fmt.Sprintf("j%04d", i))
		l.must(submit(id, 1), cancel(id))
	}
	if _, ok := l.Job("j0004"); ok || l.JobCount() != ledger.KeepFinished+1 {
		t.Fatalf("%d jobs are kept", l.JobCount())
	}
	if _, ok := l.Job("j0005"); !ok {
		t.Error("one job too many was forgotten")
	}
	if r := l.one(submit("j0001", 1)); r.Refused != ledger.CodeOver || !r.Existed {
		t.Errorf("a late repetition of a forgotten job's submit: %+v", r)
	}
	if _, _, _, st := l.Assigned(taskstate.Task("j0001", 1, 1)); st != taskstate.Unknown {
		t.Errorf("a forgotten job's task is %v", st)
	}
	l.stamp += ledger.KeepFor + 1
	l.must(ledger.Command{Lead: &ledger.Lead{}})
	if l.JobCount() != 1 {
		t.Errorf("%d jobs are kept for longer than that", l.JobCount())
	}
	l.record("running")
}

func TestHeavyJobsAreForgottenBeforeTheyAreTooMany(t *testing.T) {
	l := newLog(t)
	item := string(make([]byte, 1<<20))
	for i := range 100 {
		c := submit(taskstate.JobID(fmt.Sprintf("j%d", i)), 1)
		c.Submit.Job.Each = []string{item}
		l.must(c, cancel(c.Submit.Job.ID))
	}
	if n := l.JobCount(); n < 30 || n > 64 {
		t.Errorf("%d jobs of a megabyte are kept, at most %d bytes", n, ledger.KeepBytes)
	}
	c := submit("giant", 100)
	for range 100 {
		c.Submit.Job.Each = append(c.Submit.Job.Each, item)
	}
	l.must(c, cancel("giant"))
	if l.JobCount() != 1 {
		t.Errorf("%d jobs are kept beside the giant", l.JobCount()-1)
	}
}

// A loop of a thousand runs does not take last night's sweep away: within a week nothing goes by a
// count that nobody has set.
func TestWhatEndedWithinAWeekIsNotForgottenByCount(t *testing.T) {
	l := newLog(t)
	for i := range 3*ledger.KeepFinished + 1 {
		l.stamp += ledger.KeepSure / (3 * ledger.KeepFinished)
		id := taskstate.JobID(fmt.Sprintf("j%04d", i))
		l.must(submit(id, 1), cancel(id))
	}
	if _, ok := l.Job("j0000"); !ok || l.JobCount() != 3*ledger.KeepFinished+1 {
		t.Fatalf("%d jobs of one week are kept", l.JobCount())
	}
	l.stamp += ledger.KeepSure / 2
	l.must(ledger.Command{Lead: &ledger.Lead{}})
	if n := l.JobCount(); n < 3*ledger.KeepFinished/2 || n > 3*ledger.KeepFinished/2+2 {
		t.Errorf("half a week later %d jobs are kept", n)
	}
	l.must(ledger.Command{Set: &ledger.Set{KeepFor: 10 * ledger.KeepSure}})
	l.stamp += ledger.KeepSure
	l.must(ledger.Command{Lead: &ledger.Lead{}})
	if n := l.JobCount(); n != ledger.KeepFinished {
		t.Errorf("of jobs older than a week %d are kept", n)
	}
}

func TestAPinnedJobIsKeptUntilTheLedgerIsFullOfSuch(t *testing.T) {
	l := newLog(t)
	pin := func(id taskstate.JobID, not bool) ledger.Command {
		return ledger.Command{Pin: &ledger.Pin{Job: id, Not: not}}
	}
	for _, id := range []taskstate.JobID{"a", "b", "c"} {
		l.must(submit(id, 1), cancel(id))
	}
	l.must(pin("b", false))
	l.stamp += 2 * ledger.KeepFor
	l.must(ledger.Command{Lead: &ledger.Lead{}})
	if _, ok := l.Job("b"); !ok || l.JobCount() != 1 || !isGone(l.State, "a") || isGone(l.State, "b") {
		t.Fatalf("%d jobs are kept", l.JobCount())
	}
	again, err := ledger.DecodeState(encode(t, l.State))
	if err != nil {
		t.Fatal(err)
	}
	if j, ok := again.Job("b"); !ok || !j.Pinned() {
		t.Error("a snapshot forgets that it is pinned")
	}
	if r := l.one(pin("a", false)); r.Refused != ledger.CodeUnknown {
		t.Errorf("what is gone is pinned: %+v", r)
	}
	if r := l.one(pin("b", false)); !r.Existed {
		t.Errorf("it is pinned again: %+v", r)
	}
	l.must(pin("b", true))
	if l.JobCount() != 0 {
		t.Error("what is pinned no more is kept")
	}
	item := string(make([]byte, 1<<20))
	for i := range 60 {
		c := submit(taskstate.JobID(fmt.Sprintf("p%d", i)), 1)
		c.Submit.Job.Each = []string{item}
		l.must(c, pin(c.Submit.Job.ID, false), cancel(c.Submit.Job.ID))
	}
	if n := l.JobCount(); n < 30 || n > 33 {
		t.Errorf("%d pinned jobs of a megabyte are kept, at most %d bytes", n, ledger.KeepBytes)
	}
	for i := range ledger.MaxPins {
		l.must(submit(taskstate.JobID(fmt.Sprintf("q%d", i)), 1))
		r := l.one(pin(taskstate.JobID(fmt.Sprintf("q%d", i)), false))
		if i == ledger.MaxPins-1 && r.Refused != ledger.CodeInvalid {
			t.Errorf("more than %d jobs are pinned: %+v", ledger.MaxPins, r)
		}
	}
}

// A week of load: what the ledger holds, in memory and in a snapshot, does not depend on how long
// it has been at work. Jobs that are as large as these reach the bound for their size on the third
// day; smaller ones, of which a week's are kept, never do.
func TestAWeekOfLoadLeavesTheLedgerAsLargeAsADay(t *testing.T) {
	long.Test(t)
	l := newLog(t)
	const perDay = 3000
	item := strings.Repeat("x", 4000)
	size := func() (int, int) { return l.JobCount(), len(encode(t, l.State)) }
	var jobs, bytes int
	for day := range 7 {
		for i := range perDay {
			l.stamp += 24 * 60 * 60 * 1000 / perDay
			id := taskstate.JobID(fmt.Sprintf("d%dj%05d", day, i))
			c := submit(id, 3)
			c.Submit.Job.Each = []string{item, "b", "c"}
			l.must(c, assign(id, "p2", run(1, 3, 1)))
			if i%50 == 0 { // its worker is lost, and another attempt ends it
				l.must(supersede(taskstate.Task(id, 2, 1), true), assign(id, "p1", run(2, 1, 2)))
				l.must(settle("p1", taskstate.Status{Task: taskstate.Task(id, 2, 2), Seq: 1, State: taskstate.Complete}))
			} else {
				l.must(settle("p2", ended(id, 2, taskstate.Complete)))
			}
			l.must(settle("p2", ended(id, 1, taskstate.Complete), ended(id, 3, taskstate.Failed)))
		}
		if day == 3 { // by then as many are forgotten as are remembered to be
			jobs, bytes = size()
		}
	}
	if j, b := size(); j > jobs+jobs/100 || b > bytes+bytes/20 || b > 2*ledger.KeepBytes {
		t.Errorf("after four days %d jobs and a snapshot of %d bytes, after seven %d and %d", jobs, bytes, j, b)
	}
}

func isGone(s *ledger.State, id taskstate.JobID) bool {
	_, gone := s.Forgotten(id)
	return gone
}

// Who asks for what is gone is told why, also by a peer that has it from a snapshot.
func TestWhyAJobWasForgottenIsRemembered(t *testing.T) {
	for what, c := range map[string]struct {
		then func(l *log)
		want ledger.GoneFor
	}{
		"age": {func(l *log) {
			l.stamp += ledger.KeepFor + 1
			l.must(ledger.Command{Lead: &ledger.Lead{}})
		}, ledger.GoneForAge},
		"count": {func(l *log) { l.must(ledger.Command{Set: &ledger.Set{KeepJobs: 1}}) }, ledger.GoneForCount},
		"size": {func(l *log) {
			for i := 0; !isGone(l.State, "a"); i++ {
				id := taskstate.JobID(fmt.Sprintf("big%d", i))
				job := submit(id, 1)
				job.Submit.Job.Run.Noop = nil
				job.Submit.Job.Run.Process = &taskstate.Process{Command: []string{"true"}, Env: map[string]string{"X": strings.Repeat("x", 60_000)}}
				l.must(job, cancel(id))
			}
		}, ledger.GoneForSize},
	} {
		l := newLog(t)
		l.must(submit("a", 1), cancel("a"))
		began := l.stamp
		l.stamp++
		l.must(submit("b", 1), cancel("b"))
		c.then(l)
		why, gone := l.Forgotten("a")
		if !gone || why.For != c.want || why.At != l.Stamp() {
			t.Errorf("%s: %+v, %v", what, why, gone)
		}
		again, err := ledger.DecodeState(encode(t, l.State))
		if err != nil {
			t.Fatal(err)
		}
		if told, gone := again.Forgotten("a"); !gone || told != why {
			t.Errorf("%s: a snapshot says %+v, %v", what, told, gone)
		}
		if n, last := again.ForgottenSince(began); n < 1 || !isGone(again, last) {
			t.Errorf("%s: %d, the last of them %q", what, n, last)
		}
		if n, _ := again.ForgottenSince(l.Stamp()); n != 0 {
			t.Errorf("%s: %d were forgotten after now", what, n)
		}
	}
}

func TestAJobWhoseFilesAnotherTakesIsKeptAsLongAsThatIsNotOver(t *testing.T) {
	takes := func(id taskstate.JobID, from ...taskstate.JobID) ledger.Command {
		c := submit(id, 1)
		for _, f := range from {
			c.Submit.Job.Inputs = append(c.Submit.Job.Inputs, taskstate.Input{Name: string(f), From: f})
		}
		return c
	}
	var last taskstate.JobID
	next := func() taskstate.JobID {
		last += "x"
		return last
	}
	for what, tooMuch := range map[string]func(l *log){
		"old": func(l *log) { l.stamp += 2 * ledger.KeepFor },
		"many": func(l *log) {
			id := next()
			l.must(ledger.Command{Set: &ledger.Set{KeepJobs: 1}}, submit(id, 1), cancel(id))
		},
		"heavy": func(l *log) {
			for range 40 {
				c := submit(next(), 1)
				c.Submit.Job.Each = []string{string(make([]byte, 1<<20))}
				l.must(c, cancel(c.Submit.Job.ID))
			}
		},
	} {
		l := newLog(t)
		l.must(submit("a", 1), submit("b", 1), submit("c", 1), cancel("a"), cancel("b"), cancel("c"))
		l.must(takes("one", "a", "b"), takes("two", "b"), takes("three", "c"), cancel("three"))
		there := func(when string, want ...taskstate.JobID) {
			t.Helper()
			tooMuch(l)
			l.must(ledger.Command{Lead: &ledger.Lead{}})
			back, err := ledger.DecodeState(encode(t, l.State))
			if err != nil {
				t.Fatal(err)
			}
			l.State = back
			for _, id := range []taskstate.JobID{"a", "b", "c", "three"} {
				if _, ok := l.Job(id); ok != slices.Contains(want, id) {
					t.Errorf("%s, %s: %s is there %t", what, when, id, ok)
				}
			}
		}
		there("both go on", "a", "b")
		l.must(cancel("one"))
		there("one goes on", "b")
		l.must(cancel("two"))
		there("none goes on")
	}
}
