package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
)

func rolesCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "roles [PEER [ROLE…]]",
		Short: "Show or change what a peer may do",
		Long: `Without arguments, show what every peer may do. Give an admitted peer these roles and no others, and
print those it has then:

  worker   is given tasks
  submit   submits, cancels and changes jobs
  voter    may get a seat in the ledger, and so decide
  admin    makes tickets, removes peers, drains others, changes settings and roles, and reads
  read     reads what jobs of others run, and what their tasks wrote and left

One that may not vote any more gives up its seat first. The only voter cannot. SECURITY.md says
what each can do in bad hands.

PEER is an id, a unique part of one, a name, or ` + "`self`" + `: the peer that is asked.`,
		Example: `  peer roles                              those of all peers
  peer roles laptop2                      those it has
  peer roles laptop2 worker submit        it does not decide any more
  peer roles nas worker submit voter admin`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				ps, err := c.client().Peers(cmd.Context())
				return emit(c, err, ps, ps.Peers, func(w io.Writer) {
					t := table("ID", "NAME", "ROLES")
					for _, p := range ps.Peers {
						t.add(shortID(p.ID), orDash(p.Name), orDash(strings.Join(p.Roles, " ")))
					}
					t.write(w)
				})
			}
			var roles []string
			for _, a := range args[1:] {
				for _, r := range strings.Split(a, ",") {
					roles = append(roles, strings.TrimSpace(r))
				}
			}
			var p api.PeerAnswer
			var err error
			if len(roles) == 0 {
				p, err = c.client().Peer(cmd.Context(), args[0])
			} else {
				p, err = c.client().SetRoles(cmd.Context(), args[0], api.Roles{Roles: roles})
			}
			return emit(c, err, p, []api.Peer{p.Peer}, func(w io.Writer) { fmt.Fprintln(w, strings.Join(p.Peer.Roles, " ")) })
		},
	}
}
