package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
)

func statusCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "This peer: who it is, where it listens, who coordinates",
		Args:  exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.client().Status(cmd.Context())
			return emit(c, err, s, []api.Status{s}, func(w io.Writer) { statusText(w, s, c.carry) })
		},
	}
}

func statusText(w io.Writer, s api.Status, carry func(string) string) {
	line := func(k, v string) {
		if v != "" {
			fmt.Fprintf(w, "%-12s %s\n", k, v)
		}
	}
	line("peer", s.ID)
	line("name", s.Name)
	line("cluster", s.Cluster+" ("+s.How+")")
	for i, a := range s.Addrs {
		k := ""
		if i == 0 {
			k = "addresses"
		}
		fmt.Fprintf(w, "%-12s %s\n", k, a)
	}
	line("data", s.Data)
	line("coordinator", orDash(printable(cmp.Or(s.CoordinatorName, s.Coordinator))))
	line("epoch", s.Epoch)
	line("missing", strings.Join(s.Missing, ", "))
	line("version", s.Version)
	for _, x := range s.Warnings {
		line("warning", carry(x))
	}
}
