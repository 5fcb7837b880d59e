package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/trust/policy"
)

// removeFlags are what `peer remove` lets a person say.
type removeFlags struct{ tickets, adopt, revoke bool }

func removeCommand(c *cli) *cobra.Command {
	var r removeFlags
	cmd := &cobra.Command{
		Use:   "remove PEER",
		Short: "Remove another peer: it is cut off at once, its tasks run elsewhere",
		Long: `Remove another peer for good: it is cut off at once, its tasks stop there and run elsewhere. One
that is away stops them when it learns of it. A ticket that let it in, or that it made, and is
still valid would let it in again: such tickets are named, and revoked with --tickets.

Losing a machine revokes nothing: jobs that were ordered at that peer go on, until their orders
expire. They are listed, and on a terminal you are asked what is to become of them:

  --adopt   signs them again, as ordered by the peer you type this at; nothing restarts
  --revoke  makes the key of the removed peer void: they are cancelled, its tickets are revoked, and
            no machine's policy believes roles that it gave others; those that have them are named:
            give them again, or take them, with ` + "`peer roles`" + `. No ticket lets in its old key again:
            have the machine join with ` + "`peer up --new-identity`" + `

Secrets that the machine may know are listed either way: change what they open. So is a rule of
this machine's policy that names its key.

For a machine in bad hands there is --revoke. Both can be said later, too, with the peer's whole id.`,
		Example: "  peer remove laptop2\n  peer remove laptop2 --tickets --adopt\n  peer remove laptop2 --revoke",
		Args:    exactly(1, "a peer: its id, a unique part of it, or its name"),
		RunE:    untilCtrlC(func(cmd *cobra.Command, args []string) error { return r.run(c, cmd, args[0]) }),
	}
	cmd.Flags().BoolVar(&r.tickets, "tickets", false, "also revoke the tickets that let it in, or that it made")
	cmd.Flags().BoolVar(&r.adopt, "adopt", false, "sign the jobs that it ordered again, as yours")
	cmd.Flags().BoolVar(&r.revoke, "revoke", false, "also make its key void: what it ordered is cancelled, its tickets revoked")
	return cmd
}

func (r removeFlags) run(c *cli, cmd *cobra.Command, peer string) error {
	if r.adopt && r.revoke {
		return api.Errorf(api.Usage, "what it ordered becomes yours with --adopt or ends with --revoke: say one")
	}
	cl, ctx := c.client(), cmd.Context()
	id, err := idOf(cmd, cl, peer)
	if err != nil {
		return err
	}
	ordered, err := cl.OrderedBy(ctx, peer)
	if err != nil {
		return err
	}
	if c.asksUser() && !r.adopt && !r.revoke && len(ordered.Jobs) > 0 {
		if r.adopt, r.revoke, err = askOrdered(ctx, c.Streams, ordered); err != nil {
			return err
		}
	}
	if r.adopt { // first: what cannot be adopted is told while the peer is there still
		if err := adoptJobs(ctx, cl, c.Err, ordered); err != nil {
			return err
		}
	}
	err = cl.Remove(ctx, peer, api.Removal{Revoke: r.revoke})
	if known, ok := errors.AsType[*api.Error](err); ok && known.Code == api.NotFound && r.adopt && len(ordered.Jobs) > 0 {
		return nil // it was removed before
	} else if err != nil {
		return err
	}
	fmt.Fprintf(c.Err, "removed %s\n", peer)
	if r.revoke && len(ordered.Gave) > 0 {
		fmt.Fprintf(c.Err, "no policy believes the roles any more that it gave: %s; `peer roles PEER ROLE…` gives them again, or takes them\n", strings.Join(ordered.Gave, ", "))
	}
	switch names := orderedNames(ordered); {
	case len(ordered.Jobs) == 0 || r.adopt:
	case r.revoke:
		fmt.Fprintf(c.Err, "cancelled what it had ordered: %s\n", names)
	default:
		fmt.Fprintf(c.Err, "what it ordered goes on: %s; `peer renew JOB` makes a job yours, `peer remove %s --revoke` ends them all\n", names, ordered.Peer)
	}
	if len(ordered.Secrets) > 0 {
		fmt.Fprintf(c.Err, "it may know these secrets of jobs; change what they open: %s\n", secretNames(ordered))
	}
	c.sayRules(ctx, ordered.Peer)
	return ticketsOf(ctx, cl, c.Err, cmp.Or(id, ordered.Peer), r.tickets && !r.revoke)
}

// secretNames lists secrets with their jobs in a line.
func secretNames(o api.Ordered) string {
	var names []string
	for _, j := range o.Secrets {
		given := ""
		if j.Given {
			given = ", given there"
		}
		names = append(names, fmt.Sprintf("%s (%s%s)", strings.Join(j.Secrets, " "), cmp.Or(j.Name, j.Job), given))
	}
	return shortened(names)
}

// sayRules names the rules of this machine's policy that let a key in: those of other machines are
// their owners' business, and are not known here.
func (c *cli) sayRules(ctx context.Context, key string) {
	t, err := c.client().Trust(ctx)
	if err != nil {
		return
	}
	if slices.ContainsFunc(t.Rules, func(r api.TrustRule) bool { return slices.Contains(r.From, policy.Key+key) }) {
		fmt.Fprintf(c.Err, "this machine's policy still names its key: `peer trust remove %s`, also at other machines that do\n", key)
	}
}

// orderedNames lists jobs in a line.
func orderedNames(o api.Ordered) string {
	var names []string
	for _, j := range o.Jobs {
		names = append(names, cmp.Or(j.Name, j.ID))
	}
	return shortened(names)
}

func shortened(names []string) string {
	if len(names) > 10 {
		names = append(names[:10], fmt.Sprintf("and %d more", len(names)-10))
	}
	return strings.Join(names, ", ")
}

// askOrdered asks what is to become of what a peer ordered.
func askOrdered(ctx context.Context, s Streams, o api.Ordered) (adopt, revoke bool, err error) {
	a, err := ask(ctx, s, fmt.Sprintf("It ordered jobs that go on: %s\nType adopt to sign them as yours, revoke to end them, keep to leave them as they are: ", orderedNames(o)))
	if err != nil && !errors.Is(err, io.EOF) {
		return false, false, err
	}
	if a != "adopt" && a != "revoke" && a != "keep" {
		return false, false, api.Errorf(api.Failed, "nothing was done")
	}
	return a == "adopt", a == "revoke", nil
}

// adoptJobs has the peer that is asked sign jobs anew. Runs of a schedule go with it.
func adoptJobs(ctx context.Context, cl *client.Client, w io.Writer, o api.Ordered) error {
	for _, j := range o.Jobs {
		if j.Run {
			continue
		}
		if _, err := cl.Renew(ctx, j.ID); err != nil {
			return fmt.Errorf("%s cannot be adopted, and the peer was not removed: %w", cmp.Or(j.Name, j.ID), err)
		}
		fmt.Fprintf(w, "adopted %s\n", cmp.Or(j.Name, j.ID))
	}
	return nil
}

// idOf is the id of the peer a person names; "" where that is not certain, which the peer says
// better.
func idOf(cmd *cobra.Command, cl *client.Client, name string) (id string, err error) {
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
func ticketsOf(ctx context.Context, cl *client.Client, w io.Writer, id string, revoke bool) error {
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
