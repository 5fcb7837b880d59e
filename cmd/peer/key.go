package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
)

func keyCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "key",
		Short: "Print this peer's key: what others type to trust it",
		Long: `Print the id of this peer, which is its public key: what it submits is signed with it. Whoever owns
another machine lets jobs of this peer run there by that id, and nobody else can take it. Names can
be taken: hand the id over on a way on which nobody can change it, or compare it word by word.`,
		Example: "  peer key           then, on the other machine: peer trust add 12D3KooW…\n  peer key -o json",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := c.client().Status(cmd.Context())
			k := api.Key{ID: st.ID, Name: st.Name, Fingerprint: api.Fingerprint(st.ID), AsOf: st.AsOf}
			return emit(c, err, k, []api.Key{k}, func(w io.Writer) {
				fmt.Fprintln(w, k.ID)
				fmt.Fprintf(c.Err, "fingerprint %s; to let what %s submits run on another machine, type there: peer trust add %s\n", k.Fingerprint, printable(k.Name), k.ID)
			})
		},
	}
}
