package main

import (
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/coveyproject/covey/cmd/peer/top"
	"github.com/coveyproject/covey/node/api"
)

func topCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "top",
		Short: "The cluster on a screen: peers, jobs, what happens",
		Long: `The cluster on a screen, each second anew: peers with what runs there, jobs with how far they are
and how long they take, what happened. Enter opens a job or a peer, l shows output, c cancels a job
and d drains a peer – both ask first. ? shows all keys, q leaves.

It needs a terminal, of 40 columns at least, and is made for 80×24; with NO_COLOR it is without
colours. In scripts: ` + "`peer status`, `peer peers` and `peer jobs` with -o json" + `.`,
		Args: exactly(0, ""),
		RunE: untilCtrlC(func(cmd *cobra.Command, _ []string) error {
			in, ok := c.In.(*os.File)
			out, _ := fileOf(c.Out) // bubbletea asks it for its size
			if !ok || !isTerminal(c.Out) || !term.IsTerminal(int(in.Fd())) {
				return api.Errorf(api.Usage, "`peer top` needs a terminal, and this is none: see `peer status`")
			}
			return top.Run(cmd.Context(), c.client(), in, out, bool(styleFor(c.Out)))
		}),
	}
}
