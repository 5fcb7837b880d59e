package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

func waitCommand(c *cli) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait ID…",
		Short: "Wait for a job's end; exit with its code",
		Long: `Wait for a job's end and exit with its code; of several jobs, for the end of all, with the code of
the first that did not end with 0. A --timeout is for all of them together.`,
		Example:     "  peer wait last\n  peer wait --timeout 10m k3v5\n  peer wait frames sound && peer run --script join.sh",
		Args:        atLeastOne("a job: its id, a unique prefix, its name, or `last`"),
		Annotations: map[string]string{speaksForTask: "1"},
		RunE: untilCtrlC(func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c.noteNamesakes(ctx, args...)
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			return c.eachOf(args, func(id string) error { return waitJob(ctx, c.client(), c.Err, id, timeout) })
		}),
	}
	durationVar(cmd.Flags(), &timeout, "timeout", 0, "give up waiting after this `DURATION` (exit 124; the job goes on)")
	return cmd
}

// waitTimedOut is what `peer wait --timeout` exits with, as timeout(1) does.
const waitTimedOut = 124

func waitJob(ctx context.Context, cl *client.Client, w io.Writer, id string, timeout time.Duration) error {
	var last api.Job
	bar := newProgress(w)
	why := whyPrinter{w: w, bar: bar}
	err := cl.Follow(ctx, id, false, func(p api.Progress) error {
		if last.ID == "" && !p.Job.Over() {
			sayLasting(w, p.Job)
		}
		last = p.Job
		why.heard(p.Job)
		bar.show(p.Job)
		return nil
	})
	told := bar.summary(last)
	if err != nil && ctx.Err() == context.DeadlineExceeded {
		fmt.Fprintf(w, "peer: job %s has not ended after %s; it goes on\n", orDash(last.ID), timeout)
		return exitError(waitTimedOut)
	}
	if err != nil {
		return err
	}
	sayCancelled(w, last)
	if !told {
		sayFailed(w, last)
	}
	if last.Truncated {
		sayTruncated(ctx, cl, w, last)
	}
	return jobExit(last)
}

// sayTruncated names tasks whose output was cut: without them it is not clear why the exit code is
// 125.
func sayTruncated(ctx context.Context, cl *client.Client, w io.Writer, j api.Job) {
	const most = 5
	var cut []string
	err := cl.EachTask(ctx, j.ID, false, func(t api.Task) error {
		if t.Truncated {
			cut = append(cut, t.Called())
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
	fmt.Fprintf(w, "peer: job %s: not all output was kept of %s; --max-output SIZE keeps more\n", j.ID, strings.Join(cut, ", "))
}

var errEnough = errors.New("enough")

// sayFailed tells of a job of many tasks how many went wrong: the exit code is 1 whichever it was.
// That of a single task speaks for itself.
func sayFailed(w io.Writer, j api.Job) {
	all := max(j.Count, j.Wanted)
	if n := failures(j); n > 0 && j.Over() && j.Cancelled == "" && (all > 1 || j.Version > 0) {
		fmt.Fprintf(w, "peer: job %s: %d of %s failed; see `peer tasks %s`\n", j.ID, n, tasksText(all), j.ID)
	}
}

// sayCancelled tells why a job ended that was cancelled: its exit code does not.
func sayCancelled(w io.Writer, j api.Job) {
	if j.Over() && j.Cancelled != "" {
		fmt.Fprintf(w, "peer: job %s was %s\n", j.ID, cancelText(j))
	}
}

// sayLasting tells who waits for a job that does not end by itself.
func sayLasting(w io.Writer, j api.Job) {
	switch {
	case j.Schedule != nil:
		fmt.Fprintf(w, "job %s starts others at its times until it is cancelled; waiting for that\n", j.ID)
	case j.Version > 0:
		fmt.Fprintf(w, "job %s is a %s job: it goes on until it is cancelled; waiting for that\n", j.ID, j.Type)
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
