package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
)

const recoverLong = `Make a new ledger from the newest copy that survives, when so many voters are gone for good that
nobody can decide any more.

First try to bring the missing voters back: ` + "`peer up`" + ` there, with their data folders, is enough,
and nothing is lost. This command is for machines that never come back. It asks every peer in
reach how new its copy of the ledger is, says which one it would use and what may be lost, and
asks. This peer then coordinates; the others follow it within seconds, and old voters that do come
back set their own ledger aside and follow too. Running tasks go on, held jobs are submitted.

Where a coordinator decides no new ledger is made. If this peer had to set decisions aside, as
` + "`peer status`" + ` says then, the command names the jobs that only they have, asks, and submits them
again: with their ids and as they were signed. A job that must not run twice is named only.`

func recoverCommand(c *cli) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Make a new ledger from the newest copy, when most voters are gone for good",
		Long:  recoverLong,
		Example: `  peer recover          shows what it would do, and asks
  peer recover --yes    for scripts`,
		Args: exactly(0, ""),
		RunE: untilCtrlC(func(cmd *cobra.Command, _ []string) error {
			cl := c.client()
			plan, err := cl.PlanRecover(cmd.Context())
			if err != nil {
				return err
			}
			if plan.Generation > 0 {
				showRecover(c.Err, plan)
			}
			again := showAside(c.Err, plan)
			if plan.Generation == 0 && len(again) == 0 {
				return api.Errorf(api.Conflict, "nothing to recover: %s coordinates, and none of these jobs is to be submitted again", plan.Coordinator)
			}
			if !yes {
				if err := confirm(cmd.Context(), c.Streams); err != nil {
					return err
				}
			}
			done, err := cl.Recover(cmd.Context(), api.Recover{Generation: plan.From.Generation, Term: plan.From.Term, Index: plan.From.Index, Jobs: again})
			if err != nil {
				return err
			}
			if done.Generation > 0 {
				fmt.Fprintf(c.Err, "recovered: generation %d of the ledger, coordinated by this peer; see `peer peers`\n", done.Generation)
			}
			if len(done.Unknown) > 0 {
				fmt.Fprintf(c.Err, "of these jobs no reachable peer knows what they run, so they run no more; submit them again: %s\n", strings.Join(done.Unknown, ", "))
			}
			for _, id := range done.Submitted {
				fmt.Fprintf(c.Err, "submitted again: %s; see `peer job %s`\n", id, id)
			}
			for _, j := range done.Refused {
				fmt.Fprintf(c.Err, "not submitted: %s\n", j.Why)
			}
			if err := emit(c, nil, done, []api.Recovered{done}, func(io.Writer) {}); err != nil || len(done.Refused) == 0 {
				return err
			}
			return api.Errorf(api.Failed, "not submitted again: %d of the jobs", len(done.Refused))
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// showAside names the jobs that are only in what this peer set aside. It returns the ids of those
// that may be submitted again.
func showAside(w io.Writer, p api.RecoverPlan) (again []string) {
	if len(p.Jobs) == 0 {
		return nil
	}
	if p.Coordinator != "" {
		fmt.Fprintf(w, "%s coordinates, and no new ledger is made. ", p.Coordinator)
	}
	fmt.Fprintf(w, "Decisions that this peer set aside have jobs which the ledger has not:\n\n")
	t := table("JOB", "NAME", "SUBMIT AGAIN")
	for _, j := range p.Jobs {
		if j.Why == "" {
			again = append(again, j.ID)
		}
		t.add(j.ID, j.Name, againText(j))
	}
	t.write(w)
	return again
}

func againText(j api.AsideJob) string {
	if j.Why != "" {
		return "no: " + j.Why
	}
	return "yes"
}

// showRecover says what would be done, and at what price.
func showRecover(w io.Writer, p api.RecoverPlan) {
	if voters := orDash(strings.Join(p.Voters, ", ")); len(p.Missing) > 0 {
		fmt.Fprintf(w, "No majority is left to decide: of the voters (%s) these do not answer: %s.\n\n", voters, strings.Join(p.Missing, ", "))
	} else {
		fmt.Fprintf(w, "No majority is left to decide: the voters (%s) answer, and too few of them have what they had acknowledged.\n\n", voters)
	}
	t := table("COPY OF", "GENERATION", "INDEX", "NEWEST DECISION")
	for _, x := range p.Copies {
		name := x.Name
		if x.Self {
			name += " (here)"
		}
		if x.Error != "" {
			t.add(name, "-", "-", x.Error)
			continue
		}
		t.add(name, fmt.Sprint(x.Generation), fmt.Sprint(x.Index), decidedText(x.Decided))
	}
	t.write(w)
	fmt.Fprintf(w, "\nThe new ledger, generation %d, goes on from the copy of %s: index %d, decided %s.\n", p.Generation, p.From.Name, p.From.Index, decidedText(p.From.Decided))
	for _, l := range p.Lost {
		fmt.Fprintln(w, l)
	}
	switch {
	case p.Whole:
		fmt.Fprintln(w, "It reaches every entry that a voter is known to have acknowledged: as far as is known, nothing that was acknowledged is missing.")
	case p.Marked > p.From.Index:
		fmt.Fprintf(w, "A voter had acknowledged entry %d: up to %d entries that may have been decided are in no copy in reach.\n", p.Marked, p.Marked-p.From.Index)
	case len(p.Missing) == 0:
		fmt.Fprintln(w, "Of some voters it is not known how far they had acknowledged: what they decided beyond that copy would be lost.")
	}
	if len(p.Missing) > 0 {
		fmt.Fprintf(w, "LOST is what was decided after that and only %s know: jobs accepted, cancelled and ended since, tickets, removals. What ended since\n"+
			"may run again, work that must not run twice included.\n", strings.Join(p.Missing, ", "))
	}
	if len(p.Missing) > 0 {
		fmt.Fprintln(w, "If the missing voters still run somewhere and decide there, what they decide from now on is lost as well: fix the network instead.")
	}
}

func decidedText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%s (%s ago)", t.Local().Format(withZone), ago(t))
}

// confirm asks on a terminal. Where nobody can answer it refuses.
func confirm(ctx context.Context, s Streams) error {
	switch answer, err := ask(ctx, s, "\nGo on? Type yes: "); {
	case errors.Is(err, io.EOF):
		fmt.Fprintln(s.Err)
		return api.Errorf(api.Usage, "nothing was done: there is no terminal to ask on; if this is meant, say `peer recover --yes`")
	case err != nil:
		return err
	case answer != "yes":
		return api.Errorf(api.Failed, "nothing was done")
	}
	return nil
}
