package view

import (
	"covey/dispatch/ledger"
	"covey/taskstate"
)

// lastEnded is the newest attempt a slot has left behind that is known to have run to an end;
// without a peer if there is none.
func lastEnded(j *ledger.JobRecord, slot int) ledger.SlotRecord {
	past := j.Past(slot)
	for i := len(past) - 1; i >= 0; i-- {
		if p := past[i]; p.End != nil && (p.End.Exit != taskstate.NoExit || p.End.Signal > 0) {
			return ledger.SlotRecord{Slot: slot, Attempt: p.Attempt, Peer: p.Peer, Final: p.End}
		}
	}
	return ledger.SlotRecord{}
}

// earlierAttempt is an attempt that its slot has left behind; now if it is not remembered.
func earlierAttempt(j *ledger.JobRecord, slot, attempt int, now ledger.SlotRecord) ledger.SlotRecord {
	for _, p := range j.Past(slot) {
		if p.Attempt == attempt {
			return ledger.SlotRecord{Slot: slot, Attempt: attempt, Peer: p.Peer, Final: &taskstate.Status{State: taskstate.Shutdown}}
		}
	}
	return now
}
