package main

import (
	"cmp"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

func explainCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "explain ID",
		Short: "A job's or task's story: every decision and observation, with times, peers and reasons",
		Long: `A job's or task's story in order of time: through whom it was accepted, why it waited, where each
task was placed and by what rule, every state with its peer, what the task was held to when it ran,
what became of that peer meanwhile, why an attempt was given up and what replaced it, ends that
contradict each other, who cancelled it, how it ended.

Decisions are known to every peer for as long as the job is listed. States below the end, and what
became of peers, are told as far as the peer that is asked remembers them; a note says from when
on that is.`,
		Example: `  peer explain last
  peer explain k3v5q7x2ab.4      item 4 of an array, else slot 4: all its attempts
  peer explain k3v5q7x2ab.4.2    its second attempt
  peer explain last -o json | jq -r '.explain[] | select(.state=="superseded").text'`,
		Args: exactly(1, "a job (its id, a unique prefix, its name, or `last`) or a task (JOB.ITEM of an array, else JOB.SLOT or JOB.SLOT.ATTEMPT)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := c.client().Explain(cmd.Context(), args[0])
			return emit(c, err, e, e.Explain, func(w io.Writer) {
				for i := range e.Explain {
					e.Explain[i].Text = c.carry(e.Explain[i].Text)
				}
				explainTable(e).write(w)
			})
		},
	}
}

// explainTable leaves the job out of task ids: the story is about one job. It says a day once,
// above what happened on it, the rule by which tasks were placed the first time, and what tasks of
// a peer are held to where that is not what it was.
func explainTable(e api.Explanation) *grid {
	t := table("TIME", "TASK", "WHAT")
	day, rules, held := "", map[string]bool{}, map[string]string{}
	if e.Spec != nil {
		t.add("", "", e.Spec.Sentence())
	}
	for _, f := range e.Explain {
		at := f.Time.Local()
		if d := at.Format(time.DateOnly); d != day {
			day = d
			t.add(d, at.Format("MST"), "")
		}
		text := f.Text
		if i := ruleAt(text); i >= 0 {
			if rules[text[i:]] {
				text = text[:i]
			} else {
				rules[text[i:]] = true
			}
		}
		if now := heldText(f.HeldTo); f.HeldTo != nil && now != held[f.Peer] {
			text += " (held to " + now + ")"
			held[f.Peer] = now
		}
		t.add(at.Format("15:04:05.000"), orDash(api.ShortTask(cmp.Or(f.Named, f.Task))), text)
	}
	return t
}

// heldText is what tasks are, or can be, kept from; nil: that is not known.
func heldText(words []string) string {
	switch {
	case words == nil:
		return "-"
	case len(words) == 0:
		return "nothing"
	}
	return strings.Join(words, " ")
}

// ruleAt is where the rule of a placement begins at the end of a line, -1 if there is none.
func ruleAt(text string) int {
	i := strings.LastIndex(text, " (")
	if i < 0 || !strings.HasSuffix(text, ")") {
		return -1
	}
	for _, s := range []taskstate.Strategy{taskstate.Spread, taskstate.Binpack, taskstate.Random} {
		if strings.HasPrefix(text[i:], " ("+string(s)+": ") {
			return i
		}
	}
	return -1
}
