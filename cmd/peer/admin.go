package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"covey/node"
	"covey/node/api"
)

func writeLine(w io.Writer, v any) error { return encoder(w).Encode(v) }

func (c *cli) downCommand() *cobra.Command {
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
			return c.awaitGone(cmd, cl)
		},
	}
}

// awaitGone returns when the peer no longer answers and has closed its files: its last word was
// kept, and its folder is free for the next `peer up`, or to be moved.
func (c *cli) awaitGone(cmd *cobra.Command, cl *api.Client) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for {
		if _, err := cl.Status(cmd.Context()); err != nil && (!node.InUse(c.data) || cmd.Context().Err() != nil) {
			return cmd.Context().Err() // who is told to end has not seen it go
		}
		select {
		case <-tick.C:
		case <-limit:
			return api.Errorf(api.TimedOut, "the peer was told to stop and has not ended after 20 s; see `peer status`")
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		}
	}
}

func (c *cli) leaveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "leave",
		Short: "Stop this peer's tasks, give up its membership and stop it",
		Long: `Stop this peer's tasks, give up its place among the peers and stop it. Its tasks run elsewhere. To
come back it needs a ticket. To stop it for a while only, use ` + "`peer down`.",
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl := c.client()
			if err := cl.Leave(cmd.Context()); err != nil {
				return err
			}
			return c.awaitGone(cmd, cl)
		},
	}
}

func (c *cli) removeCommand() *cobra.Command {
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
			return c.ticketsOf(cmd, cl, id, tickets)
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
func (c *cli) ticketsOf(cmd *cobra.Command, cl *api.Client, id string, revoke bool) error {
	in, err := cl.Invites(cmd.Context())
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
			fmt.Fprintf(c.Err, "ticket %s %s and still admits until %s; end it with `peer ticket --revoke %s`\n", t.ID, how, t.Expires.Local().Format(withZone), t.ID)
			continue
		}
		if err := cl.Revoke(cmd.Context(), t.ID); err != nil {
			return err
		}
		fmt.Fprintf(c.Err, "revoked ticket %s, which %s\n", t.ID, how)
	}
	return nil
}

func (c *cli) ticketCommand() *cobra.Command {
	var (
		roles   []string
		expires time.Duration
		uses    int
		list    bool
		revoke  string
		guest   bool
	)
	cmd := &cobra.Command{
		Use:   "ticket",
		Short: "Make an invite: one line to type on the machine that is to join",
		Example: `  peer ticket                          then, there: peer up --join covey1…
  peer ticket --uses 20 --expires 72h  for a room full of machines
  peer ticket --guest                  for somebody else's machine: it does not decide
  peer ticket --list
  peer ticket --revoke k3v5q7x2`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl := c.client()
			switch {
			case list:
				return c.listTickets(cmd, cl)
			case revoke != "" && c.output != tableForm && !c.outputFromEnv:
				return api.Errorf(api.Usage, "--revoke lists nothing, so it takes no -o")
			case revoke != "":
				return cl.Revoke(cmd.Context(), revoke)
			}
			if expires == 0 || uses < 0 {
				return api.Errorf(api.Usage, "--expires needs a duration above 0 as in 24h, --uses a whole number from 0 (0: no limit)")
			}
			if guest && len(roles) > 0 {
				return api.Errorf(api.Usage, "--guest gives the roles worker and submit: use it or --role")
			}
			if guest {
				roles = []string{"worker", "submit"}
			}
			t, err := cl.Invite(cmd.Context(), api.TicketRequest{Roles: roles, Expires: expires.Seconds(), Uses: uses})
			if err != nil {
				return err
			}
			if c.output != tableForm {
				return emit(c, t, []api.Ticket{t}, nil)
			}
			fmt.Fprintln(c.Out, t.Ticket)
			if t.Warning != "" {
				fmt.Fprintln(c.Err, t.Warning)
			}
			if len(roles) == 0 {
				fmt.Fprintln(c.Err, "this makes the machine one of yours: it may decide, and admit others; for somebody else's: `peer ticket --guest`")
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&roles, "role", nil, "`ROLES` it gives: worker, submit, voter, admin (default all)")
	durationVar(f, &expires, "expires", 24*time.Hour, "how long it is good, as in 24h")
	f.BoolVar(&guest, "guest", false, "for somebody else's machine: the roles worker and submit")
	f.IntVar(&uses, "uses", 1, "how many machines may use it; 0: no limit")
	f.BoolVar(&list, "list", false, "list the tickets made")
	f.StringVar(&revoke, "revoke", "", "end the ticket with this `ID`")
	return cmd
}

func (c *cli) listTickets(cmd *cobra.Command, cl *api.Client) error {
	in, err := cl.Invites(cmd.Context())
	if err != nil {
		return err
	}
	return emit(c, in, in.Tickets, func(w io.Writer) {
		t := table("ID", "STATE", "ROLES", "USED", "EXPIRES")
		for _, x := range in.Tickets {
			uses := fmt.Sprintf("%d/%d", x.Used, x.Uses)
			if x.Uses == 0 {
				uses = fmt.Sprintf("%d", x.Used)
			}
			t.add(x.ID, x.State, strings.Join(x.Roles, ","), uses, x.Expires.Local().Format(withZone))
		}
		t.write(w)
	})
}

func (c *cli) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "This peer: who it is, where it listens, who coordinates",
		Args:  exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.client().Status(cmd.Context())
			if err != nil {
				return err
			}
			return emit(c, s, []api.Status{s}, func(w io.Writer) { c.statusText(w, s) })
		},
	}
}

func (c *cli) statusText(w io.Writer, s api.Status) {
	line := func(k, v string) {
		if v != "" {
			fmt.Fprintf(w, "%-12s %s\n", k, v)
		}
	}
	line("peer", s.ID)
	line("name", s.Name)
	line("cluster", s.Cluster+" ("+s.How+")")
	for i, a := range s.Addrs {
		k := ""
		if i == 0 {
			k = "addresses"
		}
		fmt.Fprintf(w, "%-12s %s\n", k, a)
	}
	line("data", s.Data)
	line("coordinator", orDash(s.Coordinator))
	line("epoch", s.Epoch)
	line("missing", strings.Join(s.Missing, ", "))
	line("version", s.Version)
	for _, x := range s.Warnings {
		line("warning", c.carry(x))
	}
}
