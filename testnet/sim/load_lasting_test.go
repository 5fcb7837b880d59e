package sim

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// stuck is a service whose only slot waits for another try of a version that does not work, while
// the way back from there is paused.
func stuck(t *testing.T, w *world) *work {
	id := failing(t, w)
	j := w.load.byID[id]
	bad := *j.meant(&j.job)
	bad.Run.Noop = &taskstate.Noop{Duration: brokenSpec}
	j.mark(&bad)
	w.decide(t, ledger.Command{Update: &ledger.Update{Job: bad}})
	w.decide(t, ledger.Command{Renew: &ledger.Renew{Job: id, Slots: []ledger.Slots{{First: 1, N: 1}}, Version: 2, Reason: taskstate.ReasonUpdated}})
	w.decide(t, ledger.Command{Rollout: &ledger.Rollout{Job: id, State: taskstate.RolloutRollingBack}})
	w.decide(t, ledger.Command{Rollout: &ledger.Rollout{Job: id, State: taskstate.RolloutRollbackPaused, Message: "it failed, late"}})
	return j
}

func TestPeopleHaveAPausedUpdateGoOnUntilTheyEndEverything(t *testing.T) {
	w := founded(t)
	w.calm = true
	j := stuck(t, w)
	w.load.release()
	w.load.mend(false)
	if j.wishes != 1 {
		t.Fatalf("%d wishes, want that its way back goes on: nothing else can mend it", j.wishes)
	}
	j.wishes = 0
	w.load.endAll()
	if w.load.mend(false); j.wishes != 0 {
		t.Errorf("%d wishes about what is being ended, want none", j.wishes)
	}
}
