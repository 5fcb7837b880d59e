package main

import (
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/testnet"
)

const testnetLong = `A cluster of real peers on this machine, each a process with its own key, port and data folder on
loopback, and ways to hurt it. ` + "`up`" + ` stays in the foreground; the other commands, in another
terminal, talk to it.`

func testnetCommand(c *cli) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "testnet",
		Short: "A local cluster of real processes, and ways to hurt it",
		Long:  testnetLong,
		Example: `  peer testnet demo                    see a cluster lose its coordinator and finish its job
  peer testnet up -n 5                 five peers, until Ctrl-C
  peer testnet exec 2 -- peers         run a command against peer 2
  peer testnet kill 1                  kill -9
  peer testnet restart 1
  peer testnet partition 1,2/3,4,5     cut them apart; heal ends it
  peer testnet slow 3 10Mbit/s         a slow line to peer 3; off ends it`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return api.Errorf(api.Usage, "`peer testnet` knows no %q; see `peer testnet --help`", args[0])
			}
			return cmd.Help()
		},
	}
	cmd.PersistentFlags().StringVar(&dir, "dir", filepath.Join(os.TempDir(), "covey-testnet-"+strconv.Itoa(os.Getuid())), "the testnet's `DIR`")
	cmd.AddCommand(testnetUp(c, &dir), testnetStatus(c, &dir), testnetExec(c, &dir), testnetDemo(c), testnetSoak(c), testnetHash(), testnetCopy(c),
		testnetPeerOrder(c, &dir, "kill", "Kill peer K as a power cut would (SIGKILL)"),
		testnetPeerOrder(c, &dir, "restart", "Start peer K again, with its data folder, on another port"),
		testnetPartition(c, &dir),
		testnetSlow(&dir),
		testnetOrder(c, &dir, "heal", "End the partition"),
		testnetOrder(c, &dir, "down", "Stop all peers and remove their data"))
	return cmd
}

func testnetPeerOrder(c *cli, dir *string, op, short string) *cobra.Command {
	return &cobra.Command{
		Use:   op + " K",
		Short: short,
		Args:  exactly(1, "a peer's number"),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := strconv.Atoi(args[0])
			if err != nil {
				return api.Errorf(api.Usage, "%q: expected a peer's number, as `peer testnet status` shows", args[0])
			}
			_, err = testnet.Do(cmd.Context(), *dir, testnet.Order{Op: op, Peer: k})
			return err
		},
	}
}

func testnetOrder(c *cli, dir *string, op, short string) *cobra.Command {
	return &cobra.Command{
		Use:   op,
		Short: short,
		Args:  exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := testnet.Do(cmd.Context(), *dir, testnet.Order{Op: op})
			return err
		},
	}
}

func testnetPartition(c *cli, dir *string) *cobra.Command {
	return &cobra.Command{
		Use:     "partition GROUPS",
		Short:   "Cut the peers into groups that cannot reach each other",
		Example: "  peer testnet partition 1,2/3,4,5",
		Args:    exactly(1, "groups, as in 1,2/3,4,5"),
		RunE: func(cmd *cobra.Command, args []string) error {
			groups, err := testnet.ParseGroups(args[0])
			if err != nil {
				return err
			}
			_, err = testnet.Do(cmd.Context(), *dir, testnet.Order{Op: "partition", Groups: groups})
			return err
		},
	}
}
