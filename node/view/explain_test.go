package view

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// storyBook is as much of a node as a story is told from.
type storyBook struct {
	*View
	t     *testing.T
	stamp int64
}

func newStoryBook(t *testing.T) *storyBook {
	roster, err := admission.OpenRoster(filepath.Join(t.TempDir(), "roster"), p2p.Verify)
	if err != nil {
		t.Fatal(err)
	}
	replica := ledger.NewReplica()
	v := New(Config{Boot: "x", Started: time.UnixMilli(1), Now: time.Now, Replica: replica, Table: taskstate.NewTable(replica, 0), Roster: roster, Held: func() []Held { return nil }})
	b := &storyBook{View: v, t: t, stamp: 1000}
	member := func(p string) []ledger.Command {
		return []ledger.Command{
			{Admit: &ledger.Admit{Entry: admission.Entry{Cluster: "c", Peer: p, Name: "name-" + p, Roles: admission.AllRoles()}}},
			{Register: &ledger.Register{Peer: p, Incarnation: "i"}},
		}
	}
	b.decide(append(member("a"), member("b")...)...)
	return b
}

// decide applies commands a second after what was decided before.
func (b *storyBook) decide(cmds ...ledger.Command) {
	b.stamp += 1000
	b.cfg.Replica.(*ledger.Replica).Apply(ledger.Entry{Index: b.cfg.Replica.Applied() + 1, Epoch: taskstate.At(1, 1), Stamp: b.stamp, By: "a", Commands: cmds})
}

func (b *storyBook) submit(id taskstate.JobID, count int) {
	b.decide(ledger.Command{Submit: &ledger.Submit{Job: taskstate.Job{ID: id, Count: count, Submitter: "b", Run: taskstate.Run{Noop: &taskstate.Noop{}}}}})
}

func (b *storyBook) assign(id taskstate.JobID, peer string, s ledger.Slots) {
	b.decide(ledger.Command{Assign: &ledger.Assign{Job: id, Peer: peer, Incarnation: "i", Slots: []ledger.Slots{s}}})
}

func (b *storyBook) end(peer string, tasks ...taskstate.Status) {
	for i := range tasks {
		tasks[i].At, tasks[i].Seq = b.stamp+500, 1
	}
	b.decide(ledger.Command{Settle: &ledger.Settle{Peer: peer, Incarnation: "i", Statuses: tasks}})
}

func (b *storyBook) story(id string) []string {
	subject, err := api.ParseSubject(id)
	if err != nil {
		b.t.Fatal(err)
	}
	slot, attempt, err := subject.Find(taskstate.FoldersBySlot, 0, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	t := explainer{view: b.View, id: taskstate.JobID(subject.Job), slot: slot, attempt: attempt, now: b.stamp + 1, names: map[string]string{}, late: map[taskstate.TaskID]bool{}}
	if err := t.read(); err != nil {
		b.t.Fatal(err)
	}
	t.tellJob()
	t.tellChanges()
	t.tellSlots()
	t.tellNews()
	t.tellEnd()
	slices.SortStableFunc(t.facts, func(x, y api.Fact) int { return x.Time.Compare(y.Time) })
	var out []string
	for _, f := range t.facts {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%d %s %s", f.Time.UnixMilli()-1000, strings.TrimPrefix(f.Task, subject.Job+"."), f.Text)))
	}
	return out
}

func (b *storyBook) is(id string, want ...string) {
	b.t.Helper()
	if got := b.story(id); !slices.Equal(got, want) {
		b.t.Errorf("%s:\n%s", id, strings.Join(got, "\n"))
	}
}

func succeeded(id taskstate.TaskID) taskstate.Status {
	return taskstate.Status{Task: id, State: taskstate.Complete}
}

const spread = "(spread: free peers first, then the one with the fewest tasks of the job)"

func TestAStoryTellsEveryAttemptWithItsPeerAndWhatBecameOfIt(t *testing.T) {
	b := newStoryBook(t)
	b.submit("j", 1)
	b.assign("j", "a", ledger.Slots{First: 1, N: 1, Attempt: 1})
	b.hub.append([]event{
		{at: b.stamp + 10, kind: kindTask, task: taskstate.Task("j", 1, 1), peer: "a", state: "running", exit: taskstate.NoExit},
		{at: b.stamp + 20, kind: kindPeer, peer: "a", state: "dead"},
		{at: b.stamp + 30, kind: kindPeer, peer: "stranger", state: "dead"},
		{at: b.stamp + 40, kind: kindTask, task: taskstate.Task("other", 1, 1), peer: "a", state: "running", exit: taskstate.NoExit},
	})
	b.decide(ledger.Command{Supersede: &ledger.Supersede{Task: taskstate.Task("j", 1, 1), Reason: taskstate.ReasonUnreachable, Again: true}})
	b.assign("j", "b", ledger.Slots{First: 1, N: 1, Attempt: 2})
	b.end("b", succeeded(taskstate.Task("j", 1, 2)))
	b.is("j",
		"2000  accepted through name-b, by coordinator name-a in epoch 1/1",
		"3000 1.1 given to name-a "+spread,
		"3010 1.1 running on name-a",
		"3020  name-a is dead, as this peer sees it",
		"4000 1.1 given up: its peer could not be reached for as long as the job allows; attempt 2 takes its place, on name-b",
		"5000 1.2 given to name-b "+spread,
		"5500 1.2 complete with exit code 0 on name-b",
		"6000  the job is over: 1 complete; exit code 0",
	)
	if got := b.story("j.1.2"); len(got) != 4 {
		t.Errorf("the second attempt alone: %q", got)
	}
}

func TestAStoryTellsWhichCopiesAreOwed(t *testing.T) {
	b := newStoryBook(t)
	b.decide(ledger.Command{Submit: &ledger.Submit{Job: taskstate.Job{ID: "j", Type: taskstate.BatchJob, Count: 1, Submitter: "b", Outputs: &taskstate.Outputs{Globs: []string{"*"}}}}})
	b.assign("j", "a", ledger.Slots{First: 1, N: 1, Attempt: 1})
	end := succeeded(taskstate.Task("j", 1, 1))
	end.Saved = &taskstate.Saved{Root: [32]byte{1}, Keepers: []taskstate.PeerID{"a"}, Keep: 2, Why: "nobody else has room"}
	b.end("a", end)
	if got := b.story("j.1"); !slices.Contains(got, "3500 1.1 complete with exit code 0 on name-a; 1 of 2 copies of its files: nobody else has room") {
		t.Errorf("%q", got)
	}
}

func TestAStoryTellsWhatContradictsAndWhoCancelled(t *testing.T) {
	b := newStoryBook(t)
	b.submit("j", 2)
	b.assign("j", "a", ledger.Slots{First: 1, N: 1, Attempt: 1})
	b.decide(ledger.Command{Cancel: &ledger.Cancel{Job: "j", Reason: "by name-b"}})
	b.end("a", taskstate.Status{Task: taskstate.Task("j", 1, 1), State: taskstate.Shutdown, Exit: taskstate.NoExit, Signal: 15, Reason: taskstate.ReasonCancelled})
	b.end("a", succeeded(taskstate.Task("j", 1, 1)))
	b.is("j",
		"2000  accepted through name-b, by coordinator name-a in epoch 1/1",
		"3000 1.1 given to name-a "+spread,
		"4000  cancelled by name-b",
		"4000 2.1 stopped (cancelled): by name-b",
		"4500 1.1 stopped, by signal 15 (cancelled) on name-a",
		"5000  the job is over: 2 stopped; exit code 1",
		"6000 1.1 a second end came from name-a: complete; the first one stands",
	)
}

func TestAStoryTellsWhatCameBackLate(t *testing.T) {
	b := newStoryBook(t)
	b.submit("j", 2)
	b.assign("j", "a", ledger.Slots{First: 1, N: 2, Attempt: 1})
	for n := 1; n <= 2; n++ {
		b.decide(ledger.Command{Supersede: &ledger.Supersede{Task: taskstate.Task("j", n, 1), Reason: taskstate.ReasonUnreachable, Again: true}})
	}
	b.assign("j", "b", ledger.Slots{First: 1, N: 2, Attempt: 2})
	b.end("b", succeeded(taskstate.Task("j", 1, 2)))
	b.end("a", succeeded(taskstate.Task("j", 1, 1)), succeeded(taskstate.Task("j", 2, 1)))
	b.end("b", taskstate.Status{Task: taskstate.Task("j", 2, 2), State: taskstate.Shutdown, Exit: taskstate.NoExit, Reason: taskstate.ReasonOvertaken})
	gone := "given up: its peer could not be reached for as long as the job allows; attempt 2 takes its place, on name-"
	b.is("j.1",
		"2000  accepted through name-b, by coordinator name-a in epoch 1/1",
		"3000 1.1 given to name-a "+spread,
		"4000 1.1 "+gone+"b",
		"6000 1.2 given to name-b "+spread,
		"6500 1.2 complete with exit code 0 on name-b",
		"8000 1.1 reported late, and does not count: complete with exit code 0 on name-a; so this slot ran more than once",
		"8000  the job is over: 2 complete; exit code 0",
	)
	b.is("j.2",
		"2000  accepted through name-b, by coordinator name-a in epoch 1/1",
		"3000 2.1 given to name-a "+spread,
		"5000 2.1 "+gone+"b",
		"6000 2.2 given to name-b "+spread,
		"7500 2.1 complete with exit code 0 on name-a; it had been given up, came back with this, and counts",
		"8000 2.2 stopped: an earlier attempt came back with its success, and that counts",
		"8000  the job is over: 2 complete; exit code 0",
		"9000 2.2 reported late, and does not count: stopped on name-b",
	)
}

func TestAStoryOfManySlotsSaysWhereThoseAreThatHaveNotEnded(t *testing.T) {
	b := newStoryBook(t)
	b.submit("j", 100)
	b.assign("j", "a", ledger.Slots{First: 1, N: 30, Attempt: 1})
	b.assign("j", "b", ledger.Slots{First: 31, N: 20, Attempt: 1})
	b.is("j",
		"2000  accepted through name-b, by coordinator name-a in epoch 1/1",
		"4001  30 tasks given to name-a have not ended "+strings.TrimSuffix(spread, ")")+"), told one by one by `peer tasks j`",
		"4001  20 tasks given to name-b have not ended "+strings.TrimSuffix(spread, ")")+"), told one by one by `peer tasks j`",
	)
}

func TestAStoryOfManySlotsTellsTheOddOnesAndSumsUpTheRest(t *testing.T) {
	b := newStoryBook(t)
	const many = 1000
	b.submit("j", many)
	b.assign("j", "a", ledger.Slots{First: 1, N: many, Attempt: 1})
	var ends []taskstate.Status
	for n := 1; n <= many; n++ {
		st := succeeded(taskstate.Task("j", n, 1))
		if n%10 == 0 {
			st.State, st.Exit, st.Reason = taskstate.Failed, 3, taskstate.ReasonExit
		}
		ends = append(ends, st)
	}
	b.end("a", ends...)
	got := strings.Join(b.story("j"), "\n")
	for _, want := range []string{"10.1 failed with exit code 3 on name-a", "900 tasks complete on name-a", "50 more slots have a story of their own"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n > 2*tellOdd+5 {
		t.Errorf("%d lines", n)
	}
}

func TestWhatThisPeerDoesNotRememberIsSaidNotMadeUp(t *testing.T) {
	b := newStoryBook(t)
	b.submit("j", 1)
	b.assign("j", "a", ledger.Slots{First: 1, N: 1, Attempt: 1})
	b.end("a", succeeded(taskstate.Task("j", 1, 1)))
	b.cfg.Started = time.UnixMilli(b.stamp + 5000)
	got := strings.Join(b.story("j"), "\n")
	if strings.Contains(got, "running") || !strings.Contains(got, "remembers observations from here on") {
		t.Error(got)
	}
}
