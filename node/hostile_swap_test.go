//go:build !race

package node // the lie is told by writing into what the coordinator reads, which is a race of the test's own

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// pausedFor has a peer take no tasks, or take them again.
func (l *living) pausedFor(peer string, paused bool) {
	l.t.Helper()
	to := api.Active
	if paused {
		to = api.Paused
	}
	if _, err := l.orders.SetAvailability(timed(l.t), peer, api.Availability{Availability: to}); err != nil {
		l.t.Fatal(err)
	}
}

// swaps has the coordinator give out another job than the one that was signed: what is placed next.
func (l *living) swaps(id string, change func(*taskstate.Job)) {
	l.t.Helper()
	l.replica.Read(func(s *ledger.State) {
		j, ok := s.Job(taskstate.JobID(id))
		if !ok {
			l.t.Errorf("no job %s", id)
			return
		}
		change(j.Job())
	})
}

// Attack (a): the coordinator changes one byte of what a job runs. Its task is rejected where it
// was to run, which its audit log says, and has not run.
func TestACoordinatorChangesNothingOfAJob(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	liar, worker := all[0], all[1]
	ran := filepath.Join(t.TempDir(), "ran")
	job := func(name string) taskstate.Job {
		j := shellJob(name, 1, "echo run >> "+ran)
		j.Constraints = []string{"peer.name == two"}
		return j
	}
	script, items := job("script"), job("items")
	script.Run.Process = &taskstate.Process{Script: []byte("#!/bin/sh\necho run >> " + ran + "\n")}
	items.Each, items.Count = []string{"a", "b", "c"}, 3
	cases := map[string]struct {
		job    taskstate.Job
		change func(*taskstate.Job)
	}{
		"command": {job("command"), func(j *taskstate.Job) { j.Run.Process.Command[0] += " " }},
		"env":     {job("env"), func(j *taskstate.Job) { j.Run.Process.Env = map[string]string{"LD_PRELOAD": "x"} }},
		"script":  {script, func(j *taskstate.Job) { j.Run.Process.Script = append(j.Run.Process.Script, '#') }},
		"user":    {job("user"), func(j *taskstate.Job) { j.Order.By = liar.self }},
		"time":    {job("time"), func(j *taskstate.Job) { j.Order.Until++ }},
		"output":  {job("output"), func(j *taskstate.Job) { j.MaxOutput = 1 << 40 }},
		"item":    {items, func(j *taskstate.Job) { j.Each[1] = "B" }},
		"more":    {job("more"), func(j *taskstate.Job) { j.Count++ }},
	}
	liar.pausedFor("two", true)
	ids := map[string]string{}
	for what, c := range cases {
		ids[what] = worker.submit(c.job)
	}
	applied := worker.replica.Applied()
	eventually(t, "the coordinator has them", func() (bool, string) { return liar.replica.Applied() >= applied, "" })
	for what, c := range cases {
		liar.swaps(ids[what], c.change)
	}
	liar.pausedFor("two", false)
	for what, id := range ids {
		eventually(t, what+" is refused", func() (bool, string) {
			lines := worker.refusals(id)
			return slices.ContainsFunc(lines, func(s string) bool {
				return strings.Contains(s, "signed")
			}), strings.Join(lines, "")
		})
		eventually(t, what+": the job's story says why", func() (bool, string) {
			story, err := worker.Backend().Explain(t.Context(), id)
			return err == nil && slices.ContainsFunc(story.Explain, func(f api.Fact) bool {
				return strings.Contains(f.Text, "signed")
			}), fmt.Sprintf("%+v, %v", story.Explain, err)
		})
	}
	if b, err := os.ReadFile(ran); err == nil {
		t.Errorf("something ran: %s", b)
	}
}
