package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"covey/node/api"
	"covey/taskstate"
	"covey/taskstate/jobfile"
)

const submitLong = `Submit a job file; print the job's id on stdout.

A service, global or scheduled job is known by its name: a file with the name of one that goes on
is an update of it. What changes is shown, and whether that restarts its tasks: then they are
replaced as the file's update: says, and ` + "`peer rollout JOB`" + ` shows how far that is. Without changes
nothing happens.

--wait stays until the job ends, shows its output and exits with its code. With a service or a
global job it stays until all tasks run, or the update is complete, and exits 1 if that is paused
or turned back.

--dry-run shows where the tasks would go now, or why they would wait, and what an update changes.
Nothing is changed.

Who knows other schedulers may expect otherwise: an unknown key, and a constraint that cannot be
read, are refused, never skipped; in constraints, values with blanks want quotes. A batch task
that fails stays failed unless restart: says otherwise, a service's is started again after a
second, and later each time if it goes on ending at once. A failed task is never restarted in
place: its slot gets a new attempt. Reachability is no state of a task: what cannot be reached may
still run. Tasks of a service do not move because a peer joined; see ` + "`peer rebalance`" + `. A
rollback is never rolled back, and one that fails stays paused. Declared resources are counted,
not enforced. docs/differences.md has them all.`

func (c *cli) submitCommand() *cobra.Command {
	var wait, dry bool
	var maxOutput string
	cmd := &cobra.Command{
		Use:   "submit FILE",
		Short: "Submit a job file, or an update of a service; print the job's id",
		Long:  submitLong,
		Example: `  peer submit frames.yaml
  peer submit --wait frames.yaml && echo all done
  peer submit --dry-run web.yaml       what would change, and where tasks would go
  peer submit --wait web.yaml          roll a new version out`,
		Args: exactly(1, "a job file (- for stdin)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, err := c.readJob(args[0])
			if err == nil && maxOutput != "" {
				if job.MaxOutput, err = jobfile.ParseOutput(maxOutput); err != nil {
					err = api.Errorf(api.Usage, "--max-output: %v", err)
				}
			}
			switch {
			case err != nil && wait && !dry:
				return c.taskly(err)
			case err != nil:
				return err
			case dry:
				return c.preview(cmd.Context(), job)
			}
			err = c.runJob(cmd.Context(), job, !wait, outputFlags{})
			if wait && err != nil {
				return c.taskly(err)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "stay until it ends (a service: until it runs), show its output, exit with its code")
	cmd.Flags().StringVar(&maxOutput, "max-output", "", "`SIZE` kept of each task's stdout and stderr, whatever the file says")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show what would happen")
	return cmd
}

// readJob reads a job file.
func (c *cli) readJob(file string) (*taskstate.Job, error) {
	name := file
	if file == "-" {
		name = "stdin"
	}
	data, err := fileOrStdin(file, c.In, jobfile.MaxFile)
	if err != nil {
		return nil, api.Errorf(api.Usage, "%v", err)
	}
	job, err := jobfile.Parse(name, data, jobfile.Options{})
	if err != nil {
		return nil, api.Errorf(api.Usage, "%v", err)
	}
	return job, nil
}

// showChanges tells what an update changes.
func (c *cli) showChanges(w io.Writer, changes []taskstate.Change) {
	if len(changes) == 0 {
		fmt.Fprintln(w, "nothing changed")
		return
	}
	t, restarts := table("FIELD", "FROM", "TO", "TASKS"), false
	for _, x := range changes {
		what := "go on"
		if x.Restarts {
			what, restarts = "restart", true
		}
		t.add(x.Field, orDash(x.From), orDash(x.To), what)
	}
	t.write(w)
	if restarts {
		fmt.Fprintln(w, "its tasks are replaced as its update: says; `peer rollout` shows how far that is")
	}
}

// preview shows what a job would do.
func (c *cli) preview(ctx context.Context, job *taskstate.Job) error {
	p, err := c.client().Preview(ctx, api.Submit{Job: *job})
	if err != nil {
		return err
	}
	return emit(c, p, p.Places, func(w io.Writer) {
		if p.Update {
			fmt.Fprintf(w, "an update of job %s\n", p.ID)
			c.showChanges(w, p.Changes)
		}
		previewText(w, p)
	})
}

func previewText(w io.Writer, p api.Preview) {
	if len(p.Places) > 0 {
		t := table("PEER", "NAME", "TASKS")
		for _, x := range p.Places {
			t.add(shortID(x.Peer), orDash(x.PeerName), strconv.Itoa(x.Tasks))
		}
		t.write(w)
	}
	if p.Queued > 0 {
		fmt.Fprintf(w, "%d of them would wait there until something ends\n", p.Queued)
	}
	if p.Waiting > 0 {
		fmt.Fprintf(w, "%d of %d would wait: %s\n", p.Waiting, p.Tasks, p.Reason)
	}
	var refused []string
	for _, r := range p.Refused {
		refused = append(refused, r.Reason)
	}
	switch why := strings.Join(refused, "; "); {
	case p.Tasks == 0 && why != "" && !p.Update:
		fmt.Fprintln(w, "no task anywhere: "+why)
	case p.Tasks == 0:
		fmt.Fprintln(w, "no tasks to place")
	case p.Waiting == 0 && why != "" && !p.Update: // one on each peer, but for these
		fmt.Fprintln(w, "none elsewhere: "+why)
	}
	for _, n := range p.Notes {
		fmt.Fprintln(w, n)
	}
	fmt.Fprintln(w, "nothing was changed (--dry-run)")
}

// awaitRollout stays until all tasks of a service or global job run as they should.
func (c *cli) awaitRollout(ctx context.Context, id string) error {
	ctx, cancel := signal.NotifyContext(ctx, os.Interrupt)
	defer cancel()
	var last api.Job
	verdict, bar := going, newProgress(c.Err)
	why := whyTeller{w: c.Err, bar: bar}
	err := c.client().Follow(ctx, id, false, func(p api.Progress) error {
		last = p.Job
		why.heard(p.Job)
		bar.show(p.Job)
		if verdict = settled(p.Job); verdict != going {
			return errSettled
		}
		return nil
	})
	bar.done()
	switch {
	case verdict == settledWell:
		fmt.Fprintln(c.Err, rolloutText(last))
		return nil
	case last.Over():
		if c.sayCancelled(last); last.Cancelled == "" && failures(last) > 0 {
			fmt.Fprintf(c.Err, "peer: job %s is over: %s; `peer explain %s` tells why\n", last.ID, jobState(last.State), last.ID)
		}
		return jobExit(last)
	case verdict == settledBadly:
		fmt.Fprintf(c.Err, "peer: job %s: %s; %s\n", id, rolloutText(last), afterBadUpdate(last))
		return exitError(1)
	case ctx.Err() != nil:
		fmt.Fprintf(c.Err, "detached; job %s keeps running: see `peer rollout %s`\n", id, id)
		return exitError(interruptCode)
	}
	return err
}

// errSettled ends following a job whose update has come to its end.
var errSettled = fmt.Errorf("settled")

type verdict int

const (
	going verdict = iota
	settledWell
	settledBadly
)

// settled tells whether what was asked of a service or global job has come about, or will not by
// itself.
func settled(j api.Job) verdict {
	if j.Over() {
		return going // its end says how it went
	}
	if r := j.Rollout; r != nil {
		switch r.State {
		case "paused", "rolled-back", "rollback-paused":
			return settledBadly
		case "updating", "rolling-back":
			return going
		}
	}
	if r := j.Rollout; r != nil && r.Failed > 0 && j.Tasks["running"]+j.Tasks["complete"] >= j.Wanted-r.Failed {
		return settledWell // the update bore it; its restarts go on
	}
	if j.Tasks["running"]+j.Tasks["complete"] == j.Wanted && (j.Wanted > 0 || j.Type == string(taskstate.ServiceJob)) && j.Tasks["pending"] == 0 {
		return settledWell
	}
	return going
}

// afterBadUpdate says what to do about an update that came to nothing.
func afterBadUpdate(j api.Job) string {
	if j.Rollout != nil && j.Rollout.State == "paused" {
		return fmt.Sprintf("`peer explain %s` tells why; submit a fixed file, or go back with `peer rollback %s`", j.Name, j.Name)
	}
	return fmt.Sprintf("`peer explain %s` tells why; submit a fixed file", j.Name)
}

// rolloutText says in a line how far a service or global job is.
func rolloutText(j api.Job) string {
	if j.Over() {
		return jobState(j.State)
	}
	text := fmt.Sprintf("version %d, %d of %d tasks run", max(j.Version, 1), reached(j), j.Wanted)
	r := j.Rollout
	if r == nil {
		return text
	}
	done := fmt.Sprintf("%d of %d tasks are of it", r.Updated, r.Slots)
	switch r.State {
	case "updating":
		text = fmt.Sprintf("updating to version %d: %s", j.Version, done)
	case "paused":
		text = fmt.Sprintf("update to version %d is paused: %s", j.Version, done)
	case "completed":
		text += "; its update is complete"
		if r.Failed > 0 {
			text += fmt.Sprintf(", and failed on %s; `peer explain %s` tells why", tasksText(r.Failed), j.Name)
		}
		if old := j.Tasks["running"] - r.Updated; old > 0 { // of a global job, on peers that take nothing now
			text += fmt.Sprintf(" but for %s, to be replaced when the peer takes tasks", tasksText(old))
		}
	case "rolling-back":
		text = fmt.Sprintf("going back, as version %d: %s", j.Version, done)
	case "rolled-back":
		text += "; it was rolled back"
	case "rollback-paused":
		text = fmt.Sprintf("going back, as version %d, is paused: %s", j.Version, done)
	}
	if r.Message != "" && r.State != "completed" {
		text += " (" + strings.TrimSpace(r.Message) + ")"
	}
	return text
}
