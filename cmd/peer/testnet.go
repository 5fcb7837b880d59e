package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"covey/node/api"
	"covey/testnet"
)

const testnetLong = `A cluster of real peers on this machine, each a process with its own key, port and data folder on
loopback, and ways to hurt it. ` + "`up`" + ` stays in the foreground; the other commands, in another
terminal, talk to it.`

func (c *cli) testnetCommand() *cobra.Command {
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
  peer testnet partition 1,2/3,4,5     cut them apart; heal ends it`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return api.Errorf(api.Usage, "`peer testnet` knows no %q; see `peer testnet --help`", args[0])
			}
			return cmd.Help()
		},
	}
	cmd.PersistentFlags().StringVar(&dir, "dir", filepath.Join(os.TempDir(), "covey-testnet-"+strconv.Itoa(os.Getuid())), "the testnet's `DIR`")
	cmd.AddCommand(c.testnetUp(&dir), c.testnetStatus(&dir), c.testnetExec(&dir), c.testnetDemo(), c.testnetSoak(), c.testnetHash(),
		c.testnetPeerOrder(&dir, "kill", "Kill peer K as a power cut would (SIGKILL)"),
		c.testnetPeerOrder(&dir, "restart", "Start peer K again, with its data folder, on another port"),
		c.testnetPartition(&dir),
		c.testnetOrder(&dir, "heal", "End the partition"),
		c.testnetOrder(&dir, "down", "Stop all peers and remove their data"))
	return cmd
}

func (c *cli) testnetUp(dir *string) *cobra.Command {
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
			fmt.Fprintf(c.Err, "%d peers are up in %s; Ctrl-C stops them.\n", n, *dir)
			fmt.Fprintln(c.Err, "in another terminal:  `peer testnet status` · `peer testnet exec 1 -- peers` · `peer testnet kill 1`")
			return t.Serve(ctx)
		},
	}
	cmd.Flags().IntVarP(&n, "peers", "n", 5, "how many peers")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the data folders at the end")
	return cmd
}

func (c *cli) testnetStatus(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "The processes: running, pid, data folder, partition",
		Args:  exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := testnet.Do(cmd.Context(), *dir, testnet.Order{Op: "status"})
			if err != nil {
				return err
			}
			whole := map[string]any{"peers": a.Peers}
			return emit(c, whole, a.Peers, func(w io.Writer) {
				t := table("PEER", "ID", "RUNNING", "PID", "GROUP", "DATA")
				for _, r := range a.Peers {
					group := "-"
					if r.Group > 0 {
						group = strconv.Itoa(r.Group)
					}
					t.add(strconv.Itoa(r.Peer), shortID(r.ID), strconv.FormatBool(r.Running), strconv.Itoa(r.PID), group, r.Data)
				}
				t.write(w)
			})
		},
	}
}

func (c *cli) testnetPeerOrder(dir *string, op, short string) *cobra.Command {
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

func (c *cli) testnetOrder(dir *string, op, short string) *cobra.Command {
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

func (c *cli) testnetPartition(dir *string) *cobra.Command {
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

func (c *cli) testnetExec(dir *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "exec K -- ARGS…",
		Short:   "Run `peer ARGS…` against peer K",
		Example: "  peer testnet exec 2 -- run -- hostname",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 && args[1] == "--" {
				args = append(args[:1:1], args[2:]...)
			}
			if len(args) < 2 {
				return api.Errorf(api.Usage, "`peer testnet exec` needs a peer's number and a command, as in `peer testnet exec 2 -- peers`")
			}
			k, err := strconv.Atoi(args[0])
			if err != nil {
				return api.Errorf(api.Usage, "%q: expected a peer's number, as `peer testnet status` shows", args[0])
			}
			a, err := testnet.Do(cmd.Context(), *dir, testnet.Order{Op: "status"})
			if err != nil {
				return err
			}
			if k < 1 || k > len(a.Peers) {
				return api.Errorf(api.NotFound, "this testnet has peers 1 to %d, there is no peer %d", len(a.Peers), k)
			}
			exe, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			before := []string{"--data", a.Peers[k-1].Data}
			if c.output != tableForm && !c.outputFromEnv {
				before = append(before, "--output", c.output)
			}
			child := exec.CommandContext(cmd.Context(), exe, append(before, args[1:]...)...)
			child.Stdin, child.Stdout, child.Stderr = c.In, c.Out, c.Err
			if err := child.Run(); child.ProcessState == nil {
				return err
			}
			if code := child.ProcessState.ExitCode(); code != 0 {
				return exitError(code)
			}
			return nil
		},
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func (c *cli) testnetDemo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Five peers, a real job of hundreds of tasks, kill -9 of the coordinator in the middle",
		Args:  exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := untilInterrupted(cmd.Context())
			defer cancel()
			exe, dir, err := scratch()
			if err != nil {
				return err
			}
			return testnet.Demo(ctx, testnet.Config{Dir: dir, Exe: exe, Talk: c.Err}, c.Out)
		},
	}
}

// scratch is this program and a new folder for a testnet that nobody names.
func scratch() (exe, dir string, err error) {
	if exe, err = os.Executable(); err != nil {
		return "", "", fmt.Errorf("find this program: %w", err)
	}
	if dir, err = os.MkdirTemp("", "covey-"); err != nil {
		return "", "", api.Errorf(api.Failed, "cannot make a folder for the testnet: %v", err)
	}
	return exe, dir, nil
}

func (c *cli) testnetHash() *cobra.Command {
	return &cobra.Command{
		Use:    "hash DIR",
		Short:  "SHA-256 of every file in DIR: a task of the demonstration",
		Hidden: true,
		Args:   exactly(1, "a folder"),
		RunE: func(_ *cobra.Command, args []string) error {
			return testnet.HashFolder(c.Out, args[0])
		},
	}
}
