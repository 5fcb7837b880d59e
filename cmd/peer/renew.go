package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
)

func renewCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "renew JOB",
		Short: "Sign a job anew, so that it may go on starting tasks",
		Long: `Every job carries an order: what this peer signed of it when it was submitted. An order is good for
90 days (services, global jobs and schedules) or 7 days (batch jobs). After that no peer starts a
task of the job; tasks that run go on. A day before, ` + "`peer jobs`" + ` and ` + "`peer job`" + ` warn.

This signs the job as it is, in the name of this peer, for as long again. Nothing is restarted. The
machines that run it look at who signed: those whose owners let in only the peer that submitted it
refuse it if another one renews it.`,
		Example: "  peer renew web\n  peer renew nightly",
		Args:    exactly(1, "a job: its id, a unique prefix, its name, or `last`"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.client().Renew(cmd.Context(), args[0])
			return emit(c, err, s, []api.Submitted{s}, func(w io.Writer) {
				fmt.Fprintf(w, "%s starts tasks until %s\n", s.ID, s.OrderUntil.Format("2006-01-02 15:04 MST"))
			})
		},
	}
}
