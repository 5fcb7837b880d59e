package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/taskstate"
)

func jobCommand(c *cli) *cobra.Command {
	var file bool
	cmd := &cobra.Command{
		Use:   "job ID",
		Short: "One job: what it runs, state, counts, why it waits",
		Long: `One job: what it runs and needs, its state, its tasks, how fast they end and how long they ran,
which peers are clearly slower than the others, why any of them wait, and what cannot be reached.
--file prints a job file that would do the same, to be changed and submitted again.`,
		Example: "  peer job last\n  peer job k3v5 -o json\n  peer job sweep --file > sweep.yaml",
		Args:    exactly(1, "a job: its id, a unique prefix, its name, or `last`"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.noteNamesakes(cmd.Context(), args...)
			if file {
				f, err := c.client().JobFile(cmd.Context(), args[0])
				return emit(c, err, f, []api.JobFile{f}, func(w io.Writer) { fmt.Fprint(w, f.File) })
			}
			a, err := c.client().Job(cmd.Context(), args[0])
			return emit(c, err, a, []api.Job{a.Job}, func(w io.Writer) {
				c.carryJobs(a.Job)
				jobText(w, a.Job)
				if failures(a.Job) > 0 || restarts(a.Job) {
					failuresText(w, failuresOf(cmd.Context(), c.client(), a.Job.ID))
				}
			})
		},
	}
	cmd.Flags().BoolVar(&file, "file", false, "print a job file that would do the same, values of its environment included")
	return cmd
}

func jobText(w io.Writer, j api.Job) {
	line := func(k, v string) {
		if v != "" {
			fmt.Fprintf(w, "%-10s %s\n", k, printable(v))
		}
	}
	line("id", j.ID)
	line("name", j.Name)
	specText(line, j.Spec)
	fmt.Fprintf(w, "%-10s %s\n", "state", styleFor(w).state(jobState(j.State)))
	var parts []string
	for _, s := range []string{"pending", "assigned", "accepted", "preparing", "ready", "starting", "running", "saving", "complete", "failed", "rejected", "shutdown", "orphaned"} {
		n := j.Tasks[s]
		if s == "running" {
			n = reached(j)
			if away := j.Tasks[s] - n; away > 0 {
				parts = append(parts, fmt.Sprintf("%d unreachable", away))
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, taskstate.Shown(s)))
		}
	}
	if j.Version > 0 {
		line("type", j.Type)
		line("rollout", rolloutText(j))
	}
	if all := tasksOf(j); all > 0 { // a schedule has none: they are those of its runs
		line("tasks", fmt.Sprintf("%d: %s", all, strings.Join(parts, ", ")))
	}
	if !j.Over() {
		line("progress", paceLine(j))
	}
	line("times", timesText(j.Pace))
	for _, text := range j.Pace.Slow(short) {
		line("slow", text)
	}
	line("submitted", j.Submitted.Local().Format(withZone)+" through "+cmp.Or(j.SubmitterName, shortID(j.Submitter)))
	if j.Ended != nil {
		line("ended", j.Ended.Local().Format(withZone)+", took "+took(j))
	}
	if j.Version == 0 {
		line("note", jobNote(j))
	}
	line("order", orderText(j, time.Now()))
	line("cancelled", j.Cancelled)
	line("waiting", j.Waiting)
	for _, a := range j.Unreachable {
		line("away", awayText(a))
	}
	for _, s := range j.Sole {
		line("output", fmt.Sprintf("kept once only: what %s printed is on %s (%s)", tasksText(s.Tasks), cmp.Or(s.PeerName, shortID(s.Peer)), s.Why))
	}
}

// failuresOf asks how tasks of a job failed; nothing if that cannot be told, as one may not read
// it.
func failuresOf(ctx context.Context, cl *client.Client, job string) (f api.Failures) {
	r, err := cl.Raw(ctx, http.MethodGet, "/v1/jobs/"+url.PathEscape(job)+"/failures", "", nil)
	if err != nil {
		return f
	}
	defer r.Close()
	if json.NewDecoder(r).Decode(&f) != nil {
		return api.Failures{}
	}
	return f
}

// mostFailures is how many ways to fail are shown of a job.
const mostFailures = 5

// failuresText says how tasks failed, in groups, each with the different lines that some of them
// printed last.
func failuresText(w io.Writer, f api.Failures) {
	for i, g := range f.Groups {
		if i == mostFailures {
			fmt.Fprintf(w, "%-10s and in %d other ways; see `peer tasks ID --failed`\n", "", len(f.Groups)-i)
			return
		}
		said := g.Said()
		if len(said) == 0 {
			said = g.Examples[:1]
		}
		for k, e := range said {
			how := cmp.Or(g.Message, g.Reason, g.State) + " on " + failedOn(g.Peers)
			name, line := "failed", fmt.Sprintf("%d × %s: ", g.Count, how)
			switch {
			case g.Count == 0:
				line = fmt.Sprintf("%s before: %s: ", countOf(g.Earlier, "attempt"), how)
			case g.Earlier > 0:
				line = fmt.Sprintf("%d × %s, and %s before: ", g.Count, how, countOf(g.Earlier, "attempt"))
			}
			if k > 0 {
				name, line = "", "  or: "
			}
			task := api.ShortTask(cmp.Or(e.Named, e.Task))
			fmt.Fprintf(w, "%-10s %s (task %s)\n", name, printable(strings.TrimSuffix(line+e.Last, ": ")), task)
		}
	}
}

// failedText says of a group how often, how and where attempts failed, and what was printed last.
func failedText(g api.Failure, said string) string {
	line := fmt.Sprintf("%d × %s on %s: %s", g.Count+g.Earlier, cmp.Or(g.Message, g.Reason, g.State), failedOn(g.Peers), said)
	return strings.TrimSuffix(line, ": ")
}

func failedOn(peers []api.PeerCount) string {
	const most = 3
	var names []string
	for _, p := range peers[:min(len(peers), most)] {
		names = append(names, cmp.Or(p.PeerName, shortID(p.Peer)))
	}
	if more := len(peers) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// tasksOf counts the tasks of a job, those included that are only still to be stopped.
func tasksOf(j api.Job) (all int) {
	for _, n := range j.Tasks {
		all += n
	}
	return all
}

// paceLine is the line of progress of a job as it stands, without its bar.
func paceLine(j api.Job) string {
	if j.Pace == nil || j.Count < 2 {
		return ""
	}
	line := progressCounts(j)
	if j.Pace.Rate > 0 {
		line += "  " + number(j.Pace.Rate) + "/s"
	}
	if j.Pace.Left > 0 {
		line += "  " + timeLeft(j.Pace.Left)
	}
	if on := peersText(j.Pace.Running); on != "" {
		line += "  " + on
	}
	return line
}

func timesText(p *api.Pace) string {
	if p == nil || p.Longest == "" {
		return ""
	}
	return fmt.Sprintf("tasks ran %s on average, after waiting %s; the longest, %s, %s",
		short(seconds(p.Ran)), short(seconds(p.Waited)), p.Longest, short(seconds(p.LongestTook)))
}
