package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
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
			return showRollout(cmd.Context(), c, a, err)
		},
	}
}

func showRollout(ctx context.Context, c *cli, a api.JobAnswer, err error) error {
	return emit(c, err, a, []api.Job{a.Job}, func(w io.Writer) {
		c.carryJobs(a.Job)
		fmt.Fprintf(w, "%s: %s\n", a.Job.Name, rolloutText(a.Job))
		if a.Job.Waiting != "" {
			fmt.Fprintln(w, printable(waitingText(a.Job.Waiting)))
		}
		if restarts(a.Job) {
			failuresText(w, failuresOf(ctx, c.client(), a.Job.ID))
		}
		for _, x := range a.Job.Unreachable {
			fmt.Fprintln(w, printable(awayText(x)))
		}
	})
}

// proofTime is how long tasks that no update watches have to run at least before they count as
// running, where update.monitor is less: one that cannot run mostly ends sooner.
const proofTime = time.Second

// rolloutWait stays until all tasks of a service or global job run as they should.
type rolloutWait struct {
	cl      *client.Client
	w       io.Writer
	id      string
	monitor time.Duration // they have to run so long
	limited bool          // its attempts come to an end

	bar    *progress
	failed string // what tasks of it failed of, and how often; "": none did
	asked  time.Time
	begun  bool // the first line of the job has come, which tells of what was before
}

func awaitRollout(ctx context.Context, cl *client.Client, w io.Writer, id string, job *taskstate.Job) error {
	ctx, cancel := signal.NotifyContext(ctx, os.Interrupt)
	defer cancel()
	r := rolloutWait{cl: cl, w: w, id: id, bar: newProgress(w)}
	r.monitor = max(proofTime, time.Duration(job.Updating().Monitor)*time.Millisecond)
	r.limited = job.Restart != nil && job.Restart.Attempts > 0
	return r.look(ctx)
}

// look follows the job until it is settled. A service that no update watches is settled well when
// all run for the time to monitor, and badly when none does at the end of that time, after the
// first failure.
func (r *rolloutWait) look(ctx context.Context) error {
	var last api.Job
	verdict := going
	why := whyPrinter{w: r.w, bar: r.bar}
	timed, end := context.WithCancel(ctx)
	defer end()
	var proved, late atomic.Bool
	var proof, limit *time.Timer // since all run; since the first failure
	err := r.cl.Follow(timed, r.id, true, func(p api.Progress) error {
		last = p.Job
		r.heard(timed, p)
		if r.failed != "" && restarts(p.Job) {
			p.Job.Waiting = "" // said better
		}
		why.heard(p.Job)
		r.bar.show(p.Job)
		if r.failed != "" {
			r.bar.text("failed " + printable(r.failed))
		}
		switch verdict = settled(p.Job); {
		case verdict == settledWell && p.Job.Rollout == nil:
			if proof == nil {
				proof = time.AfterFunc(r.monitor, func() { proved.Store(true); end() })
			}
			return nil
		case verdict != going:
			return errSettled
		case proof != nil:
			proof.Stop()
			proof = nil
		}
		if limit == nil && r.failed != "" && !r.limited && p.Job.Rollout == nil {
			limit = time.AfterFunc(r.monitor, func() { late.Store(true); end() })
		}
		return nil
	})
	r.bar.done()
	switch {
	case verdict == settledWell && (proved.Load() || errors.Is(err, errSettled)):
		fmt.Fprintln(r.w, rolloutText(last))
		return nil
	case last.Over():
		if sayCancelled(r.w, last); last.Cancelled == "" && failures(last) > 0 {
			fmt.Fprintf(r.w, "peer: job %s is over: %s; `peer explain %s` tells why\n", last.ID, jobState(last.State), last.ID)
		}
		return jobExit(last)
	case verdict == settledBadly:
		fmt.Fprintf(r.w, "peer: job %s: %s; %s\n", r.id, rolloutText(last), afterBadUpdate(last))
		return exitError(1)
	case ctx.Err() != nil:
		fmt.Fprintf(r.w, "detached; job %s keeps running: see `peer rollout %s`\n", r.id, r.id)
		return exitError(interruptCode)
	case late.Load() && verdict == going && last.Tasks["running"] == 0 && (last.Waiting == "" || restarts(last)): // not for room
		fmt.Fprintf(r.w, "peer: job %s: no task of it runs, after %s: failed %s. It is begun again and again until `peer cancel %s`; submit a fixed file to mend it\n", r.id, short(r.monitor), printable(r.failed), r.id)
		return exitError(1)
	case timed.Err() != nil: // some run, or they stopped running as the time was up
		return r.look(ctx)
	}
	return err
}

// restarts reports whether a job waits for a task that has ended to be begun again.
func restarts(j api.Job) bool { return strings.HasPrefix(j.Waiting, "restart: ") }

// failuresEvery is how often is asked what tasks failed of.
const failuresEvery = time.Second

// heard finds out why tasks failed, and prints it once where no line can be drawn over.
func (r *rolloutWait) heard(ctx context.Context, p api.Progress) {
	bad := restarts(p.Job) || r.begun && slices.ContainsFunc(p.Tasks, func(t api.Task) bool { return t.Attempt > 1 || t.State == "failed" || t.State == "rejected" })
	r.begun = true
	if !bad || p.Job.Rollout != nil || time.Since(r.asked) < failuresEvery {
		return
	}
	r.asked = time.Now()
	f := failuresOf(ctx, r.cl, r.id)
	if len(f.Groups) == 0 {
		return
	}
	first := r.failed == ""
	if r.failed = failedText(f.Groups[0], f.Groups[0].Last); first && !r.bar.on {
		fmt.Fprintf(r.w, "peer: failed %s\n", printable(r.failed))
	}
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
