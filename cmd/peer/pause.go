package main

import (
	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
)

func pauseCommand(c *cli) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "pause PEER",
		Short: "Give a peer no more tasks; what runs there goes on",
		Long: `Give a peer no more tasks. What it has goes on. It holds until ` + "`peer activate`" + `, also across
restarts.

PEER is an id, a unique part of one, a name, or ` + "`self`" + `: the peer that is asked.`,
		Example: "  peer pause laptop --reason \"I need it today\"\n  peer pause self",
		Args:    exactly(1, whichPeer),
		RunE: func(cmd *cobra.Command, args []string) error {
			return avail(cmd.Context(), c, args[0], api.Availability{Availability: api.Paused, Reason: reason}, "takes no new tasks; what it has goes on")
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`TEXT` for people, shown in `peer peers`")
	return cmd
}
