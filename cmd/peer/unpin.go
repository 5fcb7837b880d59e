package main

import (
	"github.com/spf13/cobra"
)

const unpinLong = `Let a finished job that was pinned be deleted like any other.

` + severalJobs

func unpinCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "unpin JOB…", Short: "Let a finished job be deleted like any other", Long: unpinLong,
		Example: "  peer unpin last",
		Args:    atLeastOne("a job: its id, a unique prefix, its name, or `last`"),
		RunE:    func(cmd *cobra.Command, args []string) error { return pin(c, cmd, args, true) },
	}
}
