package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/taskstate"
)

// speaking is a command line whose output a test reads.
func speaking() (c *cli, out, talk *bytes.Buffer) {
	out, talk = &bytes.Buffer{}, &bytes.Buffer{}
	return &cli{Streams: Streams{In: strings.NewReader(""), Out: out, Err: talk}}, out, talk
}

// hostile is text as somebody else may have written it.
const hostile = "\x1b]0;owned\x07\rall is well\n\u202edne"

func TestWhatOthersWroteDoesNotSpeakToTheTerminal(t *testing.T) {
	for what, say := range map[string]func(c *cli, w io.Writer){
		"a task that failed": func(c *cli, _ io.Writer) {
			a := &attached{Streams: c.Streams}
			if err := a.taskOutput(t.Context(), api.Task{ID: "j.1.1", State: "rejected", Peer: "x", PeerName: hostile, Item: hostile, Message: hostile}); err != nil {
				t.Error(err)
			}
		},
		"a note beside output": func(c *cli, _ io.Writer) {
			a := &attached{Streams: c.Streams}
			if err := a.chunk(api.LogChunk{Task: "j.1.1", Note: hostile, Error: api.Errorf(api.Failed, "%s", hostile)}); err != nil {
				t.Error(err)
			}
		},
		"a job": func(_ *cli, w io.Writer) {
			jobText(w, api.Job{ID: "j", Name: hostile, Cancelled: hostile, Waiting: hostile, State: "pending", Submitter: hostile})
		},
		"progress": func(_ *cli, w io.Writer) {
			p, _ := drawn(w, 200)
			p.show(api.Job{Count: 2, Waiting: hostile})
		},
	} {
		c, out, talk := speaking()
		say(c, out)
		text := out.String() + talk.String()
		if !strings.Contains(text, `\x1b]0;owned`) || strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), unprintable) {
			t.Errorf("%s: %q", what, text)
		}
	}
}

func TestAJobsTextCountsTasksInEveryState(t *testing.T) {
	j := api.Job{Count: 12, Tasks: map[string]int{}}
	for i, s := range taskstate.States()[1:] { // new is never counted
		j.Tasks[s.String()] = i + 1
	}
	var b bytes.Buffer
	jobText(&b, j)
	for s, n := range j.Tasks {
		if !strings.Contains(b.String(), fmt.Sprintf(" %d %s", n, taskstate.Shown(s))) {
			t.Errorf("%d %s are left out:\n%s", n, s, b.String())
		}
	}
}

// What a task itself writes is the user's own, and comes as it is.
func TestOutputIsHandedOnToTheByte(t *testing.T) {
	c, out, talk := speaking()
	a := &attached{Streams: c.Streams}
	data := []byte(hostile + "\x00\xff")
	for _, stream := range []string{"stdout", "stderr", ""} {
		if err := a.chunk(api.LogChunk{Task: "j.1.1", Stream: stream, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(out.Bytes(), bytes.Repeat(data, 2)) || !bytes.Equal(talk.Bytes(), data) {
		t.Errorf("out %q, err %q", out, talk)
	}
}

func TestAnAttemptThatWasLostIsNotShownAsAFailure(t *testing.T) {
	for reason, lost := range map[taskstate.Reason]bool{
		taskstate.ReasonNone: false, taskstate.ReasonExit: false, taskstate.ReasonSignal: false, taskstate.ReasonTimeout: false,
		taskstate.ReasonNotFound: false, taskstate.ReasonNotExec: false, taskstate.ReasonPrepare: false, taskstate.ReasonCancelled: false,
		taskstate.ReasonMaxFails: false, taskstate.ReasonAfter: false,
		taskstate.ReasonRecalled: true, taskstate.ReasonInterrupted: true, taskstate.ReasonDropped: true, taskstate.ReasonUnreachable: true,
		taskstate.ReasonStuck: true, taskstate.ReasonNotStarted: true, taskstate.ReasonDrained: true, taskstate.ReasonMoved: true, taskstate.ReasonUpdated: true,
		taskstate.ReasonNoRoom: true, taskstate.ReasonPolicy: true,
	} {
		if replaced(api.Task{Reason: string(reason)}) != lost {
			t.Errorf("%q: replaced is %v", reason, !lost)
		}
	}
	for _, s := range taskstate.States() {
		if over(s.String()) != s.Final() {
			t.Errorf("%s: over is %v", s, over(s.String()))
		}
	}
}

func TestAnAnswerToAQuestionIsYesOrNothingIsDone(t *testing.T) {
	for in, want := range map[string]string{
		"yes\n": "", " yes \r\n": "", "yes": "no terminal to ask on", "": "no terminal to ask on", "\n": "nothing was done", "y\n": "nothing was done",
		"YES\n": "nothing was done", "no\nyes\n": "nothing was done",
	} {
		c, _, talk := speaking()
		c.In = strings.NewReader(in)
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		err := confirm(cmd.Context(), c.Streams)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || !strings.Contains(talk.String(), "Type yes") {
			t.Errorf("%q: %v", in, err)
		}
	}
	c, _, _ := speaking()
	silent, w := io.Pipe()
	defer func() { _ = w.Close() }()
	c.In = silent
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	if err := confirm(cmd.Context(), c.Streams); !errors.Is(err, context.Canceled) {
		t.Errorf("after Ctrl-C: %v", err)
	}
}

func TestTheExitCodeSaysWhatKindOfFailureItWas(t *testing.T) {
	plain, task := &cobra.Command{}, &cobra.Command{Annotations: map[string]string{speaksForTask: "1"}}
	for _, x := range []struct {
		err   error
		cmd   *cobra.Command
		code  int
		quiet bool
	}{
		{nil, plain, 0, true},
		{exitError(7), task, 7, true},
		{fmt.Errorf("logs: %w", exitError(7)), plain, 7, true},
		{errors.New("the disk is gone"), plain, 1, false},
		{errors.New("the disk is gone"), task, ownFailure, false},
		{errors.New(`unknown flag: --fast`), plain, 2, false},
		{api.Errorf(api.Usage, "no"), plain, 2, false},
		{api.Errorf(api.Usage, "no"), task, ownFailure, false},
		{fmt.Errorf("ask: %w", api.Errorf(api.NotFound, "no")), plain, 3, false},
		{api.Errorf(api.NoCoordinator, "no"), plain, 4, false},
		{api.Errorf(api.TimedOut, "no"), plain, 5, false},
		{api.Errorf(api.Conflict, "no"), plain, 6, false},
		{api.Errorf(api.Refused, "no"), nil, 7, false},
		{fmt.Errorf("watch: %w", context.Canceled), task, interruptCode, false},
	} {
		c, out, talk := speaking()
		if code := c.exit(x.cmd, x.err); code != x.code || (talk.Len() == 0) != x.quiet || out.Len() > 0 {
			t.Errorf("%v: exit %d, said %q", x.err, code, talk)
		}
	}
}

// stubborn is a peer that answers status for ever.
func stubborn(t *testing.T) (data string) {
	t.Helper()
	data, err := os.MkdirTemp("", "covey")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(data) })
	l, err := api.Listen(api.SocketPath(data))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(api.Status{ID: "x"}) })}
	done := make(chan struct{})
	go func() { _ = s.Serve(l); close(done) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return data
}

func TestWhoStopsAskingHasNotSeenThePeerStop(t *testing.T) {
	c, _, talk := speaking()
	ctx, cancel := context.WithCancel(t.Context())
	c.data = stubborn(t)
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	asked := c.client()
	if _, err := asked.Status(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := awaitGone(cmd.Context(), c.data, asked); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, said %q", err, talk)
	}
	cmd.SetContext(t.Context())
	if err := awaitGone(cmd.Context(), c.data, client.New(filepath.Join(c.data, "nobody"))); err != nil {
		t.Errorf("it is gone: %v", err)
	}
}

func TestAJobsNoteSaysWhatItsCountsDoNot(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 30, 0, 0, time.Local)
	origin := &api.Origin{Job: "nightly", At: at}
	for want, j := range map[string]api.Job{
		"": {},
		"run of nightly for 2026-03-01 12:30 UTC":                    {Origin: origin},
		"run of nightly for 2026-03-01 12:30 UTC, cancelled by wren": {Origin: origin, Ended: &at, Cancelled: "by wren"},
		"cancelled: max_fails":                                       {Ended: &at, Cancelled: "max_fails"},
		"starts after frames k3, gone":                               {After: []api.Predecessor{{Name: "done", ID: "k1", State: "complete"}, {Name: "frames", ID: "k3", State: "running"}, {ID: "gone"}}},
		`starts at "0 3 * * *" UTC, next 2026-03-01 12:30 UTC`:       {Schedule: &api.Schedule{Cron: "0 3 * * *", Zone: "UTC", Next: &at}},
		`starts at "@daily" UTC, last 2026-03-01 12:30 UTC, skipped 2: at 2026-03-01 12:30 UTC run k9 went on`: {Schedule: &api.Schedule{Cron: "@daily", Zone: "UTC", Last: &at, Skipped: 2, Skip: &api.Skip{At: at, Run: "k9"}}},
		"version 3, 1 of 2 tasks run": {Version: 3, Wanted: 2, Tasks: map[string]int{"running": 1}},
	} {
		if got := inUTC(at, jobNote(j)); got != want {
			t.Errorf("%q\nnot %q", got, want)
		}
	}
	for want, x := range map[string]api.Task{
		"exit code 3":                     {Message: "exit code 3", Reason: "exit", Retired: true},
		"being stopped: its peer left":    {Leaving: "its peer left", Message: "x"},
		"x; starts again at 12:30:00 UTC": {NotBefore: &at, Message: "x"},
		"not wanted any more: scaled":     {Retired: true, Reason: "scaled"},
		"moved":                           {Earlier: true, Reason: "moved"},
		"":                                {Reason: "moved"},
	} {
		if got := inUTC(at, taskNote(x)); got != want {
			t.Errorf("%q\nnot %q", got, want)
		}
	}
}

// Every state of a rollout has words, says whether somebody who waits has what was asked for, and
// what to do if not.
func TestEveryStateOfARolloutIsToldAndSettledOrNot(t *testing.T) {
	running := func(n int) map[string]int { return map[string]int{"running": n} }
	service := func(state string, tasks map[string]int) api.Job {
		j := api.Job{Name: "web", Type: string(taskstate.ServiceJob), Version: 2, Wanted: 2, Tasks: tasks}
		if state != "" {
			j.Rollout = &api.Rollout{State: state, Updated: 1, Slots: 2, Message: " it fails "}
		}
		return j
	}
	for _, x := range []struct {
		job  api.Job
		want rolloutOutcome
		text string
		todo string
	}{
		{service("", running(2)), settledWell, "version 2, 2 of 2 tasks run", "fixed file"},
		{service("", running(1)), going, "version 2, 1 of 2 tasks run", "fixed file"},
		{service("", map[string]int{"running": 2, "pending": 1}), going, "version 2, 2 of 2 tasks run", "fixed file"},
		{service("updating", running(2)), going, "updating to version 2: 1 of 2 tasks are of it (it fails)", "fixed file"},
		{service("paused", running(2)), settledBadly, "update to version 2 is paused: 1 of 2 tasks are of it (it fails)", "peer rollback web"},
		{service("completed", running(2)), settledWell, "version 2, 2 of 2 tasks run; its update is complete but for 1 task, to be replaced when the peer takes tasks", "fixed file"},
		{service("rolling-back", running(2)), going, "going back, as version 2: 1 of 2 tasks are of it (it fails)", "fixed file"},
		{service("rolled-back", running(2)), settledBadly, "version 2, 2 of 2 tasks run; it was rolled back (it fails)", "fixed file"},
		{service("rollback-paused", running(2)), settledBadly, "going back, as version 2, is paused: 1 of 2 tasks are of it (it fails)", "fixed file"},
	} {
		if got := settled(x.job); got != x.want {
			t.Errorf("%s: settled is %d", x.text, got)
		}
		if got := rolloutText(x.job); got != x.text {
			t.Errorf("%q\nnot %q", got, x.text)
		}
		if got := afterBadUpdate(x.job); !strings.Contains(got, x.todo) || strings.Contains(got, "rollback") != (x.todo == "peer rollback web") {
			t.Errorf("%s: %q", x.text, got)
		}
	}
	off, end := service("", nil), time.Now()
	if off.Wanted = 0; settled(off) != settledWell {
		t.Error("a service that is switched off has what was asked for")
	}
	if off.Type = string(taskstate.GlobalJob); settled(off) != going {
		t.Error("a global job without a peer for it has not")
	}
	over := service("paused", running(2))
	over.Ended, over.State = &end, "failed"
	if settled(over) != going || rolloutText(over) != "failed" {
		t.Errorf("its end says how it went: %q", rolloutText(over))
	}
}

func TestSettingsAreReadAsTheyAreTyped(t *testing.T) {
	got, err := settingsOf([]string{"beat=2s", "grace=1m30s", "keep-jobs=5", "keep-for=720h"})
	if want := (api.Settings{Beat: 2, Grace: 90, KeepJobs: 5, KeepFor: 720 * 3600}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for words, says := range map[string]string{
		"beat":                    "expected NAME=VALUE",
		"baet=2s":                 "did you mean beat?",
		"keep-job=3":              "did you mean keep-jobs?",
		"beat=2":                  "write 2s or 2m",
		"beat=-2s":                "expected a duration of zero or more",
		"beat=0s":                 "expected a duration above 0",
		"beat=1500us":             "is not in whole milliseconds",
		"beat=1s beat=1s":         "set twice",
		"keep-jobs=0":             "expected a whole number from 1, once",
		"keep-jobs=1 keep-jobs=2": "expected a whole number from 1, once",
		"keep-jobs=many":          "expected a whole number from 1, once",
	} {
		if _, err := settingsOf(strings.Fields(words)); api.AsError(err).Code != api.Usage || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", words, err)
		}
	}
}

func TestADryRunSaysWhereTasksWouldGoAndWhyNot(t *testing.T) {
	for what, x := range map[string]struct {
		p    api.Preview
		want []string
	}{
		"all have a place": {api.Preview{Tasks: 2, Places: []api.Place{{Peer: "id-of-a-long-peer", PeerName: "wren", Tasks: 2}}}, []string{"PEER", "ng-peer  wren  2"}},
		"some wait":        {api.Preview{Tasks: 3, Waiting: 1, Reason: "no room", Queued: 1}, []string{"1 of them would wait there until something ends", "1 of 3 would wait: no room"}},
		"nowhere":          {api.Preview{Refused: []api.Refusal{{Reason: "no gpu"}, {Reason: "paused"}}}, []string{"no task anywhere: no gpu; paused"}},
		"none to place":    {api.Preview{}, []string{"no tasks to place"}},
		"not everywhere":   {api.Preview{Tasks: 1, Refused: []api.Refusal{{Reason: "paused"}}, Notes: []string{"mind the gap"}}, []string{"none elsewhere: paused", "mind the gap"}},
	} {
		var b bytes.Buffer
		previewText(&b, x.p)
		for _, want := range append(x.want, "nothing was changed (--dry-run)") {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: %q is not in\n%s", what, want, b.String())
			}
		}
	}
}

// inUTC has a text name UTC in the place of this machine's zone.
func inUTC(at time.Time, text string) string {
	return strings.ReplaceAll(text, at.Format(" MST"), " UTC")
}
