package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

func ticketCommand(c *cli) *cobra.Command {
	var (
		roles   []string
		expires time.Duration
		uses    int
		list    bool
		revoke  string
		guest   bool
		rotate  bool
	)
	cmd := &cobra.Command{
		Use:   "ticket",
		Short: "Make an invite: one line to type on the machine that is to join",
		Example: `  peer ticket                          then, there: peer up --join covey1…
  peer ticket --uses 20 --expires 72h  for a room full of machines
  peer ticket --guest                  for somebody else's machine: it does not decide
  peer ticket --list
  peer ticket --revoke k3v5q7x2
  peer ticket --rotate                 revokes all there are, and makes a new one`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf(cmd, "list", "revoke", "rotate"); err != nil {
				return err
			}
			cl := c.client()
			switch {
			case list:
				return listTickets(c, cmd, cl)
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
			if rotate {
				if err := revokeOthers(cmd.Context(), cl, c.Err, t.ID); err != nil {
					return err
				}
			}
			if c.output != tableForm {
				return emit(c, nil, t, []api.Ticket{t}, nil)
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
	f.StringSliceVar(&roles, "role", nil, "`ROLES` it gives: worker, submit, voter, admin (default these), read")
	durationVar(f, &expires, "expires", 24*time.Hour, "how long it is good, as in 24h")
	f.BoolVar(&guest, "guest", false, "for somebody else's machine: the roles worker and submit")
	f.IntVar(&uses, "uses", 1, "how many machines may use it; 0: no limit")
	f.BoolVar(&list, "list", false, "list the tickets made")
	f.BoolVar(&rotate, "rotate", false, "revoke all other tickets that still admit somebody")
	f.StringVar(&revoke, "revoke", "", "end the ticket with this `ID`")
	return cmd
}

// revokeOthers ends all tickets that admit somebody, but one.
func revokeOthers(ctx context.Context, cl *client.Client, w io.Writer, but string) error {
	in, err := cl.Invites(ctx)
	if err != nil {
		return err
	}
	for _, t := range in.Tickets {
		if t.State != "valid" || t.ID == but {
			continue
		}
		if err := cl.Revoke(ctx, t.ID); err != nil {
			return err
		}
		fmt.Fprintf(w, "revoked ticket %s\n", t.ID)
	}
	return nil
}

func listTickets(c *cli, cmd *cobra.Command, cl *client.Client) error {
	in, err := cl.Invites(cmd.Context())
	return emit(c, err, in, in.Tickets, func(w io.Writer) {
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
