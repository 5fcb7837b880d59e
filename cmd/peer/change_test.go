package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

func serviceRow(running, wanted int, rollout *api.Rollout) api.Job {
	return api.Job{
		ID: "k3v5", Name: "web", Type: "service", State: "running", Version: 2, Wanted: wanted,
		Tasks: map[string]int{"running": running, "pending": 0}, Rollout: rollout,
	}
}

func TestWaitingForAServiceEndsWhenItsTasksRunOrItsUpdateStops(t *testing.T) {
	waits := serviceRow(1, 2, nil)
	waits.Tasks["pending"] = 1
	busy := serviceRow(2, 2, nil)
	busy.Tasks["pending"] = 1
	nobody := serviceRow(0, 0, nil)
	nobody.Type = "global"
	done, ended := serviceRow(1, 2, nil), serviceRow(0, 0, &api.Rollout{State: "paused"})
	done.Tasks["complete"], ended.Ended = 1, &time.Time{}
	for name, c := range map[string]struct {
		job  api.Job
		want rolloutOutcome
	}{
		"one runs, one is done":               {done, settledWell},
		"the job is over":                     {ended, going},
		"all run":                             {serviceRow(2, 2, nil), settledWell},
		"one waits":                           {waits, going},
		"more than wanted, one of them waits": {busy, going},
		"switched off":                        {serviceRow(0, 0, nil), settledWell},
		"a global job that has no peer yet":   {nobody, going},
		"an update under way, all run":        {serviceRow(2, 2, &api.Rollout{State: "updating"}), going},
		"an update that is complete":          {serviceRow(2, 2, &api.Rollout{State: "completed"}), settledWell},
		"complete, and a task died since":     {serviceRow(1, 2, &api.Rollout{State: "completed"}), going},
		"paused":                              {serviceRow(2, 2, &api.Rollout{State: "paused"}), settledBadly},
		"going back":                          {serviceRow(2, 2, &api.Rollout{State: "rolling-back"}), going},
		"back":                                {serviceRow(2, 2, &api.Rollout{State: "rolled-back"}), settledBadly},
		"stuck on the way back":               {serviceRow(2, 2, &api.Rollout{State: "rollback-paused"}), settledBadly},
	} {
		if got := settled(c.job); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestHowFarAnUpdateIsIsSaidInALine(t *testing.T) {
	for state, want := range map[string]string{
		"":                "version 2, 3 of 5 tasks run",
		"updating":        "updating to version 2: 2 of 5 tasks are of it (why)",
		"paused":          "update to version 2 is paused: 2 of 5 tasks are of it (why)",
		"completed":       "version 2, 3 of 5 tasks run; its update is complete but for 1 task, to be replaced when the peer takes tasks",
		"rolling-back":    "going back, as version 2: 2 of 5 tasks are of it (why)",
		"rolled-back":     "version 2, 3 of 5 tasks run; it was rolled back (why)",
		"rollback-paused": "going back, as version 2, is paused: 2 of 5 tasks are of it (why)",
	} {
		j := serviceRow(3, 5, &api.Rollout{State: state, Updated: 2, Slots: 5, Message: "why"})
		if state == "" {
			j.Rollout = nil
		}
		if got := rolloutText(j); got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
	for running, want := range map[int]string{5: "version 2, 5 of 5 tasks run; its update is complete", 3: "version 2, 3 of 5 tasks run; its update is complete"} {
		if got := rolloutText(serviceRow(running, 5, &api.Rollout{State: "completed", Updated: 5, Slots: 5})); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTheNoteOfAJobSaysWhatItWaitsForOrComesFrom(t *testing.T) {
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.Local)
	over := serviceRow(0, 2, nil)
	over.Ended = &at
	for _, c := range []struct {
		job  api.Job
		want string
	}{
		{api.Job{}, ""},
		{over, ""},
		{api.Job{Ended: &at, Cancelled: "by p1"}, "cancelled by p1"},
		{api.Job{Ended: &at, Cancelled: "5 tasks failed (max_fails: 5)", Origin: &api.Origin{Job: "n", At: at}}, "run of n for 2026-11-21 03:00 UTC, cancelled: 5 tasks failed (max_fails: 5)"},
		{serviceRow(2, 2, nil), "version 2, 2 of 2 tasks run"},
		{api.Job{Origin: &api.Origin{Job: "n", At: at}}, "run of n for 2026-11-21 03:00 UTC"},
		{api.Job{After: []api.Predecessor{{ID: "a", State: "complete"}, {ID: "b", Name: "x", State: "running"}, {ID: "c"}}}, "starts after x b, c"},
		{api.Job{Schedule: &api.Schedule{Cron: "0 3 * * *", Zone: "UTC", Next: &at, Last: &at}}, `starts at "0 3 * * *" UTC, next 2026-11-21 03:00 UTC, last 2026-11-21 03:00 UTC`},
		{api.Job{Schedule: &api.Schedule{Cron: "@daily", Zone: "UTC", Skipped: 2, Skip: &api.Skip{At: at, Run: "r"}}}, `starts at "@daily" UTC, skipped 2: at 2026-11-21 03:00 UTC run r went on`},
	} {
		if got := inUTC(at, jobNote(c.job)); got != c.want {
			t.Errorf("%+v: %q, want %q", c.job, got, c.want)
		}
	}
}

func TestTheNoteOfATaskSaysWhyItIsNotJustThere(t *testing.T) {
	at := time.Date(2026, 11, 21, 3, 0, 5, 0, time.Local)
	for _, c := range []struct {
		task api.Task
		want string
	}{
		{api.Task{Message: "exit code 3", Earlier: true, Reason: "exit"}, "exit code 3"},
		{api.Task{Leaving: "updated", Message: "x"}, "being stopped: updated"},
		{api.Task{NotBefore: &at}, "starts again at 03:00:05 UTC"},
		{api.Task{NotBefore: &at, Message: "exit code 3"}, "exit code 3; starts again at 03:00:05 UTC"},
		{api.Task{Retired: true, Reason: "scaled"}, "not wanted any more: scaled"},
		{api.Task{Earlier: true, Reason: "moved"}, "moved"},
	} {
		if got := inUTC(at, taskNote(c.task)); got != c.want {
			t.Errorf("%+v: %q, want %q", c.task, got, c.want)
		}
	}
}

func TestWhatAnUpdateChangesIsATable(t *testing.T) {
	var b bytes.Buffer
	showChanges(&b, "2p4mk7x2ab", nil)
	if b.String() != "nothing changed\n" {
		t.Errorf("%q", b.String())
	}
	b.Reset()
	showChanges(&b, "2p4mk7x2ab", []taskstate.Change{{Field: "count", From: "3", To: "5"}, {Field: "timeout", To: "1s", Restarts: true}})
	want := "FIELD    FROM  TO  TASKS\ncount    3     5   go on\ntimeout  -     1s  restart\n"
	if !strings.HasPrefix(b.String(), want) || !strings.Contains(b.String(), "`peer rollout 2p4mk7x2ab`") {
		t.Errorf("%s", b.String())
	}
}

func TestAPreviewSaysWhoGetsWhatAndWhatWaits(t *testing.T) {
	var b bytes.Buffer
	previewText(&b, api.Preview{
		Tasks: 5, Places: []api.Place{{Peer: "p", PeerName: "one", Tasks: 3}}, Queued: 1, Waiting: 2, Reason: "no room", Notes: []string{"a note"},
	})
	want := "PEER  NAME  TASKS\np     one   3\n1 of them would wait there until something ends\n2 of 5 would wait: no room\na note\nnothing was changed (--dry-run)\n"
	if b.String() != want {
		t.Errorf("%s", b.String())
	}
}
