package ledger

// attemptGap is how far the numbers of attempts jump when a ledger is recovered: more than the
// attempts of one slot that can have been made in decisions that were lost. No number is then given
// twice, so that a task of the lost part that still runs somewhere is never taken for another one
// of the same slot.
const attemptGap = 1000

// beginAgain prepares the state for a generation that goes on from a copy which may lack the last
// decisions of the one before.
func (s *State) beginAgain() {
	s.began = s.index
	for _, j := range s.order {
		if !j.cancelled { // one that is over can be renewed; lift raises a cancelled one
			j.slots.raise()
		}
	}
}

// FirstAttempt is the number of the first attempt of each slot of a job that is accepted in a
// generation: 1, unless it may have been accepted in a part of the ledger that was lost, and run.
func (c *Submit) FirstAttempt(generation uint64) int {
	if !c.Again || generation <= 1 {
		return 1
	}
	return int(generation-1)*attemptGap + 1
}
