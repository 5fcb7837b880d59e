package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"covey/node/api"
)

func (c *cli) logsCommand() *cobra.Command {
	var (
		q      api.LogQuery
		stream string
	)
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "A job's output, from whichever peer has it",
		Example: `  peer logs last
  peer logs -f last
  peer logs frames.17                 slot 17; or --task 17
  peer logs last.17.2 --stream stderr  its second attempt`,
		Args: exactly(1, "a job or task: its id, a unique prefix, its name, or `last`"),
		RunE: untilCtrlC(func(cmd *cobra.Command, args []string) error {
			switch stream {
			case "", "stdout", "stderr":
				q.Stream = stream
			default:
				return api.Errorf(api.Usage, "--stream %q: want stdout or stderr", stream)
			}
			if cmd.Flags().Changed("task") && q.Slot < 1 {
				return api.Errorf(api.Usage, "--task %d: want the number of a slot, from 1", q.Slot)
			}
			failed := false
			a := &attached{cli: c}
			err := c.client().Logs(cmd.Context(), args[0], q, func(ch api.LogChunk) error {
				if ch.Error != nil {
					failed = true
				}
				return a.chunk(ch, false)
			})
			if err == nil && failed {
				return api.Errorf(api.NoCoordinator, "not all output could be had; see `peer tasks %s` and `peer peers`", args[0])
			}
			if err != nil {
				return fmt.Errorf("logs of %s: %w", args[0], err)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVarP(&q.Follow, "follow", "f", false, "go on until the tasks are over")
	cmd.Flags().IntVar(&q.Slot, "task", 0, "only slot `N`")
	cmd.Flags().StringVar(&stream, "stream", "", "only stdout or stderr")
	return cmd
}
