package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/testnet"
)

func testnetDemo(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Five peers, hundreds of tasks, one peer lost for good, all files brought home",
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

func testnetHash() *cobra.Command {
	return &cobra.Command{
		Use:    "hash DIR FILE",
		Short:  "Write the SHA-256 of every file in DIR to FILE: a task of the demonstration",
		Hidden: true,
		Args:   exactly(2, "a folder and a file"),
		RunE: func(_ *cobra.Command, args []string) error {
			return testnet.HashFolderInto(args[0], args[1])
		},
	}
}

func testnetCopy(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:    "copy FROM TO",
		Short:  "Copy a file over TCP, hashed and written: the measure of `peer bench --only files`",
		Hidden: true,
		Args:   exactly(2, "two files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := testnet.RawCopy(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return writeJSON(c.Out, r)
		},
	}
}
