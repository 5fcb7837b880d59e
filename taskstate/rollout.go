package taskstate

// RolloutState is how far the tasks of a lasting job follow its version: a decision, kept in the
// ledger.
type RolloutState string

// The states of a rollout. Updating and RollingBack go on by themselves; the others wait for a
// person or for the next update.
const (
	RolloutNone           RolloutState = "" // never updated
	RolloutUpdating       RolloutState = "updating"
	RolloutPaused         RolloutState = "paused"
	RolloutCompleted      RolloutState = "completed"
	RolloutRollingBack    RolloutState = "rolling-back"
	RolloutRolledBack     RolloutState = "rolled-back"
	RolloutRollbackPaused RolloutState = "rollback-paused"
)

// Moving tells whether slots are being changed.
func (s RolloutState) Moving() bool { return s == RolloutUpdating || s == RolloutRollingBack }

// Halted tells whether it stopped on the way, until somebody says go on.
func (s RolloutState) Halted() bool { return s == RolloutPaused || s == RolloutRollbackPaused }

// Active tells whether slots of other versions are still to be renewed, now or once somebody says
// go on.
func (s RolloutState) Active() bool { return s.Moving() || s.Halted() }
