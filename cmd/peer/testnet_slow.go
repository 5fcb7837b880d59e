package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/testnet"
)

func testnetSlow(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "slow K RATE",
		Short: "Let peer K's connections carry no more than RATE in each direction; off ends it",
		Long: `All connections of peer K together carry no more than RATE in each direction, as over a slow line:
what does not pass waits in a queue of a quarter of a second, behind whatever came before it, and
then at its sender. It lasts until ` + "`off`" + `, restarts of the peer included.`,
		Example: "  peer testnet slow 3 10Mbit/s\n  peer testnet slow 3 1MiB/s\n  peer testnet slow 3 off",
		Args:    exactly(2, "a peer's number and a rate, as in 10Mbit/s, 1MiB/s or off"),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := strconv.Atoi(args[0])
			if err != nil {
				return api.Errorf(api.Usage, "%q: expected a peer's number, as `peer testnet status` shows", args[0])
			}
			rate, err := testnet.ParseRate(args[1])
			if err != nil {
				return err
			}
			_, err = testnet.Do(cmd.Context(), *dir, testnet.Order{Op: "slow", Peer: k, Rate: rate})
			return err
		},
	}
}
