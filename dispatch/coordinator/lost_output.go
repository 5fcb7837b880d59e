package coordinator

import "covey/taskstate"

// A task whose peer's disk did not take all of its output is no failure of the task: its slot gets another attempt, as with an attempt that was
// interrupted, and the peer gets nothing until it had time to say how its disk stands.

// givesBack tells whether the worker of an attempt that ended so takes nothing for the moment: it stops, or its disk takes nothing.
func givesBack(why taskstate.Reason) bool {
	return why == taskstate.ReasonInterrupted || why == taskstate.ReasonOutputLost || why == taskstate.ReasonStuck
}

// maxLost is how often a slot gets another attempt because its output was lost: a task that fills the disk of every peer it runs on must not go
// through all of them.
const maxLost = 3

// lostOutputs counts such attempts by slot. A new coordinator begins anew.
type lostOutputs map[int]int

// again counts one more and tells whether the slot gets another attempt.
func (l *lostOutputs) again(slot int) bool {
	if *l == nil {
		*l = lostOutputs{}
	}
	(*l)[slot]++
	return (*l)[slot] <= maxLost
}
