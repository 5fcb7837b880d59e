package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func rebalanceCommand(c *cli) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "rebalance JOB",
		Short: "Move tasks of a service from full peers to those that joined later",
		Long: `Stop as few tasks of a service as it takes for its peers to have about as many each, and start
their successors where there are fewer. They move as an update of the job would replace them:
update.parallelism at a time (one, if the file says nothing), the next when those before have run
for update.monitor. An update ends it, and so does a change of the coordinator: type it again.
Nothing is ever rebalanced by itself: a task that runs is worth more than an even table.`,
		Example: "  peer rebalance web --dry-run\n  peer rebalance web",
		Args:    exactly(1, "a service: its id, a unique prefix, its name, or `last`"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := c.client().Rebalance(cmd.Context(), args[0], dry)
			return emit(c, err, r, r.Moves, func(w io.Writer) {
				if len(r.Moves) == 0 {
					fmt.Fprintln(c.Err, "nothing to move: its tasks are as even as they can be")
					return
				}
				t := table("TASK", "FROM", "TO")
				for _, m := range r.Moves {
					t.add(m.Task, orDash(m.FromName), orDash(m.ToName))
				}
				t.write(w)
				switch {
				case dry:
					fmt.Fprintln(c.Err, "nothing was moved (--dry-run)")
				case r.AtOnce > 0 && r.AtOnce < len(r.Moves):
					fmt.Fprintf(c.Err, "they move %d at a time; `peer tasks %s` shows how far it is\n", r.AtOnce, args[0])
				}
			})
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show what would move")
	return cmd
}
