package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
)

const jobsShown = 20 // in a table

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
		return api.Errorf(api.Usage, "--limit %d: expected a whole number, 0 for all", f.limit)
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

// of are the jobs that were asked for, in the order they come, and how many there are without the
// limit.
func (f jobFilter) of(jobs []api.Job) (out []api.Job, all int) {
	out = make([]api.Job, 0, len(jobs))
	for _, j := range jobs {
		if (len(f.states) == 0 || slices.Contains(f.states, j.State) || slices.Contains(f.states, jobState(j.State))) && (f.name == "" || j.Name == f.name) {
			if all++; f.limit == 0 || all <= f.limit {
				out = append(out, j)
			}
		}
	}
	return out, all
}

var jobStates = api.JobStates

func jobsCommand(c *cli) *cobra.Command {
	var f jobFilter
	var wide bool
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "The last jobs, the newest next to the prompt",
		Long: `The last twenty jobs, the newest at the end, next to the prompt: how many of their tasks are done,
run, failed, wait or were stopped, and how their command begins. In JSON all jobs, newest first.`,
		Example: `  peer jobs
  peer jobs --limit 0 --wide
  peer jobs --state running,pending --limit 20
  peer jobs --name frames -o jsonl | jq -r .id`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if c.output == tableFormat && !cmd.Flags().Changed("limit") {
				f.limit = jobsShown
			}
			js, err := c.client().SomeJobs(cmd.Context(), f.query())
			if err != nil {
				return err
			}
			jobs, all := f.of(js.Jobs)
			older := max(all, js.All) - len(jobs)
			js.Jobs, js.All = jobs, 0
			return emit(c, nil, js, js.Jobs, func(w io.Writer) {
				if older > 0 {
					fmt.Fprintf(c.Err, "older jobs: %d; --limit 0 shows them\n", older)
				}
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
	cmd.Flags().IntVarP(&f.limit, "limit", "n", 0, "only the newest `N` of them, 0: all (in a table 20 if not given)")
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

// jobsTable has the newest job last, next to the prompt.
func jobsTable(jobs []api.Job) *grid {
	t := table("ID", "NAME", "STATE", "TASKS", "AGE", "TOOK", "COMMAND", "NOTE")
	for _, j := range slices.Backward(jobs) {
		t.add(j.ID, orDash(j.Name), jobState(j.State), tallyText(j), ago(j.Submitted), took(j), orDash(j.Command), tableNote(j))
	}
	return t
}

// tallyText is how many tasks of a job are done, and where the others are.
func tallyText(j api.Job) string {
	n := tallyOf(j)
	var parts []string
	part := func(n int, words string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(words, n))
		}
	}
	switch {
	case j.Schedule != nil: // the tasks are those of its runs
		return "-"
	case j.Version > 0:
		parts = append(parts, fmt.Sprintf("%d/%d run", n.running, j.Wanted))
		part(n.done, "%d done")
	default:
		parts = append(parts, fmt.Sprintf("%d/%d", n.done, j.Count))
		part(n.running, "%d run")
	}
	part(n.failed, "%d failed")
	part(n.away, "%d away")
	part(n.waiting, "%d wait")
	part(n.stopped, "%d stopped")
	return strings.Join(parts, ", ")
}
