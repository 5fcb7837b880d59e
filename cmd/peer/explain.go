package main

import (
	"io"

	"github.com/spf13/cobra"

	"covey/node/api"
)

func (c *cli) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain ID",
		Short: "A job's or task's story: every decision and observation, with times, peers and reasons",
		Long: `A job's or task's story in order of time: through whom it was accepted, why it waited, where each task was placed and by what
rule, every state with its peer, what became of that peer meanwhile, why an attempt was given up and what replaced it, ends
that contradict each other, who cancelled it, how it ended.

Decisions are known to every peer for as long as the job is listed. States below the end, and what became of peers, are told as
far as the peer that is asked remembers them; a note says from when on that is.`,
		Example: `  peer explain last
  peer explain k3v5q7x2ab.4      slot 4, all its attempts
  peer explain k3v5q7x2ab.4.2    its second attempt
  peer explain last -o json | jq -r '.explain[] | select(.kind=="task" and .state=="superseded").text'`,
		Args: exactly(1, "a job (its id, a unique prefix, its name, or `last`) or a task (JOB.SLOT or JOB.SLOT.ATTEMPT)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := c.client().Explain(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return emit(c, e, e.Explain, func(w io.Writer) { explainTable(e).write(w) })
		},
	}
}

// explainTable leaves the job out of task ids: the story is about one job.
func explainTable(e api.Explanation) *grid {
	const clock = "2006-01-02 15:04:05.000"
	t := table("TIME", "TASK", "WHAT")
	for _, f := range e.Explain {
		t.add(f.Time.Local().Format(clock), orDash(shortTask(f.Task)), f.Text)
	}
	return t
}

// shortTask is SLOT.ATTEMPT.
func shortTask(id string) string {
	for i, r := range id {
		if r == '.' {
			return id[i+1:]
		}
	}
	return id
}
