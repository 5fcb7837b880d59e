package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

func downCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "down",
		Short:   "Stop this peer; it keeps its place and comes back with `peer up`",
		Example: "  peer down\n  peer --data ~/second down",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl := c.client()
			if err := cl.Down(cmd.Context()); err != nil {
				return err
			}
			return awaitGone(cmd.Context(), c.data, cl)
		},
	}
}

// awaitGone returns when the peer no longer answers and has closed its files: its last word was
// kept, and its folder is free for the next `peer up`, or to be moved.
func awaitGone(ctx context.Context, data string, cl *client.Client) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for {
		if _, err := cl.Status(ctx); err != nil && (!node.InUse(data) || ctx.Err() != nil) {
			return ctx.Err() // who is told to end has not seen it go
		}
		select {
		case <-tick.C:
		case <-limit:
			return api.Errorf(api.TimedOut, "the peer was told to stop and has not ended after 20 s; see `peer status`")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
