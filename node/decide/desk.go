package decide

import (
	"context"

	"covey/dispatch/coordinator"
	"covey/dispatch/ledger"
	"covey/node/api"
	"covey/node/view"
	"covey/p2p/admission"
	"covey/taskstate"
)

// Config is what a Desk decides with.
type Config struct {
	Self     taskstate.PeerID
	Ledger   Ledger
	Replica  *ledger.Replica
	Coord    *coordinator.Loop
	View     *view.View
	Roster   *admission.Roster
	Seats    *admission.SeatChain
	Host     admission.Signer            // signs entries of the roster
	Doors    func() []admission.PeerAddr // where a newcomer finds this peer, and others
	Remember func([]admission.PeerAddr)  // where peers are
	Wrong    func(string) []api.Trouble  // what this peer knows to be wrong with a peer
	Now      func() int64                // the time that decisions go by, in milliseconds since 1970
}

// Ledger is where decisions are written.
type Ledger interface {
	Coordinator() (taskstate.PeerID, taskstate.Epoch, bool)
	Propose(context.Context, []ledger.Command) (uint64, []ledger.Result, error)
	RemoveVoter(context.Context, taskstate.PeerID) error
}

// Desk decides what peers call for while this peer coordinates.
type Desk struct{ cfg Config }

// New makes a Desk.
func New(cfg Config) *Desk { return &Desk{cfg} }
