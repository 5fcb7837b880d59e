package main

import (
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
)

func scaleCommand(c *cli) *cobra.Command {
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
			return emit(c, err, s, []api.Submitted{s}, func(io.Writer) { showChanges(c.Err, s.ID, s.Changes) })
		},
	}
}
