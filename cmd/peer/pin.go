package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
)

const pinLong = `Keep a job when it is finished. Other finished jobs are deleted with their output after a week (see
keep-for and keep-jobs of ` + "`peer set`" + `), or earlier when all together take more than 32 MiB of the
ledger. Pinned ones go last, and only for lack of that room. Up to 100 jobs can be pinned.

` + severalJobs

func pinCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "pin JOB…", Short: "Keep a finished job, whatever other jobs are deleted", Long: pinLong,
		Example: "  peer pin last",
		Args:    atLeastOne("a job: its id, a unique prefix, its name, or `last`"),
		RunE:    func(cmd *cobra.Command, args []string) error { return pin(c, cmd, args, false) },
	}
}

func pin(c *cli, cmd *cobra.Command, ids []string, not bool) error {
	do := func(id string) (api.JobAnswer, error) { return c.client().Pin(cmd.Context(), id, not) }
	return c.eachJob(ids, do, func(_ string, j api.Job) {
		if not {
			fmt.Fprintf(c.Err, "job %s is deleted in time like any other\n", j.ID)
			return
		}
		fmt.Fprintf(c.Err, "job %s is kept\n", j.ID)
	})
}
