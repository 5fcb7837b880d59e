package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/testnet"
)

func testnetExec(c *cli, dir *string) *cobra.Command {
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
			if c.output != tableFormat && !c.outputFromEnv {
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
