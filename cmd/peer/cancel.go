package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"covey/node/api"
)

func cancelCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID…",
		Short: "Stop a job's tasks, or one task; what has not started never will",
		Long: `Stop a job: its tasks are asked to end and, five seconds later, made to; what has not started
never will. With a task, as JOB.SLOT, only that one is stopped, and the job is complete if all
others are. A service keeps its tasks running: see ` + "`peer scale`" + `.`,
		Example: "  peer cancel last\n  peer cancel frames.17\n  peer cancel $(peer jobs --state running --name probe -o jsonl | jq -r .id)",
		Args:    atLeastOne("a job (its id, a unique prefix, its name, or `last`) or a task (JOB.SLOT or JOB.SLOT.ATTEMPT)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.eachOf(args, func(id string) error { return cancel(cmd.Context(), c, id) })
		},
	}
}

func cancel(ctx context.Context, c *cli, id string) error {
	a, err := c.client().Cancel(ctx, id)
	return emit(c, err, a, []api.Job{a.Job}, func(io.Writer) {
		what := a.Job.ID
		if _, task, ok := strings.Cut(id, "."); ok {
			what += "." + task
		}
		fmt.Fprintf(c.Err, "cancelled %s\n", what)
	})
}
