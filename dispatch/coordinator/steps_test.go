package coordinator

import (
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// growing is a service of one that is to be four: three slots are proposed, and nothing is decided
// until hold ends.
func growing(t *testing.T) (*rig, taskstate.Job) {
	r := newRig(t, CoreConfig{})
	job := taskstate.Job{ID: "s", Name: "s", Type: taskstate.ServiceJob, Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{}}}
	r.commands("member a", "hello a")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	r.take()
	r.hold = true
	job.Count = 4
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	return r, job
}

// Whatever makes core and ledger disagree, it must cost little.
func TestAStepWhoseDecisionIsRefusedRestsBeforeItComesToItAgain(t *testing.T) {
	r, _ := growing(t)
	for round := range 3 {
		if got := r.take(); strings.Count(got, "grow") != 1 {
			t.Fatalf("round %d: want to be asked for slots once:\n%s", round, got)
		}
		for _, cmds := range r.pending { // also what is written now and then
			results := make([]ledger.Result, len(cmds))
			for i := range results {
				results[i].Refused = ledger.CodeInvalid
			}
			r.step(LedgerApplied{
				Entry: ledger.Entry{Index: r.state.Index() + 1 + uint64(round), Epoch: r.epoch, Stamp: r.now.UnixMilli(), Commands: cmds}, Results: results,
			}, ProposalDone{})
		}
		r.pending = nil
		if got := r.take(); strings.Contains(got, "grow") {
			t.Fatalf("round %d: refused, and asked for again in the same moment:\n%s", round, got)
		}
		r.advance(refusedPause)
	}
}
