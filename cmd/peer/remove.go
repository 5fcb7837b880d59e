package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"covey/node/api"
)

func removeCommand(c *cli) *cobra.Command {
	tickets := false
	cmd := &cobra.Command{
		Use:   "remove PEER",
		Short: "Remove another peer: it is cut off at once, its tasks run elsewhere",
		Long: `Remove another peer for good: it is cut off at once, its tasks stop there and run elsewhere. One
that is away stops them when it learns of it. A ticket that let it in, or that it made, and is
still valid would let it in again: such tickets are named, and revoked with --tickets.`,
		Example: "  peer remove laptop2\n  peer remove laptop2 --tickets",
		Args:    exactly(1, "a peer: its id, a unique part of it, or its name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cl := c.client()
			id, err := idOf(cmd, cl, args[0])
			if err != nil {
				return err
			}
			if err := cl.Remove(cmd.Context(), args[0]); err != nil {
				return err
			}
			fmt.Fprintf(c.Err, "removed %s\n", args[0])
			return ticketsOf(cmd.Context(), cl, c.Err, id, tickets)
		},
	}
	cmd.Flags().BoolVar(&tickets, "tickets", false, "also revoke the tickets that let it in, or that it made")
	return cmd
}

// idOf is the id of the peer a person names; "" where that is not certain, which the peer says
// better.
func idOf(cmd *cobra.Command, cl *api.Client, name string) (id string, err error) {
	ps, err := cl.Peers(cmd.Context())
	if err != nil {
		return "", err
	}
	for _, p := range ps.Peers {
		switch {
		case p.ID == name:
			return p.ID, nil
		case (p.Name == name || len(name) >= 4 && strings.Contains(p.ID, name)) && id == "":
			id = p.ID
		case p.Name == name || len(name) >= 4 && strings.Contains(p.ID, name):
			return "", nil
		}
	}
	return id, nil
}

// ticketsOf says which tickets would let a removed peer in again, or revokes them.
func ticketsOf(ctx context.Context, cl *api.Client, w io.Writer, id string, revoke bool) error {
	in, err := cl.Invites(ctx)
	if err != nil || id == "" {
		return nil //nolint:nilerr // it was removed; who removes the own peer has nobody left to ask
	}
	for _, t := range in.Tickets {
		if t.State != "valid" || t.By != id && !slices.Contains(t.Admitted, id) {
			continue
		}
		how := "let it in"
		if t.By == id {
			how = "was made there"
		}
		if !revoke {
			fmt.Fprintf(w, "ticket %s %s and still admits until %s; end it with `peer ticket --revoke %s`\n", t.ID, how, t.Expires.Local().Format(withZone), t.ID)
			continue
		}
		if err := cl.Revoke(ctx, t.ID); err != nil {
			return err
		}
		fmt.Fprintf(w, "revoked ticket %s, which %s\n", t.ID, how)
	}
	return nil
}
