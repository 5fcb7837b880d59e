package view

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// service submits a service, and has peer a run its slots.
func (b *storyBook) service(id taskstate.JobID, n int) taskstate.Job {
	job := taskstate.Job{ID: id, Name: string(id), Type: taskstate.ServiceJob, Count: n, Submitter: "b", Run: taskstate.Run{Noop: &taskstate.Noop{}}}
	b.decide(ledger.Command{Submit: &ledger.Submit{Job: job}})
	b.decide(ledger.Command{Assign: &ledger.Assign{Job: id, Peer: "a", Incarnation: "i", Version: 1, Slots: []ledger.Slots{{First: 1, N: n, Attempt: 1}}}})
	return job
}

func (b *storyBook) row(id taskstate.JobID) api.Job {
	b.t.Helper()
	row, err := b.JobNow(id)
	if err != nil {
		b.t.Fatal(err)
	}
	return row
}

func shutdownFor(id taskstate.TaskID, why taskstate.Reason) taskstate.Status {
	return taskstate.Status{Task: id, State: taskstate.Shutdown, Exit: taskstate.NoExit, Signal: 15, Reason: why}
}

func TestAStoryTellsAnUpdateAndAMove(t *testing.T) {
	b := newStoryBook(t)
	job := b.service("s", 1)
	job.Timeout = 1000
	b.decide(ledger.Command{Update: &ledger.Update{Job: job}})
	b.decide(ledger.Command{Renew: &ledger.Renew{Job: "s", Slots: []ledger.Slots{{First: 1, N: 1}}, Version: 2, Reason: taskstate.ReasonUpdated}})
	if got := strings.Join(b.story("s"), "\n"); !strings.Contains(got, "1.1 is being stopped: another version takes its place") {
		t.Errorf("%s", got)
	}
	b.end("a", shutdownFor(taskstate.Task("s", 1, 1), taskstate.ReasonUpdated))
	b.decide(ledger.Command{Assign: &ledger.Assign{Job: "s", Peer: "b", Incarnation: "i", Version: 2, Slots: []ledger.Slots{{First: 1, N: 1, Attempt: 2}}}})
	b.decide(ledger.Command{Rollout: &ledger.Rollout{Job: "s", State: taskstate.RolloutPaused, Message: "for lunch"}})
	b.is("s",
		"2000  accepted through name-b, by coordinator name-a in epoch 1/1",
		"3000 1.1 given to name-a "+spread,
		"4000  updated to version 2",
		"6000 1.1 stopped, by signal 15 (updated) on name-a; another version takes its place: attempt 2 follows, on name-b",
		"7000 1.2 given to name-b "+spread,
		"8000  update to version 2: paused: for lunch",
	)
	b.decide(ledger.Command{Rollout: &ledger.Rollout{Job: "s", State: taskstate.RolloutRollingBack}})
	if got := strings.Join(b.story("s"), "\n"); !strings.Contains(got, "9000  goes back to the version before, as version 3") {
		t.Errorf("%s", got)
	}
}

func TestAStoryTellsRestartsAndWhenTheNextOneIs(t *testing.T) {
	b := newStoryBook(t)
	b.decide(ledger.Command{Submit: &ledger.Submit{Job: taskstate.Job{
		ID: "j", Count: 1, Submitter: "b", Type: taskstate.BatchJob, Run: taskstate.Run{Noop: &taskstate.Noop{}},
		Restart: &taskstate.Restart{Condition: taskstate.RestartOnFailure, Delay: 60_000},
	}}})
	b.assign("j", "a", ledger.Slots{First: 1, N: 1, Attempt: 1})
	b.end("a", taskstate.Status{Task: taskstate.Task("j", 1, 1), State: taskstate.Failed, Exit: 3, Reason: taskstate.ReasonExit, Message: "exit code 3"})
	got := b.story("j")
	if len(got) != 4 || got[2] != "4000 1.1 failed with exit code 3 on name-a; the restart policy: attempt 2 follows" ||
		!strings.Contains(got[3], "1.2 attempt 2 starts not before 00:01:0") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	tasks, err := b.everyTask("j", []int{1}, &away{})
	if err != nil || len(tasks) != 2 || tasks[1].NotBefore == nil || !tasks[0].Earlier || *tasks[0].ExitCode != 3 || tasks[0].PeerName != "name-a" {
		t.Errorf("%+v, %v", tasks, err)
	}
	if tasks[1].Message != "exit code 3" || tasks[1].State != "pending" {
		t.Errorf("a task that starts again says why: %+v", tasks[1])
	}
}

func TestAStoryTellsTheRunsOfASchedule(t *testing.T) {
	b := newStoryBook(t)
	job := taskstate.Job{ID: "n", Name: "n", Count: 1, Submitter: "b", Type: taskstate.BatchJob, Run: taskstate.Run{Noop: &taskstate.Noop{}}, Schedule: &taskstate.Schedule{Cron: "0 3 * * *"}}
	b.decide(ledger.Command{Submit: &ledger.Submit{Job: job}})
	run := job
	run.ID, run.Schedule, run.Origin = "r", nil, &taskstate.Origin{Job: "n", At: 3 * 3600_000}
	b.decide(ledger.Command{Submit: &ledger.Submit{Job: run}})
	got := strings.Join(b.story("n"), "\n")
	for _, want := range []string{"started run r for 1970-01-01 03:00 UTC: it is pending", "starts the next run at 1970-01-01 03:00 UTC"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if got := b.story("r"); got[0] != "3000  started by the schedule of job n for 1970-01-01 03:00 UTC, by coordinator name-a" {
		t.Errorf("%q", got)
	}
	if row := b.row("n"); row.Schedule == nil || row.Schedule.Last == nil || row.Schedule.Next == nil || row.Schedule.Overlap != "skip" || row.Schedule.Zone != "UTC" {
		t.Errorf("%+v", row.Schedule)
	}
	if row := b.row("r"); row.Origin == nil || row.Origin.Job != "n" || row.Schedule != nil {
		t.Errorf("%+v", row)
	}
}

func TestAStoryTellsWhichStartsAScheduleSkipped(t *testing.T) {
	b := newStoryBook(t)
	job := taskstate.Job{ID: "n", Name: "n", Count: 1, Submitter: "b", Type: taskstate.BatchJob, Run: taskstate.Run{Noop: &taskstate.Noop{}}, Schedule: &taskstate.Schedule{Cron: "0 3 * * *"}}
	b.decide(ledger.Command{Submit: &ledger.Submit{Job: job}})
	if row := b.row("n"); row.Schedule.Skipped != 0 || row.Schedule.Skip != nil {
		t.Errorf("nothing was skipped: %+v", row.Schedule)
	}
	const day = 24 * 3600_000
	for i := range int64(ledger.KeepSkips + 1) {
		b.decide(ledger.Command{Skip: &ledger.Skip{Job: "n", At: i*day + day/8, Run: "r"}})
	}
	story := b.story("n")
	if want := "4000  1 run before was skipped, too"; story[1] != want {
		t.Errorf("%q, want %q", story[1], want)
	}
	if want := "4000  skipped the run for 1970-01-02 03:00 UTC: run r still went on (overlap: skip)"; story[2] != want {
		t.Errorf("%q, want %q", story[2], want)
	}
	if n := strings.Count(strings.Join(story, "\n"), "skipped"); n != ledger.KeepSkips+1 {
		t.Errorf("told %d times:\n%s", n, strings.Join(story, "\n"))
	}
	row := b.row("n").Schedule
	if row.Skipped != ledger.KeepSkips+1 || row.Skip == nil || row.Skip.Run != "r" || row.Skip.At.UnixMilli() != 10*day+day/8 || row.Last != nil {
		t.Errorf("%+v, %+v", row, row.Skip)
	}
}

func TestARowTellsHowFarAnUpdateIs(t *testing.T) {
	b := newStoryBook(t)
	job := b.service("s", 3)
	if row := b.row("s"); row.Rollout != nil || row.Wanted != 3 || row.Version != 1 {
		t.Errorf("%+v", row)
	}
	b.decide(ledger.Command{Retire: &ledger.Retire{Job: "s", Slots: []ledger.Slots{{First: 3, N: 1}}, Reason: taskstate.ReasonScaled}})
	b.end("a", shutdownFor(taskstate.Task("s", 3, 1), taskstate.ReasonScaled))
	job.Timeout, job.Count = 1000, 2
	b.decide(ledger.Command{Update: &ledger.Update{Job: job}})
	b.decide(ledger.Command{Renew: &ledger.Renew{Job: "s", Slots: []ledger.Slots{{First: 2, N: 1}}, Version: 2, Reason: taskstate.ReasonUpdated}})
	updated := func(want int) {
		t.Helper()
		if r := b.row("s").Rollout; r == nil || r.Updated != want || r.Slots != 2 || r.From != 1 || r.State != "updating" {
			t.Errorf("%+v, want %d", r, want)
		}
	}
	updated(0) // it is leaving
	b.end("a", shutdownFor(taskstate.Task("s", 2, 1), taskstate.ReasonUpdated))
	updated(0) // its successor waits
	b.decide(ledger.Command{Assign: &ledger.Assign{Job: "s", Peer: "b", Incarnation: "i", Version: 2, Slots: []ledger.Slots{{First: 2, N: 1, Attempt: 2}}}})
	updated(1)
	rows, err := b.taskRows("s", nil)
	if err != nil || len(rows) != 2 || rows[1].Version != 2 || rows[0].Version != 1 {
		t.Errorf("%+v, %v", rows, err)
	}
}

func TestAWatcherHearsOfEveryChangeOfAJob(t *testing.T) {
	b := newStoryBook(t)
	job := b.service("s", 12)
	b.cfg.Replica.(*ledger.Replica).Observe(func(ev ledger.Event) { b.hub.append(b.Events.entryEvents(ev)) })
	since := b.hub.last()
	all := []ledger.Slots{{First: 1, N: 12}}
	job.Timeout = 1000
	b.decide(ledger.Command{Update: &ledger.Update{Job: job}})
	b.decide(ledger.Command{Update: &ledger.Update{Job: job}}) // the same again
	b.decide(ledger.Command{Renew: &ledger.Renew{Job: "s", Slots: all, Version: 2, Reason: taskstate.ReasonUpdated}})
	b.decide(ledger.Command{Retire: &ledger.Retire{Job: "s", Slots: []ledger.Slots{{First: 4, N: 1}, {First: 5, N: 1, Attempt: 9}}, Reason: taskstate.ReasonScaled}})
	moved := []ledger.Slots{{First: 5, N: 2, Attempt: 9}}
	b.decide(ledger.Command{Retire: &ledger.Retire{Job: "s", Slots: moved, Reason: taskstate.ReasonScaled}}) // changes nothing
	b.decide(ledger.Command{Renew: &ledger.Renew{Job: "s", Slots: moved, Reason: taskstate.ReasonDrained}})
	b.decide(ledger.Command{Grow: &ledger.Grow{Job: "s", N: 1}})
	b.decide(ledger.Command{Rollout: &ledger.Rollout{Job: "s", State: taskstate.RolloutRollingBack}})
	b.decide(ledger.Command{Rollout: &ledger.Rollout{Job: "s", State: taskstate.RolloutPaused, Message: "wait"}})
	b.decide(ledger.Command{Rollout: &ledger.Rollout{Job: "s", State: taskstate.RolloutCompleted}}) // refused
	var got []string
	evs, _, _ := b.hub.after(since)
	for _, e := range evs {
		got = append(got, e.state+" "+e.note)
	}
	want := "updated version 2|renewed slots 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 2 more: updated|retired slot 4: scaled|grown 1 task more|rolling-back |rollback-paused wait"
	if strings.Join(got, "|") != want {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "|"), want)
	}
}

func TestAWatcherHearsOfARunThatWasSkippedWhenItWasDecided(t *testing.T) {
	b := newStoryBook(t)
	b.cfg.Replica.(*ledger.Replica).Observe(func(ev ledger.Event) { b.hub.append(b.Events.entryEvents(ev)) })
	job := taskstate.Job{ID: "p", Name: "p", Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{}}, Schedule: &taskstate.Schedule{Cron: "* * * * *"}}
	b.decide(ledger.Command{Submit: &ledger.Submit{Job: job}})
	for i, id := range []taskstate.JobID{"r1", "r2"} {
		job.ID, job.Schedule, job.Origin = id, nil, &taskstate.Origin{Job: "p", At: int64(i+1) * 60_000}
		b.decide(ledger.Command{Submit: &ledger.Submit{Job: job}})
	}
	evs, _, _ := b.hub.after(0)
	last := evs[len(evs)-1]
	if last.job != "p" || last.state != "skipped" || !strings.Contains(last.note, "run r1 still goes on") {
		t.Errorf("%+v", last)
	}
}

func TestAWatcherHearsOfWhatFollowsFromADecision(t *testing.T) {
	b := newStoryBook(t)
	b.cfg.Replica.(*ledger.Replica).Observe(func(ev ledger.Event) { b.hub.append(b.Events.entryEvents(ev)) })
	b.submit("first", 1)
	after := taskstate.Job{ID: "second", Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{}}, After: []taskstate.JobID{"first"}}
	b.decide(ledger.Command{Submit: &ledger.Submit{Job: after}})
	after.ID, after.After = "third", []taskstate.JobID{"second"}
	b.decide(ledger.Command{Submit: &ledger.Submit{Job: after}})
	b.assign("first", "a", ledger.Slots{First: 1, N: 1, Attempt: 1})
	since := b.hub.last()
	b.end("a", succeeded(taskstate.Task("first", 1, 1)))
	b.decide(ledger.Command{Cancel: &ledger.Cancel{Job: "second", Reason: "by somebody"}})
	var got []string
	evs, _, _ := b.hub.after(since)
	for _, e := range evs {
		if e.kind == kindJob {
			got = append(got, string(e.job)+" "+e.state)
		}
	}
	for _, want := range []string{"second released", "third cancelled"} {
		if !strings.Contains(strings.Join(got, "|"), want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}

func TestAStoryNamesTheRuleByWhichTasksWerePlaced(t *testing.T) {
	for want, job := range map[string]taskstate.Job{
		"given to name-a (spread: free peers first, then the one with the fewest tasks of the job)": {},
		"given to name-a (spread: evenly over the values of peer.label.zone)":                       {Over: "peer.label.zone"},
		"given to name-a (binpack: the fullest peer that has room)":                                 {Strategy: taskstate.Binpack},
		"given to name-a (random: at random among the peers that have room)":                        {Strategy: taskstate.Random},
	} {
		b := newStoryBook(t)
		job.ID, job.Count, job.Run = "j", 1, taskstate.Run{Noop: &taskstate.Noop{}}
		b.decide(ledger.Command{Submit: &ledger.Submit{Job: job}})
		b.assign("j", "a", ledger.Slots{First: 1, N: 1, Attempt: 1})
		if got := strings.Join(b.story("j"), "\n"); !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// A job may have a million slots: their rows are made a few at a time, when somebody takes them.
func TestTasksOfALargeJobAreListedInPieces(t *testing.T) {
	b := newStoryBook(t)
	const count = 2*piece + 1
	b.submit("j", count)
	b.assign("j", "a", ledger.Slots{First: piece, N: 3, Attempt: 1})
	if got := b.begunSlots("j"); !slices.Equal(got, []int{piece, piece + 1, piece + 2}) {
		t.Errorf("begun are %v", got)
	}
	for i := range 3 { // nobody need be asked whether their peer can be reached
		b.end("a", taskstate.Status{Task: taskstate.Task("j", piece+i, 1), Seq: 2, State: taskstate.Complete})
	}
	for name, list := range map[string]func(context.Context, string) (api.Tasks, error){"tasks": b.Tasks, "all": b.AllTasks} {
		got, err := list(t.Context(), "j")
		if err != nil || len(got.Tasks) != piece || got.More == nil {
			t.Fatalf("%s: %d at first, %v", name, len(got.Tasks), err)
		}
		n := len(got.Tasks)
		for more, err := range got.More {
			if err != nil || len(more) == 0 || len(more) > piece || more[0].Slot != n+1 {
				t.Fatalf("%s: %d more after %d, %v", name, len(more), n, err)
			}
			n += len(more)
		}
		if n != count {
			t.Errorf("%s: %d of %d", name, n, count)
		}
	}
	if got, err := inPieces(nil, func(slots []int) ([]api.Task, error) { return b.taskRows("nosuch", slots) }); api.AsError(err).Code != api.NotFound {
		t.Errorf("%+v, %v", got, err)
	}
}
