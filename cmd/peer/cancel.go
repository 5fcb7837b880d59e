package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
)

func cancelCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID…",
		Short: "Stop a job's tasks, or one task; what has not started never will",
		Long: `Stop a job: its tasks are asked to end and, five seconds later, made to; what has not started
never will. With a task, as JOB.ITEM of an array and JOB.SLOT of others, only that one is stopped,
and the job is complete if all others are. A service keeps its tasks running: see ` + "`peer scale`" + `.

` + severalJobs,
		Example: "  peer cancel last\n  peer cancel frames.17\n  peer cancel $(peer jobs --state running --name probe -o jsonl | jq -r .id)",
		Args:    atLeastOne("a job (its id, a unique prefix, its name, or `last`) or a task (JOB.ITEM of an array, else JOB.SLOT or JOB.SLOT.ATTEMPT)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			do := func(id string) (api.JobAnswer, error) { return c.client().Cancel(cmd.Context(), id) }
			return c.eachJob(args, do, func(id string, j api.Job) {
				what := j.ID
				if _, task, ok := strings.Cut(id, "."); ok {
					what += "." + task
				}
				fmt.Fprintf(c.Err, "cancelled %s\n", what)
			})
		},
	}
}
