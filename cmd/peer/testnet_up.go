package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/testnet"
)

func testnetUp(c *cli, dir *string) *cobra.Command {
	var n int
	var keep bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start N peers; runs until Ctrl-C or `peer testnet down`",
		Args:  exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := untilInterrupted(cmd.Context())
			defer cancel()
			if _, err := testnet.Do(ctx, *dir, testnet.Order{Op: "status"}); err == nil {
				return api.Errorf(api.Conflict, "a testnet runs in %s already; stop it with `peer testnet down` or choose another --dir", *dir)
			}
			exe, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			t, err := testnet.Start(ctx, testnet.Config{Dir: *dir, N: n, Exe: exe, Keep: keep, Talk: c.Err})
			if err != nil {
				return err
			}
			defer t.Stop()
			if err := t.AwaitReady(ctx); err != nil {
				return err
			}
			return t.Serve(ctx, func() {
				fmt.Fprintf(c.Err, "%d peers are up in %s; Ctrl-C stops them.\n", n, *dir)
				fmt.Fprintln(c.Err, "in another terminal:  `peer testnet status` · `peer testnet exec 1 -- peers` · `peer testnet kill 1`")
			})
		},
	}
	cmd.Flags().IntVarP(&n, "peers", "n", 5, "how many peers")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the data folders at the end")
	return cmd
}
