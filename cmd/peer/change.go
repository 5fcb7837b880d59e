package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"covey/node/api"
)

func (c *cli) scaleCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "scale JOB=N",
		Short: "Change how many tasks a service runs",
		Long: `Keep N tasks of a service running. Surplus tasks are removed in this order: tasks that wait for a
peer, tasks that do not run, those whose version failed there, then on the peers that have most of
it, the highest slot first. Tasks that go on are not restarted. With 0 it is switched off, and can
be switched on again.`,
		Example: "  peer scale web=5\n  peer scale web=0",
		Args:    exactly(1, "a service and a number, as in web=5"),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, number, ok := strings.Cut(args[0], "=")
			n, err := strconv.Atoi(number)
			if !ok || job == "" || err != nil || n < 0 {
				return api.Errorf(api.Usage, "%q: expected a service and a number from 0, as in web=5", args[0])
			}
			s, err := c.client().Scale(cmd.Context(), job, n)
			if err != nil {
				return err
			}
			return emit(c, s, []api.Submitted{s}, func(io.Writer) { c.showChanges(c.Err, s.Changes) })
		},
	}
}

func (c *cli) rolloutCommand() *cobra.Command {
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
			return c.showRollout(a, err)
		},
	}
}

func (c *cli) rollbackCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rollback JOB",
		Short: "Return a service to what it was before its last update",
		Long: `Return a service or global job to the version before its last update, its count included; tasks are
replaced as its update: says. It goes one version back; to go further,
submit the file of then. A rollback that fails stays paused.`,
		Example: "  peer rollback web && peer rollout web",
		Args:    exactly(1, "a job: its id, a unique prefix, its name, or `last`"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.showRollout(c.client().Rollout(cmd.Context(), args[0], api.RollBack))
		},
	}
}

func (c *cli) showRollout(a api.JobAnswer, err error) error {
	if err != nil {
		return err
	}
	return emit(c, a, []api.Job{a.Job}, func(w io.Writer) {
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

func (c *cli) rebalanceCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "rebalance JOB",
		Short: "Move tasks of a service from full peers to those that joined later",
		Long: `Stop as few tasks of a service as it takes for its peers to have about as many each, and start
their successors where there are fewer. They move as an update of the job would replace them:
update.parallelism at a time (one, if the file says nothing), the next when those before have run
for update.monitor. An update ends it, and so does a change of the coordinator: type it again.
Nothing is ever rebalanced by itself: a task that runs is worth more than an even table.`,
		Example: "  peer rebalance web --dry-run\n  peer rebalance web",
		Args:    exactly(1, "a service: its id, a unique prefix, its name, or `last`"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := c.client().Rebalance(cmd.Context(), args[0], dry)
			if err != nil {
				return err
			}
			return emit(c, r, r.Moves, func(w io.Writer) {
				if len(r.Moves) == 0 {
					fmt.Fprintln(c.Err, "nothing to move: its tasks are as even as they can be")
					return
				}
				t := table("TASK", "FROM", "TO")
				for _, m := range r.Moves {
					t.add(m.Task, orDash(m.FromName), orDash(m.ToName))
				}
				t.write(w)
				switch {
				case dry:
					fmt.Fprintln(c.Err, "nothing was moved (--dry-run)")
				case r.AtOnce > 0 && r.AtOnce < len(r.Moves):
					fmt.Fprintf(c.Err, "they move %d at a time; `peer tasks %s` shows how far it is\n", r.AtOnce, args[0])
				}
			})
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show what would move")
	return cmd
}
