package sim

import (
	"bytes"
	"fmt"

	"covey/dispatch/ledger"
)

// commands describes an entry for a reader.
func commands(cmds []ledger.Command, results []ledger.Result) string {
	var b bytes.Buffer
	for i, c := range cmds {
		switch {
		case c.Found != nil:
			fmt.Fprint(&b, "found ")
		case c.Lead != nil:
			fmt.Fprint(&b, "lead ")
		case c.Admit != nil:
			fmt.Fprint(&b, "admit ", c.Admit.Entry.Peer, " ")
		case c.Submit != nil:
			fmt.Fprint(&b, "submit ", c.Submit.Job.ID, " ")
		case c.Cancel != nil:
			fmt.Fprint(&b, "cancel ", c.Cancel.Job, " ")
		case c.Assign != nil:
			fmt.Fprint(&b, "assign ", c.Assign.Job, c.Assign.Slots, " to ", c.Assign.Incarnation, " ")
		case c.Settle != nil:
			fmt.Fprint(&b, "settle by ", c.Settle.Incarnation, " ")
			for _, s := range c.Settle.Statuses {
				fmt.Fprint(&b, s.Task, "=", s.State, " ")
			}
		case c.Supersede != nil:
			fmt.Fprint(&b, "supersede ", c.Supersede.Task, " ", c.Supersede.Reason, " again ", c.Supersede.Again, " ")
		case c.Depart != nil:
			fmt.Fprint(&b, "depart ", c.Depart.Peer, " ")
		case c.Update != nil:
			fmt.Fprintf(&b, "update %s: %d of %+v, %+v ", c.Update.Job.ID, c.Update.Job.Count, *c.Update.Job.Run.Noop, *c.Update.Job.Update)
		case c.Renew != nil:
			fmt.Fprintf(&b, "renew %+v ", *c.Renew)
		case c.Retire != nil:
			fmt.Fprintf(&b, "retire %+v ", *c.Retire)
		case c.Grow != nil:
			fmt.Fprintf(&b, "grow %+v ", *c.Grow)
		case c.Rollout != nil:
			fmt.Fprintf(&b, "rollout %+v ", *c.Rollout)
		case c.Avail != nil:
			fmt.Fprintf(&b, "avail %+v ", *c.Avail)
		case c.Label != nil:
			fmt.Fprintf(&b, "label %+v ", *c.Label)
		case c.Register != nil:
			fmt.Fprint(&b, "register ", c.Register.Incarnation, " ")
		}
		if i < len(results) && results[i].Refused != ledger.CodeNone {
			fmt.Fprintf(&b, "REFUSED %s %v %v ", results[i].Refused, results[i].Slots, results[i].Statuses)
		}
	}
	return b.String()
}
