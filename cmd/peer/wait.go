package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"covey/node/api"
)

func (c *cli) waitCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait ID…",
		Short: "Wait for a job's end; exit with its code",
		Long: `Wait for a job's end and exit with its code; of several jobs, for the end of all, with the code of
the first that did not end with 0. A --timeout is for all of them together.`,
		Example:     "  peer wait last\n  peer wait --timeout 10m k3v5\n  peer wait frames sound && peer run -- ./join",
		Args:        atLeastOne("a job: its id, a unique prefix, its name, or `last`"),
		Annotations: map[string]string{speaksForTask: "1"},
		RunE: untilCtrlC(func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			return c.eachOf(args, func(id string) error { return c.waitJob(ctx, id, timeout) })
		}),
	}
	durationVar(cmd.Flags(), &timeout, "timeout", 0, "give up waiting after this `DURATION` (exit 124; the job goes on)")
	return cmd
}

// waitTimedOut is what `peer wait --timeout` exits with, as timeout(1) does.
const waitTimedOut = 124

func (c *cli) waitJob(ctx context.Context, id string, timeout time.Duration) error {
	var last api.Job
	bar := newProgress(c.Err)
	why := whyTeller{w: c.Err, bar: bar}
	err := c.client().Follow(ctx, id, false, func(p api.Progress) error {
		if last.ID == "" && !p.Job.Over() {
			c.sayLasting(p.Job)
		}
		last = p.Job
		why.heard(p.Job)
		bar.show(p.Job)
		return nil
	})
	told := bar.summary(last)
	if err != nil && ctx.Err() == context.DeadlineExceeded {
		fmt.Fprintf(c.Err, "peer: job %s has not ended after %s; it goes on\n", orDash(last.ID), timeout)
		return exitError(waitTimedOut)
	}
	if err != nil {
		return err
	}
	c.sayCancelled(last)
	if !told {
		c.sayFailed(last)
	}
	if last.Truncated {
		c.sayTruncated(ctx, last)
	}
	return jobExit(last)
}

// sayTruncated names tasks whose output was cut: without them it is not clear why the exit code is
// 125.
func (c *cli) sayTruncated(ctx context.Context, j api.Job) {
	const most = 5
	var cut []string
	err := c.client().EachTask(ctx, j.ID, false, func(t api.Task) error {
		if t.Truncated {
			cut = append(cut, t.ID)
		}
		if len(cut) > most {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return // the exit code says it, too
	}
	if len(cut) > most {
		cut[most] = "…"
	}
	fmt.Fprintf(c.Err, "peer: job %s: not all output was kept of %s; --max-output SIZE keeps more\n", j.ID, strings.Join(cut, ", "))
}

var errEnough = errors.New("enough")

// sayFailed tells of a job of many tasks how many went wrong: the exit code is 1 whichever it was.
// That of a single task speaks for itself.
func (c *cli) sayFailed(j api.Job) {
	all := max(j.Count, j.Wanted)
	if n := failures(j); n > 0 && j.Over() && j.Cancelled == "" && (all > 1 || j.Version > 0) {
		fmt.Fprintf(c.Err, "peer: job %s: %d of %s failed; see `peer tasks %s`\n", j.ID, n, tasksText(all), j.ID)
	}
}

// sayCancelled tells why a job ended that was cancelled: its exit code does not.
func (c *cli) sayCancelled(j api.Job) {
	if j.Over() && j.Cancelled != "" {
		fmt.Fprintf(c.Err, "peer: job %s was %s\n", j.ID, cancelText(j))
	}
}

// sayLasting tells who waits for a job that does not end by itself.
func (c *cli) sayLasting(j api.Job) {
	switch {
	case j.Schedule != nil:
		fmt.Fprintf(c.Err, "job %s starts others at its times until it is cancelled; waiting for that\n", j.ID)
	case j.Version > 0:
		fmt.Fprintf(c.Err, "job %s is a %s job: it goes on until it is cancelled; waiting for that\n", j.ID, j.Type)
	}
}

// jobExit is the exit code of commands that speak for a job.
func jobExit(j api.Job) error {
	if j.ExitCode == nil {
		return api.Errorf(api.NoCoordinator, "the peer stopped before job %s ended; ask again with `peer wait %s`", j.ID, j.ID)
	}
	if *j.ExitCode == 0 {
		return nil
	}
	return exitError(*j.ExitCode)
}

func (c *cli) cancelCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID…",
		Short: "Stop a job's tasks, or one task; what has not started never will",
		Long: `Stop a job: its tasks are asked to end and, five seconds later, made to; what has not started
never will. With a task, as JOB.SLOT, only that one is stopped, and the job is complete if all
others are. A service keeps its tasks running: see ` + "`peer scale`" + `.`,
		Example: "  peer cancel last\n  peer cancel frames.17\n  peer cancel $(peer jobs --state running --name probe -o jsonl | jq -r .id)",
		Args:    atLeastOne("a job (its id, a unique prefix, its name, or `last`) or a task (JOB.SLOT or JOB.SLOT.ATTEMPT)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.eachOf(args, func(id string) error { return c.cancel(cmd.Context(), id) })
		},
	}
}

func (c *cli) cancel(ctx context.Context, id string) error {
	a, err := c.client().Cancel(ctx, id)
	if err != nil {
		return err
	}
	return emit(c, a, []api.Job{a.Job}, func(io.Writer) {
		what := a.Job.ID
		if _, task, ok := strings.Cut(id, "."); ok {
			what += "." + task
		}
		fmt.Fprintf(c.Err, "cancelled %s\n", what)
	})
}
