package main

import (
	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
)

func rollbackCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "rollback JOB",
		Short: "Return a service to what it was before its last update",
		Long: `Return a service or global job to the version before its last update, its count included; tasks are
replaced as its update: says. It goes one version back; to go further,
submit the file of then. A rollback that fails stays paused.`,
		Example: "  peer rollback web && peer rollout web",
		Args:    exactly(1, "a job: its id, a unique prefix, its name, or `last`"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := c.client().Rollout(cmd.Context(), args[0], api.RollBack)
			return showRollout(cmd.Context(), c, a, err)
		},
	}
}
