package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/taskstate"
)

func rolloutCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "rollout JOB [pause|continue]",
		Short: "Show, pause or continue a service's update",
		Long: `How far the tasks of a service or global job follow its newest version. An update that fails
pauses by itself, unless the job's update.on_failure says otherwise: continue goes on all the
same, ` + "`peer rollback`" + ` goes back, and submitting a better file is an update like any other.`,
		Example: "  peer rollout web\n  peer rollout web pause\n  peer rollout web continue",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 && (args[1] == api.PauseRollout || args[1] == api.ContinueRollout) {
				return nil
			}
			return exactly(1, "a job, and after it nothing, pause or continue")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			var a api.JobAnswer
			if len(args) == 2 {
				a, err = c.client().Rollout(cmd.Context(), args[0], args[1])
			} else if a, err = c.client().Job(cmd.Context(), args[0]); err == nil && a.Job.Version == 0 {
				err = api.Errorf(api.Usage, "job %s has no versions; only service and global jobs are rolled out", a.Job.ID)
			}
			return showRollout(c, a, err)
		},
	}
}

func showRollout(c *cli, a api.JobAnswer, err error) error {
	return emit(c, err, a, []api.Job{a.Job}, func(w io.Writer) {
		c.carryJobs(a.Job)
		fmt.Fprintf(w, "%s: %s\n", a.Job.Name, rolloutText(a.Job))
		if a.Job.Waiting != "" {
			fmt.Fprintln(w, printable(waitingText(a.Job.Waiting)))
		}
		for _, x := range a.Job.Unreachable {
			fmt.Fprintln(w, printable(awayText(x)))
		}
	})
}

// proofTime is how long tasks that no update watches have to run before they count as running: one
// that cannot run mostly ends sooner.
const proofTime = time.Second

// awaitRollout stays until all tasks of a service or global job run as they should.
func awaitRollout(ctx context.Context, cl *client.Client, w io.Writer, id string) error {
	ctx, cancel := signal.NotifyContext(ctx, os.Interrupt)
	defer cancel()
	var last api.Job
	verdict, bar := going, newProgress(w)
	why := whyPrinter{w: w, bar: bar}
	proven, end := context.WithCancel(ctx)
	defer end()
	var proof *time.Timer // since all run
	err := cl.Follow(proven, id, false, func(p api.Progress) error {
		last = p.Job
		why.heard(p.Job)
		bar.show(p.Job)
		switch verdict = settled(p.Job); {
		case verdict == settledWell && p.Job.Rollout == nil:
			if proof == nil {
				proof = time.AfterFunc(proofTime, end)
			}
			return nil
		case verdict != going:
			return errSettled
		case proof != nil:
			proof.Stop()
			proof = nil
		}
		return nil
	})
	bar.done()
	proved := proven.Err() != nil && ctx.Err() == nil
	switch {
	case proved && verdict == going && !last.Over(): // they stopped running as the time was up
		return awaitRollout(ctx, cl, w, id)
	case verdict == settledWell && (proved || errors.Is(err, errSettled)):
		fmt.Fprintln(w, rolloutText(last))
		return nil
	case last.Over():
		if sayCancelled(w, last); last.Cancelled == "" && failures(last) > 0 {
			fmt.Fprintf(w, "peer: job %s is over: %s; `peer explain %s` tells why\n", last.ID, jobState(last.State), last.ID)
		}
		return jobExit(last)
	case verdict == settledBadly:
		fmt.Fprintf(w, "peer: job %s: %s; %s\n", id, rolloutText(last), afterBadUpdate(last))
		return exitError(1)
	case ctx.Err() != nil:
		fmt.Fprintf(w, "detached; job %s keeps running: see `peer rollout %s`\n", id, id)
		return exitError(interruptCode)
	}
	return err
}

// errSettled ends following a job whose update has come to its end.
var errSettled = errors.New("settled")

type rolloutOutcome int

const (
	going rolloutOutcome = iota
	settledWell
	settledBadly
)

// settled tells whether what was asked of a service or global job has come about, or will not by
// itself.
func settled(j api.Job) rolloutOutcome {
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
