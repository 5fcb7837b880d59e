package main

import (
	"github.com/spf13/cobra"
)

func leaveCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "leave",
		Short: "Stop this peer's tasks, give up its membership and stop it",
		Long: `Stop this peer's tasks, give up its place among the peers and stop it. Its tasks run elsewhere.
What tasks left and printed is handed to other peers first; where none can take it, the jobs are
named and the peer stays. To stop it for a while only, use ` + "`peer down`" + `.

With a new ticket, ` + "`peer up --join TICKET`" + `, it comes back as the same peer, with its key, its
policy and what its data folder holds. One that another peer removed does not: it joins as a new
peer, with ` + "`peer up --new-identity --join TICKET`.",
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl := c.client()
			if err := cl.Leave(cmd.Context()); err != nil {
				return err
			}
			return awaitGone(cmd.Context(), c.data, cl)
		},
	}
}
