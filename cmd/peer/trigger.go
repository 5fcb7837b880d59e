package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
)

func triggerCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "trigger JOB",
		Short: "Start a scheduled job now; print its run's id",
		Long: `Start a job that has a schedule, now, and print the id of that run. The times of its schedule stay
as they are. While another run goes on it is refused, unless the schedule says overlap: allow.`,
		Example: "  peer trigger nightly\n  peer wait $(peer trigger nightly)",
		Args:    exactly(1, "a scheduled job: its id, a unique prefix, its name, or `last`"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.client().Trigger(cmd.Context(), args[0])
			return emit(c, err, s, []api.Submitted{s}, func(w io.Writer) { fmt.Fprintln(w, s.ID) })
		},
	}
}
