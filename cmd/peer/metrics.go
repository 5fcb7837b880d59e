package main

import (
	"bytes"

	"github.com/spf13/cobra"
)

func metricsCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "metrics",
		Short: "Print numbers about this peer and the cluster, for Prometheus",
		Long: `Print numbers about this peer, and about the cluster as it sees it, in the text format of
Prometheus: tasks that ended and why, how long they ran and waited, what waits for what, processors,
memory, disk, links, decisions. Nothing is printed if not all can be had. docs/monitoring.md lists
them, with a dashboard and alerts.`,
		Example: "  peer metrics\n  peer metrics >covey.new && mv covey.new covey.prom    for the textfile collector of node_exporter",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all bytes.Buffer
			if err := c.client().Metrics(cmd.Context(), &all); err != nil {
				return err
			}
			_, err := all.WriteTo(c.Out)
			return err
		},
	}
}
