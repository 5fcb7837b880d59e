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

// ticketFlags are what `peer ticket` lets a person say.
type ticketFlags struct {
	roles   []string
	expires time.Duration
	uses    int
	list    bool
	revoke  string
	guest   bool
	rotate  bool
}

func ticketCommand(c *cli) *cobra.Command {
	var t ticketFlags
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
		RunE: func(cmd *cobra.Command, _ []string) error { return t.run(c, cmd) },
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&t.roles, "role", nil, "`ROLES` it gives: worker, submit, voter, admin (default these), read")
	durationVar(fl, &t.expires, "expires", 24*time.Hour, "how long it is good, as in 24h")
	fl.BoolVar(&t.guest, "guest", false, "for somebody else's machine: the roles worker and submit")
	fl.IntVar(&t.uses, "uses", 1, "how many machines may use it; 0: no limit")
	fl.BoolVar(&t.list, "list", false, "list the tickets made")
	fl.BoolVar(&t.rotate, "rotate", false, "revoke all other tickets that still admit somebody")
	fl.StringVar(&t.revoke, "revoke", "", "end the ticket with this `ID`")
	return cmd
}

func (t *ticketFlags) run(c *cli, cmd *cobra.Command) error {
	if err := oneOf(cmd, "list", "revoke", "rotate"); err != nil {
		return err
	}
	cl := c.client()
	switch {
	case t.list:
		return listTickets(c, cmd, cl)
	case t.revoke != "" && c.output != tableFormat && !c.outputFromEnv:
		return api.Errorf(api.Usage, "--revoke lists nothing, so it takes no -o")
	case t.revoke != "":
		return cl.Revoke(cmd.Context(), t.revoke)
	}
	if t.expires == 0 || t.uses < 0 {
		return api.Errorf(api.Usage, "--expires needs a duration above 0 as in 24h, --uses a whole number from 0 (0: no limit)")
	}
	if t.guest && len(t.roles) > 0 {
		return api.Errorf(api.Usage, "--guest gives the roles worker and submit: use it or --role")
	}
	if t.guest {
		t.roles = []string{"worker", "submit"}
	}
	made, err := cl.Invite(cmd.Context(), api.TicketRequest{Roles: t.roles, Expires: t.expires.Seconds(), Uses: t.uses})
	if err != nil {
		return err
	}
	if t.rotate {
		if err := revokeOthers(cmd.Context(), cl, c.Err, made.ID); err != nil {
			return err
		}
	}
	if c.output != tableFormat {
		return emit(c, nil, made, []api.Ticket{made}, nil)
	}
	fmt.Fprintln(c.Out, made.Ticket)
	if made.Warning != "" {
		fmt.Fprintln(c.Err, made.Warning)
	}
	if len(t.roles) == 0 {
		fmt.Fprintln(c.Err, "this makes the machine one of yours: it may decide, and admit others; for somebody else's: `peer ticket --guest`")
	}
	return nil
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
