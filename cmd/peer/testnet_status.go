package main

import (
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/testnet"
)

func testnetStatus(c *cli, dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "The processes: running, pid, data folder, partition, rate",
		Args:  exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := testnet.Do(cmd.Context(), *dir, testnet.Order{Op: "status"})
			if err != nil {
				return err
			}
			whole := map[string]any{"peers": a.Peers}
			return emit(c, nil, whole, a.Peers, func(w io.Writer) {
				t := table("PEER", "ID", "RUNNING", "PID", "GROUP", "RATE", "DATA")
				for _, r := range a.Peers {
					group := "-"
					if r.Group > 0 {
						group = strconv.Itoa(r.Group)
					}
					rate := "-"
					if r.Rate > 0 {
						rate = testnet.FormatRate(r.Rate)
					}
					t.add(strconv.Itoa(r.Peer), shortID(r.ID), strconv.FormatBool(r.Running), strconv.Itoa(r.PID), group, rate, r.Data)
				}
				t.write(w)
			})
		},
	}
}
