package ledger_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// log applies entries one after the other, at a stamp the test may set.
type log struct {
	*ledger.State
	t     *testing.T
	epoch taskstate.Epoch
	stamp int64
}

// newLog is a founded cluster: p1 (every role) and p2 (worker) are registered in incarnation i1.
func newLog(t *testing.T) *log {
	l := &log{State: ledger.NewState(), t: t, epoch: taskstate.At(1, 1), stamp: 1000}
	l.must(
		ledger.Command{Found: &ledger.Found{Cluster: "c", Generation: 1, Founder: entryFor("p1", admission.AllRoles()...)}},
		ledger.Command{Admit: &ledger.Admit{Entry: entryFor("p2", admission.Worker)}},
		ledger.Command{Register: &ledger.Register{Peer: "p1", Incarnation: "i1"}},
		ledger.Command{Register: &ledger.Register{Peer: "p2", Incarnation: "i1"}},
	)
	return l
}

func (l *log) apply(c ...ledger.Command) []ledger.Result {
	return l.Apply(ledger.Entry{Index: l.Index() + 1, Epoch: l.epoch, Stamp: l.stamp, By: "p1", Commands: c})
}

func (l *log) one(c ledger.Command) ledger.Result { return l.apply(c)[0] }

func (l *log) must(c ...ledger.Command) {
	l.t.Helper()
	for i, r := range l.apply(c...) {
		if r.Refused != ledger.CodeNone {
			l.t.Fatalf("command %d was refused: %+v", i, r)
		}
	}
}

func (l *log) refuses(want ledger.Code, c ledger.Command) {
	l.t.Helper()
	if r := l.one(c); r.Refused != want {
		l.t.Errorf("answered %+v, want %q", r, want)
	}
}

func (l *log) record(id taskstate.JobID) *ledger.JobRecord {
	l.t.Helper()
	j, ok := l.Job(id)
	if !ok {
		l.t.Fatalf("no job %s", id)
	}
	return j
}

func submit(id taskstate.JobID, count int) ledger.Command {
	return ledger.Command{Submit: &ledger.Submit{Job: taskstate.Job{ID: id, Name: "name-" + string(id), Type: taskstate.BatchJob, Count: count}}}
}

func assign(id taskstate.JobID, peer string, runs ...ledger.Slots) ledger.Command {
	return ledger.Command{Assign: &ledger.Assign{Job: id, Peer: peer, Incarnation: "i1", Slots: runs}}
}

func run(first, n, attempt int) ledger.Slots {
	return ledger.Slots{First: first, N: n, Attempt: attempt}
}

func ended(id taskstate.JobID, slot int, st taskstate.State) taskstate.Status {
	return taskstate.Status{Task: taskstate.Task(id, slot, 1), Seq: 2, State: st, At: 77}
}

func settle(peer string, statuses ...taskstate.Status) ledger.Command {
	return ledger.Command{Settle: &ledger.Settle{Peer: peer, Incarnation: "i1", Statuses: statuses}}
}

func supersede(t taskstate.TaskID, again bool) ledger.Command {
	return ledger.Command{Supersede: &ledger.Supersede{Task: t, Reason: taskstate.ReasonUnreachable, Again: again}}
}

func cancel(id taskstate.JobID) ledger.Command {
	return ledger.Command{Cancel: &ledger.Cancel{Job: id, Reason: "enough"}}
}

func TestARepeatedSubmitAnswersTheSameAndChangesNothing(t *testing.T) {
	l := newLog(t)
	l.must(submit("j", 3), assign("j", "p2", run(1, 1, 1)))
	if r := l.one(submit("j", 3)); !r.Existed || r.Refused != "" {
		t.Errorf("repetition: %+v", r)
	}
	if r := l.one(submit("j", 4)); !r.Existed || r.Refused != ledger.CodeConflict {
		t.Errorf("another job under the same id: %+v", r)
	}
	if c := l.record("j").Counts(); c != (ledger.Counts{Pending: 2, Open: 1}) {
		t.Errorf("counts %+v", c)
	}
	for name, job := range map[string]taskstate.Job{
		"no id": {Count: 1}, "no slots": {ID: "x"}, "too many slots": {ID: "x", Count: ledger.MaxSlots + 1},
		"items that do not match": {ID: "x", Count: 2, Each: []string{"a"}},
	} {
		if r := l.one(ledger.Command{Submit: &ledger.Submit{Job: job}}); r.Refused != ledger.CodeInvalid {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestAnAssignThatNoLongerHoldsIsRefusedSlotBySlot(t *testing.T) {
	l := newLog(t)
	l.must(submit("j", 10), assign("j", "p1", run(3, 2, 1)), supersede(taskstate.Task("j", 4, 1), true))
	r := l.one(assign("j", "p2", run(1, 10, 1)))
	if want := []ledger.Slots{run(3, 1, 1), run(4, 1, 1)}; r.Refused != ledger.CodePartly || !slices.Equal(r.Slots, want) {
		t.Fatalf("refused %+v, want slots %v", r, want)
	}
	if c := l.record("j").Counts(); c != (ledger.Counts{Pending: 1, Open: 9}) {
		t.Errorf("counts %+v", c)
	}
	l.refuses(ledger.CodeUnknown, assign("nope", "p2", run(1, 1, 1)))
	l.refuses(ledger.CodeUnknown, assign("j", "stranger", run(4, 1, 2)))
	l.refuses(ledger.CodeUnknown, ledger.Command{Assign: &ledger.Assign{Job: "j", Peer: "p2", Incarnation: "i0", Slots: []ledger.Slots{run(4, 1, 2)}}})
	l.refuses(ledger.CodePartly, assign("j", "p2", run(11, 1, 1)))
	l.refuses(ledger.CodePartly, assign("j", "p2", run(int(^uint(0)>>1), 5, 1)))
	l.must(cancel("j"))
	l.refuses(ledger.CodeOver, assign("j", "p2", run(4, 1, 2)))
}

func TestASettledEndStandsAndADifferentOneIsCounted(t *testing.T) {
	l := newLog(t)
	l.must(submit("j", 2), assign("j", "p2", run(1, 2, 1)), settle("p2", ended("j", 1, taskstate.Complete)))
	if r := l.one(settle("p2", ended("j", 1, taskstate.Complete))); r.Refused != ledger.CodePartly || len(r.Statuses) != 1 {
		t.Errorf("a repetition is listed: %+v", r)
	}
	if n := l.record("j").Conflicts(); n != 0 {
		t.Errorf("a repetition counts as %d conflicts", n)
	}
	l.one(settle("p2", ended("j", 1, taskstate.Failed)))
	if j := l.record("j"); j.Conflicts() != 1 || j.Slot(1).Final.State != taskstate.Complete {
		t.Errorf("%d conflicts, end %v", j.Conflicts(), j.Slot(1).Final.State)
	}
}

func TestOnlyTheAuthorEndsATask(t *testing.T) {
	l := newLog(t)
	l.must(submit("j", 2), assign("j", "p2", run(1, 1, 1)))
	other := settle("p2", ended("j", 1, taskstate.Complete))
	other.Settle.Incarnation = "i0"
	attempt2 := ended("j", 1, taskstate.Complete)
	attempt2.Task.Attempt = 2
	for name, c := range map[string]ledger.Command{
		"another peer":          settle("p1", ended("j", 1, taskstate.Complete)),
		"another incarnation":   other,
		"no end":                settle("p2", ended("j", 1, taskstate.Running)),
		"another attempt":       settle("p2", attempt2),
		"a slot nobody has":     settle("p2", ended("j", 2, taskstate.Complete)),
		"a slot that is not":    settle("p2", ended("j", 3, taskstate.Complete)),
		"a job that is not":     settle("p2", ended("k", 1, taskstate.Complete)),
		"slots below the first": settle("p2", ended("j", 0, taskstate.Complete)),
	} {
		if r := l.one(c); r.Refused != ledger.CodePartly || len(r.Statuses) != 1 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if c := l.record("j").Counts(); c != (ledger.Counts{Pending: 1, Open: 1}) {
		t.Errorf("counts %+v", c)
	}
}

func TestASupersededSlotWaitsInTheNextAttempt(t *testing.T) {
	l := newLog(t)
	l.must(submit("j", 3), assign("j", "p2", run(1, 3, 1)), supersede(taskstate.Task("j", 2, 1), true))
	j := l.record("j")
	if got := slices.Collect(j.PendingSlots()); !slices.Equal(got, []ledger.Slots{run(2, 1, 2)}) {
		t.Fatalf("pending %v", got)
	}
	l.refuses(ledger.CodePartly, settle("p2", ended("j", 2, taskstate.Failed)))
	early := ended("j", 2, taskstate.Complete)
	early.Task.Attempt = 2
	if l.refuses(ledger.CodePartly, settle("p2", early)); j.Conflicts() != 0 {
		t.Errorf("an end of an attempt nobody has counts as %d conflicts", j.Conflicts())
	}
	l.refuses(ledger.CodeOver, supersede(taskstate.Task("j", 2, 1), true))
	l.refuses(ledger.CodeUnknown, supersede(taskstate.Task("j", 2, 2), true))
	l.refuses(ledger.CodeUnknown, supersede(taskstate.Task("j", 9, 1), true))
	end := taskstate.Status{Task: taskstate.Task("j", 3, 1), State: taskstate.Rejected, At: 5, Exit: taskstate.NoExit, Reason: taskstate.ReasonDropped}
	l.must(ledger.Command{Supersede: &ledger.Supersede{Task: end.Task, Reason: end.Reason, Status: &end}})
	if got := j.Slot(3).Final; got == nil || got.State != taskstate.Rejected || got.Reason != taskstate.ReasonDropped {
		t.Errorf("the coordinator's end became %+v", got)
	}
}

func TestTheStateOfAJobFollowsFromItsSlots(t *testing.T) {
	for _, c := range []struct {
		name string
		do   []ledger.Command
		want taskstate.State
	}{
		{"nothing assigned", nil, taskstate.Pending},
		{"one assigned", []ledger.Command{assign("j", "p2", run(1, 1, 1))}, taskstate.Running},
		{"one done, one waits", []ledger.Command{assign("j", "p2", run(1, 1, 1)), settle("p2", ended("j", 1, taskstate.Complete))}, taskstate.Running},
		{"all done", []ledger.Command{assign("j", "p2", run(1, 2, 1)), settle("p2", ended("j", 1, taskstate.Complete), ended("j", 2, taskstate.Complete))}, taskstate.Complete},
		{"one failed", []ledger.Command{assign("j", "p2", run(1, 2, 1)), settle("p2", ended("j", 1, taskstate.Complete), ended("j", 2, taskstate.Failed))}, taskstate.Failed},
		{"cancelled before anything", []ledger.Command{cancel("j")}, taskstate.Shutdown},
		{"cancelled with one open", []ledger.Command{assign("j", "p2", run(1, 1, 1)), cancel("j")}, taskstate.Running},
		{"cancelled, all done anyway", []ledger.Command{assign("j", "p2", run(1, 2, 1)), cancel("j"), settle("p2", ended("j", 1, taskstate.Complete), ended("j", 2, taskstate.Complete))}, taskstate.Complete},
		{"cancelled, given up", []ledger.Command{assign("j", "p2", run(1, 2, 1)), cancel("j"), supersede(taskstate.Task("j", 1, 1), true), settle("p2", ended("j", 2, taskstate.Complete))}, taskstate.Shutdown},
	} {
		l := newLog(t)
		l.must(submit("j", 2))
		l.must(c.do...)
		j := l.record("j")
		if _, over := j.Ended(); j.State() != c.want || over != c.want.Final() {
			t.Errorf("%s: %v, over %t; want %v", c.name, j.State(), over, c.want)
		}
	}
}

func TestACancelCostsNothingPerSlot(t *testing.T) {
	l := newLog(t)
	const many = 1_000_000
	l.must(submit("j", many))
	if n := testing.AllocsPerRun(1, func() { l.one(cancel("j")) }); n > 20 {
		t.Errorf("cancelling a job of a million slots allocated %v times", n)
	}
	j := l.record("j")
	if c := j.Counts(); c.Shutdown != many || j.State() != taskstate.Shutdown {
		t.Errorf("counts %+v, state %v", c, j.State())
	}
	if r := j.Slot(many); r.Final == nil || r.Final.State != taskstate.Shutdown || r.Final.Message != "enough" {
		t.Errorf("the last slot: %+v", r)
	}
	if r := l.one(cancel("j")); !r.Existed {
		t.Errorf("a second cancel: %+v", r)
	}
	l.refuses(ledger.CodeUnknown, cancel("nope"))
	if b, err := l.Encode(); err != nil || len(b) > 1500 {
		t.Errorf("its snapshot has %d bytes: %v", len(b), err)
	}
}

func TestAnOlderEpochChangesNothing(t *testing.T) {
	l := newLog(t)
	l.epoch = taskstate.At(1, 5)
	l.must(ledger.Command{Lead: &ledger.Lead{}})
	before := show(l.State)
	l.epoch, l.stamp = taskstate.At(1, 4), 9999
	for _, r := range l.apply(submit("j", 1), cancel("j"), ledger.Command{Remove: &ledger.Remove{Peer: "p2"}}) {
		if !reflect.DeepEqual(r, ledger.Result{Refused: ledger.CodeStale}) {
			t.Errorf("answered %+v", r)
		}
	}
	if show(l.State) != before || l.Stamp() != 1000 || l.Epoch() != taskstate.At(1, 5) || l.Coordinator() != "p1" {
		t.Error("the old coordinator's entry left a mark")
	}
	if l.Index() != 3 {
		t.Errorf("index %d: a refused entry is an entry", l.Index())
	}
}

func TestTheStampNeverGoesBack(t *testing.T) {
	l := newLog(t)
	l.stamp = 500
	l.must(submit("j", 1))
	if at := l.record("j").Accepted(); at != 1000 || l.Stamp() != 1000 {
		t.Errorf("accepted at %d by a clock that went back, stamp %d", at, l.Stamp())
	}
}

func TestAJobIsFoundByIdNameAndPrefix(t *testing.T) {
	l := newLog(t)
	l.must(submit("abc1", 1), submit("abc2", 1), submit("xyz1", 1))
	again := submit("xyz2", 1)
	again.Submit.Job.Name = "name-abc1"
	l.must(again)
	for q, want := range map[string]string{
		"abc1": "[abc1]", "ab": "[abc2 abc1]", "x": "[xyz2 xyz1]", "name-abc1": "[xyz2 abc1]", "name": "[]", "": "[]", "abc12": "[]",
	} {
		got := []taskstate.JobID{}
		for _, j := range l.FindJobs(q) {
			got = append(got, j.Job().ID)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%q finds %v, want %s", q, got, want)
		}
	}
}

func TestACommandWithNothingInItIsInvalid(t *testing.T) {
	newLog(t).refuses(ledger.CodeInvalid, ledger.Command{})
}

func TestASlotRemembersItsNewestAttemptsThatWereGivenUp(t *testing.T) {
	l := newLog(t)
	l.must(submit("j", 2))
	for n := 1; n <= ledger.KeepPast+2; n++ {
		l.must(assign("j", "p2", run(1, 1, n)), supersede(taskstate.Task("j", 1, n), true))
	}
	past := l.record("j").Past(1)
	if len(past) != ledger.KeepPast || past[0].Attempt != 3 || past[len(past)-1].Attempt != ledger.KeepPast+2 {
		t.Fatalf("%+v", past)
	}
	if p := past[0]; p.Peer != "p2" || p.AssignedAt == 0 || p.GivenUpAt < p.AssignedAt || p.Reason == "" || p.Index == 0 {
		t.Errorf("%+v", p)
	}
	if got := l.record("j").Past(2); got != nil {
		t.Errorf("a slot that nobody gave up has %+v", got)
	}
	for n := range l.record("j").PastSlots() {
		if n != 1 {
			t.Errorf("slot %d has a past", n)
		}
	}
}

func TestContradictoryEndsAreCountedAndTheNewestKept(t *testing.T) {
	l := newLog(t)
	l.must(submit("j", 1), assign("j", "p2", run(1, 1, 1)), settle("p2", ended("j", 1, taskstate.Complete)))
	for range ledger.KeepConflicts + 3 {
		l.apply(settle("p2", ended("j", 1, taskstate.Failed)))
	}
	j := l.record("j")
	if j.Conflicts() != ledger.KeepConflicts+3 || len(j.Contradictions()) != ledger.KeepConflicts {
		t.Fatalf("%d, %+v", j.Conflicts(), j.Contradictions())
	}
	if c := j.Contradictions()[0]; c.Slot != 1 || c.Attempt != 1 || c.Peer != "p2" || c.State != taskstate.Failed || c.At == 0 {
		t.Errorf("%+v", c)
	}
}

// replaced is a job of one slot whose first attempt, on p2, was given up.
func replaced(t *testing.T) *log {
	l := newLog(t)
	l.must(submit("j", 1), assign("j", "p2", run(1, 1, 1)), supersede(taskstate.Task("j", 1, 1), true))
	return l
}

func TestTheSuccessOfAnAttemptThatWasGivenUpCountsWhileItsSlotHasNoEnd(t *testing.T) {
	for name, c := range map[string]struct {
		before []ledger.Command
		over   int
	}{
		"the slot waits":                {nil, 0},
		"the next attempt is under way": {[]ledger.Command{assign("j", "p1", run(1, 1, 2))}, 1},
		"the job was cancelled meanwhile, and its next attempt has not stopped": {[]ledger.Command{assign("j", "p1", run(1, 1, 2)), cancel("j")}, 1},
		"the one after the next is under way": {[]ledger.Command{
			assign("j", "p1", run(1, 1, 2)), supersede(taskstate.Task("j", 1, 2), true), assign("j", "p1", run(1, 1, 3)),
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := replaced(t)
			l.must(c.before...)
			res := l.apply(settle("p2", ended("j", 1, taskstate.Complete)))
			if res[0].Refused != "" || len(res[0].Overtaken) != c.over {
				t.Fatalf("%+v", res)
			}
			j := l.record("j")
			s := j.Slot(1)
			if s.Final == nil || s.Attempt != 1 || s.Peer != "p2" || j.State() != taskstate.Complete || j.Counts().Complete != 1 {
				t.Errorf("%+v %+v", s, j.Counts())
			}
			for _, p := range []string{"p1", "p2"} {
				for id := range l.OpenOn(p) {
					t.Errorf("%s is still open on %s", id, p)
				}
			}
			if c.over == 0 {
				return
			}
			gone := res[0].Overtaken[0]
			if _, _, _, st := l.Assigned(gone); st != taskstate.Retired {
				t.Errorf("%s is %v", gone, st)
			}
			end := taskstate.Status{Task: gone, Seq: 3, State: taskstate.Shutdown, At: 9, Exit: taskstate.NoExit, Reason: taskstate.ReasonOvertaken}
			l.apply(settle("p1", end))
			past := j.Past(1)
			if p := past[len(past)-1]; p.Reason != taskstate.ReasonOvertaken || p.Late == nil || p.Late.State != taskstate.Shutdown {
				t.Errorf("%+v", p)
			}
			if j.Slot(1).Attempt != 1 || j.Conflicts() != 0 {
				t.Errorf("%+v", j.Slot(1))
			}
		})
	}
}

func TestALateEndThatDoesNotCountIsRefusedAndRemembered(t *testing.T) {
	second := []ledger.Command{assign("j", "p1", run(1, 1, 2))}
	done := taskstate.Status{Task: taskstate.Task("j", 1, 2), Seq: 1, State: taskstate.Complete, At: 7}
	for name, c := range map[string]struct {
		before []ledger.Command
		late   taskstate.State
		final  bool
	}{
		"the slot has its end":      {append(second, settle("p1", done)), taskstate.Complete, true},
		"the job was cut off":       {[]ledger.Command{cancel("j")}, taskstate.Complete, true},
		"it failed, the next runs":  {second, taskstate.Failed, false},
		"it was stopped in the end": {second, taskstate.Shutdown, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := replaced(t)
			l.must(c.before...)
			before := l.record("j").Slot(1)
			for range 2 {
				if res := l.apply(settle("p2", ended("j", 1, c.late))); len(res[0].Statuses) != 1 || res[0].Overtaken != nil {
					t.Errorf("%+v", res)
				}
			}
			j := l.record("j")
			if s := j.Slot(1); s.Attempt != before.Attempt || (s.Final != nil) != c.final {
				t.Errorf("%+v", s)
			}
			if p := j.Past(1)[0]; p.Late == nil || p.Late.State != c.late || p.Late.Heard == 0 || j.Conflicts() != 0 {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestOnlyWhoHadTheOldAttemptCanBringItsSuccess(t *testing.T) {
	l := replaced(t)
	l.must(assign("j", "p1", run(1, 1, 2)))
	l.refuses(ledger.CodePartly, settle("p1", ended("j", 1, taskstate.Complete)))
	if s := l.record("j").Slot(1); !s.Open || s.Attempt != 2 || l.record("j").Past(1)[0].Late != nil {
		t.Errorf("%+v", s)
	}
}
