package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
)

type jobFilter struct {
	states []string
	name   string
	limit  int
}

func (f jobFilter) check() error {
	for _, s := range f.states {
		if s != taskstate.Shutdown.String() && !slices.Contains(jobStates, s) {
			msg := fmt.Sprintf("--state %q: expected %s", s, strings.Join(jobStates, ", "))
			if near := spell.Nearest(s, jobStates); near != "" {
				msg += fmt.Sprintf("; did you mean %s?", near)
			}
			return api.Errorf(api.Usage, "%s", msg)
		}
	}
	if f.limit < 0 {
		return api.Errorf(api.Usage, "--limit %d: expected a whole number from 1", f.limit)
	}
	return nil
}

// query asks for what may be asked for.
func (f jobFilter) query() api.JobQuery {
	q := api.JobQuery{Limit: f.limit}
	for _, s := range f.states {
		if s == taskstate.Shutdown.String() {
			s = "cancelled"
		}
		q.States = append(q.States, s)
	}
	if f.name != "" {
		q.Limit = 0
	}
	return q
}

// of are the jobs that were asked for, in the order they come.
func (f jobFilter) of(jobs []api.Job) []api.Job {
	out := make([]api.Job, 0, len(jobs))
	for _, j := range jobs {
		if f.limit > 0 && len(out) == f.limit {
			break
		}
		if (len(f.states) == 0 || slices.Contains(f.states, j.State) || slices.Contains(f.states, jobState(j.State))) && (f.name == "" || j.Name == f.name) {
			out = append(out, j)
		}
	}
	return out
}

var jobStates = api.JobStates

func jobsCommand(c *cli) *cobra.Command {
	var f jobFilter
	var wide bool
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "All jobs, newest first",
		Example: `  peer jobs
  peer jobs --state running,pending --limit 20
  peer jobs --name frames -o jsonl | jq -r .id`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			js, err := c.client().SomeJobs(cmd.Context(), f.query())
			if err != nil {
				return err
			}
			js.Jobs, js.All = f.of(js.Jobs), 0
			return emit(c, nil, js, js.Jobs, func(w io.Writer) {
				c.carryJobs(js.Jobs...)
				t := jobsTable(js.Jobs)
				if !wide {
					t.fit(w)
				}
				t.write(w)
			})
		},
	}
	cmd.Flags().StringSliceVar(&f.states, "state", nil, "only jobs in these `STATES`: "+strings.Join(jobStates, ", "))
	cmd.Flags().StringVar(&f.name, "name", "", "only jobs with this `NAME`")
	cmd.Flags().BoolVar(&wide, "wide", false, "whole lines, however narrow the terminal is")
	cmd.Flags().IntVar(&f.limit, "limit", 0, "only the newest `N` of them")
	return cmd
}

// tally is where the tasks of a job are, each in one of these.
type tally struct{ done, running, waiting, failed, stopped, away int }

func tallyOf(j api.Job) tally {
	var t tally
	for state, n := range j.Tasks {
		switch state {
		case "complete":
			t.done += n
		case "starting", "running", "saving":
			t.running += n
		case "failed", "rejected", "orphaned":
			t.failed += n
		case "shutdown":
			t.stopped += n
		default: // nobody has it, or it stands in line on a peer
			t.waiting += n
		}
	}
	t.away = j.Tasks["running"] - reached(j)
	t.running -= t.away
	return t
}

// jobsTable has a column for tasks that were stopped, and one for those that cannot be reached, if
// there are any.
func jobsTable(jobs []api.Job) *grid {
	var all tally
	for _, j := range jobs {
		t := tallyOf(j)
		all.away, all.stopped = all.away+t.away, all.stopped+t.stopped
	}
	columns := func(cells []string, away, stopped string) []string {
		if all.away > 0 {
			cells = append(cells, away)
		}
		if all.stopped > 0 {
			cells = append(cells, stopped)
		}
		return cells
	}
	t := table(append(columns([]string{"ID", "NAME", "STATE", "DONE", "RUNNING", "WAITING", "FAILED"}, "AWAY", "STOPPED"), "AGE", "TOOK", "NOTE")...)
	for _, j := range jobs {
		n := tallyOf(j)
		done, running := fmt.Sprintf("%d/%d", n.done, j.Count), strconv.Itoa(n.running)
		switch {
		case j.Version > 0 && n.done == 0:
			done, running = "-", fmt.Sprintf("%d/%d", n.running, j.Wanted)
		case j.Version > 0:
			done, running = strconv.Itoa(n.done), fmt.Sprintf("%d/%d", n.running, j.Wanted)
		case j.Schedule != nil: // the tasks are those of its runs
			done, running = "-", "-"
		}
		cells := []string{j.ID, orDash(j.Name), jobState(j.State), done, running, strconv.Itoa(n.waiting), strconv.Itoa(n.failed)}
		t.add(append(columns(cells, strconv.Itoa(n.away), strconv.Itoa(n.stopped)), ago(j.Submitted), took(j), tableNote(j))...)
	}
	return t
}
