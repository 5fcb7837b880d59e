package sim

import (
	"slices"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// Break is one thing made wrong on purpose.
type Break string

// The breaks, and the invariant each one breaks.
const (
	BreakLoseAcked     Break = "lose-acked"      // I1: applying an entry forgets some jobs
	BreakOverwrite     Break = "overwrite"       // I2: a table takes the last status for the newest
	BreakUnfence       Break = "unfence"         // I3: a worker ignores epochs
	BreakSameTerm      Break = "same-term"       // I3: an election does not begin a new epoch
	BreakNoSync        Break = "no-sync"         // I4: the journal's last write is lost in a crash
	BreakBlankJournal  Break = "blank-journal"   // I4: a worker goes on under the same name without its journal
	BreakOldJournal    Break = "old-journal"     // I4: a worker believes an old journal, whatever others know
	BreakForgetWait    Break = "forget-wait"     // I4: work that must not run twice is replaced
	BreakNoDigest      Break = "no-digest"       // I5: what gossip lost is not fetched
	BreakReplaceAtOnce Break = "replace-at-once" // I6: one lost session, and everything is given up
	BreakPatient       Break = "patient"         // I1: a worker may keep for ever what it does not start
	BreakNoRetry       Break = "no-retry"        // I1: to try again is acknowledged, and not decided
	BreakKeepTask      Break = "keep-task"       // I7: to cancel a task is acknowledged, and not decided
	BreakDeaf          Break = "deaf"            // I7: tasks that are stopped run on
	BreakNoAck         Break = "no-ack"          // I9: nothing is ever acknowledged
	BreakOversell      Break = "oversell"        // I10: a peer says it has twice what it has
	BreakFill          Break = "fill"            // I9: a peer takes tasks although its disk is full
	BreakBlame         Break = "blame"           // I1: output that a full disk lost is the task's own fault
	BreakAhead         Break = "ahead"           // clients: a peer tells of an end that nobody decided
	BreakSayYes        Break = "say-yes"         // clients or I1: cancels are acknowledged, and not decided

	BreakAllAtOnce    Break = "all-at-once"   // I11: updates renew all slots at once, whatever their parallelism
	BreakOneTooMany   Break = "one-too-many"  // I11: services get a replica more than was asked for
	BreakNeverMind    Break = "never-mind"    // I12: updates go on, however many of their tasks fail
	BreakLoseDrain    Break = "lose-drain"    // I13: a peer that is to be emptied is not
	BreakOneTooFew    Break = "one-too-few"   // I13: services get a replica less than was asked for
	BreakTwice        Break = "twice"         // I14: global jobs are not bound to their peers
	BreakRestartFast  Break = "restart-fast"  // I15: nothing waits for its delay
	BreakRestartOften Break = "restart-often" // I15: nothing ever used up its attempts

	BreakRunAgain    Break = "run-again"    // I4: a peer that starts again runs what it was saving
	BreakDropSaving  Break = "drop-saving"  // I4: a peer that starts again gives up what it was saving
	BreakSilentSave  Break = "silent-save"  // I10: what is being saved counts as running
	BreakEmptyWord   Break = "empty-word"   // I16: peers are named as keepers that never said so
	BreakNoCopies    Break = "no-copies"    // I16: nobody is named as a keeper but the maker
	BreakForgetful   Break = "forgetful"    // I16: what the ledger says is kept is let go of
	BreakBelieve     Break = "believe"      // I17: what comes is not checked
	BreakNoInputs    Break = "no-inputs"    // I17: inputs are said to be here that are not
	BreakOverfill    Break = "overfill"     // I18: a store takes more than its quota
	BreakEvictLeased Break = "evict-leased" // I18: a store removes what somebody reads

	BreakTrusting   Break = "trusting"    // I19: a peer starts whatever the coordinator gives it
	BreakLoose      Break = "loose"       // I19: tasks run under less than their peer's policy names
	BreakBelieveAll Break = "believe-all" // I19: the ledger takes every signature for good

	BreakTellAll Break = "tell-all" // I20: every replica has what all jobs run
)

// misread is the spec as it comes to be decided, if something is made wrong on purpose.
func misread(w *world, spec *taskstate.Job) *taskstate.Job {
	out := *spec
	if spec.Update != nil {
		u := *spec.Update
		switch out.Update = &u; w.cfg.Break {
		case BreakAllAtOnce:
			u.Parallelism = 0
		case BreakNeverMind:
			u.OnFailure = taskstate.ContinueUpdate
		case BreakOneTooFew:
			out.Count = max(0, out.Count-1)
		case BreakOneTooMany:
			if out.Type == taskstate.ServiceJob {
				out.Count++
			}
		}
	}
	if spec.Restart != nil {
		r := *spec.Restart
		switch out.Restart = &r; {
		case w.cfg.Break == BreakRestartFast:
			r.Delay = 0
		case w.cfg.Break == BreakRestartOften && out.Type.Lasts():
			r.Attempts = 0
		}
	}
	return &out
}

// spoil is what a coordinator proposes, if something is made wrong on purpose.
func spoil(w *world, cmds []ledger.Command) []ledger.Command {
	if w.cfg.Break != BreakTwice {
		return cmds
	}
	out := slices.Clone(cmds)
	for i, c := range out {
		if c.Grow != nil && len(c.Grow.Peers) > 0 {
			out[i] = ledger.Command{Grow: &ledger.Grow{Job: c.Grow.Job, N: 2 * len(c.Grow.Peers), Version: c.Grow.Version}}
		}
	}
	return out
}
