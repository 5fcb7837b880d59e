package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

func thawCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "thaw",
		Short: "Confirm that vanished peers are gone: their tasks may run elsewhere",
		Long: `When at least three and more than half of the other peers vanish within a minute, it is more
likely that the coordinator is the isolated one: their tasks are not given to others until enough
of them are back. This is said by ` + "`peer peers`" + `. If they are really gone, thaw: until they are back
they do not count any more, and their tasks go elsewhere as their jobs allow.

It holds until another coordinator is elected, which asks again. Peers that never come back are
best removed (` + "`peer remove`" + `).`,
		Example: "  peer peers\n  peer thaw",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := c.client().Thaw(cmd.Context())
			return emit(c, err, t, t.Thawed, func(io.Writer) {
				fmt.Fprintf(c.Err, "tasks of these peers may be replaced: %s\n", strings.Join(t.Thawed, ", "))
			})
		},
	}
}
