package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
)

func dfCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "df", Short: "What this peer stores: files that were put here, and copies for others",
		Long: `Say how much this peer stores, how much it may (` + "`peer up --store SIZE`" + `), what of it may go when
room is needed, what was put here, and what tasks left: how many copies of it there are, and of how
many tasks the only copy is here.`,
		Example: "  peer df\n  peer df -o json",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := c.client().StoreUsage(cmd.Context())
			return emit(c, err, u, u.Puts, func(w io.Writer) { usageText(w, u) })
		},
	}
}

func usageText(w io.Writer, u api.StoreUsage) {
	fmt.Fprintf(w, "%s in %s, of which %s may go; up to %s is for copies\n", bytesText(u.Bytes), countOf(u.Blobs+u.Partial, "file"), bytesText(u.MayGo), bytesText(u.Quota))
	if u.Partial > 0 {
		fmt.Fprintf(w, "%s not here whole yet\n", countOf(u.Partial, "file"))
	}
	fmt.Fprintf(w, "%s can be written to the disk with %s\n", bytesText(u.DiskFree), printable(u.Dir))
	if u.Foreign > 0 {
		fmt.Fprintf(w, "%s in there not this peer's, which it leaves alone\n", countOf(u.Foreign, "file"))
	}
	if len(u.Puts) > 0 {
		putsText(w, u)
	}
	if len(u.Jobs) > 0 {
		jobFilesText(w, u.Jobs)
	}
}

// jobFilesText lists what tasks left, and says where there are too few copies.
func jobFilesText(w io.Writer, jobs []api.JobFiles) {
	fmt.Fprintln(w)
	t := table("JOB", "NAME", "TASKS", "SIZE", "COPIES", "ONLY HERE").fit(w)
	for _, j := range jobs {
		only := "-"
		if j.Only > 0 {
			only = fmt.Sprint(j.Only)
		}
		t.add(j.Job, j.Name, fmt.Sprint(j.Tasks), bytesText(j.Bytes), fmt.Sprintf("%d/%d", j.Copies, j.Keep), only)
	}
	t.write(w)
	for _, j := range jobs {
		if j.Why != "" {
			fmt.Fprintf(w, "%s: copies %d/%d: %s\n", j.Job, j.Copies, j.Keep, printable(j.Why))
		}
	}
}

func putsText(w io.Writer, u api.StoreUsage) {
	fmt.Fprintln(w)
	t := table("NAME", "SIZE", "FILES", "UNTIL", "AS").fit(w)
	for _, p := range u.Puts {
		until := "unput"
		if p.Until != nil {
			until = minute(*p.Until)
		}
		t.add(p.Name, bytesText(p.Bytes), fmt.Sprint(p.Files), until, p.Ref.String())
	}
	t.write(w)
}
