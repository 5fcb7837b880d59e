package ledger_test

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// aptCommand draws a command that says something about the state at hand.
func aptCommand(r *rapid.T, st *ledger.State) ledger.Command {
	jobs := slices.Collect(st.Jobs())
	if len(jobs) == 0 {
		return someJob("j1")
	}
	j := jobs[rapid.IntRange(0, len(jobs)-1).Draw(r, "which job")]
	peer := rapid.SampledFrom([]string{"p1", "p2", "p3"}).Draw(r, "which peer")
	n := rapid.IntRange(1, max(1, j.Slots())).Draw(r, "which slot")
	slot := j.Slot(n)
	switch what := rapid.IntRange(0, 9).Draw(r, "what"); {
	case slot.Pending() && what < 7:
		if slot.Pin != "" && what < 5 {
			peer = slot.Pin
		}
		m, _ := st.Member(peer)
		return ledger.Command{Assign: &ledger.Assign{
			Job: j.Job().ID, Peer: peer, Incarnation: m.Incarnation, Version: slot.Version,
			Slots: []ledger.Slots{run(n, rapid.IntRange(1, 3).Draw(r, "how many"), slot.Attempt)},
		}}
	case slot.Open && what < 6:
		return endOf(r, j, slot.Peer, slot.Incarnation, n, slot.Attempt)
	case slot.Open && what < 7:
		return ledger.Command{Supersede: &ledger.Supersede{
			Task: taskstate.Task(j.Job().ID, n, slot.Attempt), Reason: taskstate.ReasonUnreachable, Again: rapid.Bool().Draw(r, "again"),
		}}
	case slot.Final != nil && slot.Final.Saved != nil && what >= 5:
		return anyKept(r, j.Job().ID, []ledger.Slots{run(n, rapid.IntRange(1, 3).Draw(r, "how many"), slot.Attempt)})
	case what == 7 && len(j.Past(n)) > 0:
		past := j.Past(n)
		p := past[rapid.IntRange(0, len(past)-1).Draw(r, "which attempt")]
		return endOf(r, j, p.Peer, p.Incarnation, n, p.Attempt)
	}
	attempt := slot.Attempt
	if rapid.IntRange(0, 3).Draw(r, "any attempt") == 0 {
		attempt = 0
	}
	c := anyLasting(r, peer, j.Job().ID, []ledger.Slots{run(n, rapid.IntRange(1, 3).Draw(r, "how many"), attempt)})
	if rapid.Bool().Draw(r, "from what was seen") {
		sawUpTo(&c, max(1, st.Index()-min(st.Index(), rapid.Uint64Range(0, 9).Draw(r, "entries ago"))))
	}
	return c
}

// anyKept draws who keeps what some tasks left, or no more.
func anyKept(r *rapid.T, job taskstate.JobID, slots []ledger.Slots) ledger.Command {
	peers := rapid.SampledFrom([]string{"p1", "p2", "p3", "gone"})
	return ledger.Command{Kept: &ledger.Kept{
		Job: job, Slots: slots, Peer: peers.Draw(r, "keeper"), Not: rapid.Bool().Draw(r, "not"),
		Lost: rapid.SliceOfNDistinct(peers, 0, 2, rapid.ID).Draw(r, "lost"),
	}}
}

// sawUpTo makes a command depend on what was decided later.
func sawUpTo(c *ledger.Command, seen uint64) {
	switch {
	case c.Renew != nil:
		c.Renew.Seen = seen
	case c.Retire != nil:
		c.Retire.Seen = seen
	case c.Grow != nil:
		c.Grow.Seen = seen
	case c.Rollout != nil:
		c.Rollout.Seen = seen
	}
}

func endOf(r *rapid.T, j *ledger.JobRecord, peer string, inc taskstate.Incarnation, slot, attempt int) ledger.Command {
	return ledger.Command{Settle: &ledger.Settle{Peer: peer, Incarnation: inc, Statuses: []taskstate.Status{{
		Task: taskstate.Task(j.Job().ID, slot, attempt), Seq: rapid.Uint64Range(1, 2).Draw(r, "seq"), At: 5, Saved: anySaved(r),
		State: rapid.SampledFrom([]taskstate.State{
			taskstate.Complete, taskstate.Complete, taskstate.Failed, taskstate.Failed, taskstate.Rejected, taskstate.Shutdown, taskstate.Orphaned,
		}).Draw(r, "end"),
	}}}}
}

// anyLasting draws one of the commands about versions, slots and peers.
func anyLasting(r *rapid.T, peer string, job taskstate.JobID, slots []ledger.Slots) ledger.Command {
	version := rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3}).Draw(r, "version")
	reason := rapid.SampledFrom([]taskstate.Reason{taskstate.ReasonUpdated, taskstate.ReasonDrained}).Draw(r, "reason")
	switch rapid.SampledFrom([]string{
		"renew", "renew", "renew", "retire", "grow", "update", "update", "rollout", "rollout", "avail", "label", "submit", "skip",
	}).Draw(r, "lasting") {
	case "renew":
		return ledger.Command{Renew: &ledger.Renew{
			Job: job, Slots: slots, Version: version, Reason: reason, NotBefore: rapid.SampledFrom([]int64{0, 7}).Draw(r, "not before"),
		}}
	case "skip": // moments around those of the runs
		return ledger.Command{Skip: &ledger.Skip{Job: rapid.SampledFrom([]taskstate.JobID{"c1", "c1", "c1", job}).Draw(r, "schedule"), At: rapid.Int64Range(0, 3000).Draw(r, "moment"), Run: "k1"}}
	case "retire":
		return ledger.Command{Retire: &ledger.Retire{Job: job, Slots: slots, Reason: reason}}
	case "grow":
		g := &ledger.Grow{Job: job, Version: version, N: rapid.IntRange(-1, 2).Draw(r, "by")}
		if g.N < 1 {
			g.Peers = rapid.SliceOfN(rapid.SampledFrom([]string{"p1", "p2", "p3"}), 0, 3).Draw(r, "pins")
			g.N = 0
		}
		g.First = rapid.SampledFrom([]int{0, 0, 0, 2, 3, 4}).Draw(r, "first")
		return ledger.Command{Grow: g}
	case "update":
		c := someJob(job)
		c.Submit.Job.Run.Noop.Duration = rapid.Int64Range(1, 3).Draw(r, "spec")
		if c.Submit.Job.Type == taskstate.ServiceJob {
			c.Submit.Job.Count = rapid.IntRange(0, 4).Draw(r, "count")
		}
		return ledger.Command{Update: &ledger.Update{Job: c.Submit.Job, From: version}}
	case "rollout":
		return ledger.Command{Rollout: &ledger.Rollout{Job: job, Version: version / 2 * 2, Message: rapid.StringMatching(`[xy]?`).Draw(r, "text"), State: rapid.SampledFrom([]taskstate.RolloutState{
			taskstate.RolloutUpdating, taskstate.RolloutPaused, taskstate.RolloutCompleted, taskstate.RolloutRollingBack, taskstate.RolloutRollingBack, taskstate.RolloutRolledBack, taskstate.RolloutRollbackPaused,
		}).Draw(r, "rollout")}}
	case "avail":
		return ledger.Command{Avail: &ledger.SetAvailability{Peer: peer, Availability: rapid.SampledFrom([]ledger.Availability{
			ledger.AvailActive, ledger.AvailActive, ledger.AvailPause, ledger.AvailDrain,
		}).Draw(r, "availability")}}
	case "label":
		return ledger.Command{Label: &ledger.Label{
			Peer: peer, Set: map[string]string{"zone": rapid.StringMatching(`[abc]`).Draw(r, "zone")},
			Unset: rapid.SliceOfN(rapid.SampledFrom([]string{"zone", "own"}), 0, 2).Draw(r, "unset"),
		}}
	}
	return someJob(rapid.SampledFrom(jobIDs()).Draw(r, "another job"))
}
