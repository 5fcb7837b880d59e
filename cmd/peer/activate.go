package main

import (
	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
)

func activateCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "activate PEER",
		Short: "Give a peer tasks again after drain or pause",
		Long: `Give a peer tasks again after ` + "`peer drain` or `peer pause`" + `. What waits goes there at once; what
was moved away stays where it is.

PEER is an id, a unique part of one, a name, or ` + "`self`" + `: the peer that is asked.`,
		Example: "  peer activate laptop",
		Args:    exactly(1, whichPeer),
		RunE: func(cmd *cobra.Command, args []string) error {
			return avail(cmd.Context(), c, args[0], api.Availability{Availability: api.Active}, "takes tasks")
		},
	}
}
