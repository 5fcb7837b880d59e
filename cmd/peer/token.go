package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
)

func tokenCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Let programs ask this peer over TCP: make tokens, list and end them",
		Long: `Let programs ask this peer over TCP: where peer up --api ADDR opened that, or peer web did. They
show a token as Authorization: Bearer …, which may read; submit, too; or, as admin, all that is
not for the socket alone. The peer keeps no more of a token than a hash.`,
		Args: exactly(0, "or a command: create, list, revoke"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(tokenCreateCommand(c), tokenListCommand(c), tokenRevokeCommand(c))
	return cmd
}

func tokenCreateCommand(c *cli) *cobra.Command {
	var scope string
	var expires time.Duration
	cmd := &cobra.Command{
		Use:     "create [NAME]",
		Short:   "Make a token, and print it: it is shown once",
		Example: "  peer token create grafana --scope read --expires 365d\n  peer token create ci --scope submit",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := c.client().Tokens().Create(cmd.Context(), api.TokenRequest{Name: strings.Join(args, ""), Scope: api.Scope(scope), Expires: expires.Seconds()})
			if err != nil || c.output != tableFormat {
				return emit(c, err, t, []api.AccessToken{t}, nil)
			}
			fmt.Fprintln(c.Out, t.Secret)
			fmt.Fprintf(c.Err, "the token %s may %s until %s; end it with `peer token revoke %s`\n", t.Name, t.Scope, t.Expires.Local().Format(withZone), t.Name)
			return nil
		},
	}
	cmd.Flags().StringVar(&scope, "scope", "read", "`WHAT` it may do: read, submit or admin")
	durationVar(cmd.Flags(), &expires, "expires", 30*24*time.Hour, "how long it is good, as in 30d")
	return cmd
}

func tokenListCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tokens, and where the API is open",
		Args:  exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := c.client().Tokens().List(cmd.Context())
			return emit(c, err, a, a.Tokens, func(w io.Writer) {
				t := table("ID", "NAME", "SCOPE", "FOR", "EXPIRES")
				for _, x := range a.Tokens {
					who := "programs"
					if x.Web {
						who = "a browser"
					}
					t.add(x.ID, x.Name, string(x.Scope), who, x.Expires.Local().Format(withZone))
				}
				t.write(w)
				if len(a.Open) == 0 {
					fmt.Fprintln(w, "the API is not open over TCP; `peer up --api ADDR` opens it, `peer web` for a browser here")
				}
				for _, u := range a.Open {
					fmt.Fprintln(w, "open at "+u)
				}
			})
		},
	}
}

func tokenRevokeCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke TOKEN",
		Short: "End a token, by its id or name",
		Args:  exactly(1, "a token's id or name; see `peer token list`"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.client().Tokens().Revoke(cmd.Context(), args[0])
		},
	}
}
