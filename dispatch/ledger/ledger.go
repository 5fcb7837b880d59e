package ledger

import (
	"context"

	"covey/taskstate"
)

// Ledger is what the coordinator's loop and the node need of a ledger. quorum.Node implements it.
type Ledger interface {
	// Propose decides commands together, in order, and returns once they are applied in the own
	// replica: one result per command, and the index of the entry. Concurrent calls may share an
	// entry. It fails with ErrNotCoordinator when this peer does not lead, and with the context's
	// error when that ends first; then the commands may still be decided later.
	Propose(ctx context.Context, commands []Command) (index uint64, results []Result, err error)
	// Replica is this peer's own copy of what was decided.
	Replica() *Replica
	// Coordinator is who coordinates as far as this peer knows: certain when it is this peer
	// itself, a hint otherwise.
	Coordinator() (peer taskstate.PeerID, epoch taskstate.Epoch, ok bool)
}

// ErrNotCoordinator says that this peer cannot decide. Hint is whom to ask instead, "" if that is
// not known.
type ErrNotCoordinator struct {
	Hint taskstate.PeerID
}

// Error names the hint.
func (e ErrNotCoordinator) Error() string {
	if e.Hint == "" {
		return "this peer does not coordinate, and does not know who does; ask again in a second"
	}
	return "this peer does not coordinate; ask " + e.Hint
}
