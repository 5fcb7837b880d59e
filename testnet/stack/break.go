package stack

// Break is one thing made wrong on purpose, to prove that the checks would see it.
type Break string

// The breaks, and what each one breaks.
const (
	BreakDropAcked Break = "drop-acked" // clients: a submission is acknowledged, and was never handed in
	BreakAhead     Break = "ahead"      // clients: a peer tells of an end that nobody decided
	BreakSayYes    Break = "say-yes"    // clients: cancels are acknowledged, and not handed in
	BreakBackwards Break = "backwards"  // I2: a watch tells of a task's states in the wrong order
	BreakTwice     Break = "twice"      // I4: a runner starts work again that must not run twice
	BreakOversell  Break = "oversell"   // I10: a peer offers twice what it has
	BreakDeaf      Break = "deaf"       // I1: tasks that are stopped run on
	BreakAllDisks  Break = "all-disks"  // I1: all lose the ledger, and what tells that there was one
	BreakOldFolder Break = "old-folder" // I4: a peer whose folder was turned back starts again what it started since
	BreakStaleSeat Break = "stale-seat" // I1: a voter does not notice that its folder was put back to an old copy
	BreakTwoOfOne  Break = "two-of-one" // I4: a clone starts again what its original runs
	BreakFill      Break = "fill"       // I9: a peer does not see that its disk is full
	BreakBelieve   Break = "believe"    // I8: an answer to one that pretends to hold a seat is a yes
	BreakPuppet    Break = "puppet"     // I8: such a one is named as the coordinator
	BreakNoWake    Break = "no-wake"    // I1: a peer that died does not come back when the faults are over
	BreakStillCut  Break = "still-cut"  // I5: what was cut stays so for a while when it is said to heal
	BreakLoseFiles Break = "lose-files" // I16: nobody has what tasks left when the faults are over
	BreakChanged   Break = "changed"    // I19: a peer runs something else than what was signed
	BreakLoose     Break = "loose"      // I19: a peer runs what was signed under nothing that its policy names
	BreakForged    Break = "forged"     // I19: every peer takes every signature for good
	BreakReplayed  Break = "replayed"   // I19: what was asked for once is done whenever it is said again
	BreakRunAgain  Break = "run-again"  // I4: a peer runs what it is given, whatever it ran before
	BreakGullible  Break = "gullible"   // I19: a peer runs what it is given, whatever the ledger says
)

// shows names the fault without which a break changes nothing: lives with that break have more of
// it. "" is none.
func (b Break) shows() string {
	switch b {
	case BreakFill:
		return "full disk"
	case BreakOldFolder:
		return "turn back"
	case BreakStaleSeat:
		return "put back"
	case BreakTwoOfOne:
		return "clone"
	case BreakBelieve, BreakPuppet:
		return "bad hands"
	case BreakForged, BreakReplayed, BreakRunAgain, BreakGullible:
		return "crook"
	}
	return ""
}
