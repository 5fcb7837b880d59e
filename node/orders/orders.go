package orders

import (
	"context"
	"log/slog"

	"covey/dispatch/ledger"
	"covey/dispatch/ledger/quorum"
	"covey/membership"
	"covey/node/calls"
	"covey/node/held"
	"covey/node/view"
	"covey/p2p/admission"
	"covey/taskstate"
)

// Config is what Orders are carried out with.
type Config struct {
	Self       taskstate.PeerID
	View       *view.View
	Line       *calls.Line
	Held       *held.Store
	Replica    *ledger.Replica
	Ledger     Ledger
	Members    func() *membership.View
	Roster     *admission.Roster
	Disk       Disk
	Expect     func(taskstate.JobID) error // makes room for what a job is to read
	Doors      func() []admission.PeerAddr // where a newcomer finds this peer, and others
	Now        func() int64                // this machine's clock, in milliseconds since 1970
	LedgerTime func() int64                // the time that decisions go by
	Log        *slog.Logger
}

// Ledger tells who coordinates, and begins anew from a copy when nobody can.
type Ledger interface {
	calls.Ledger
	Copy() (quorum.Copy, error)
	AskCopy(context.Context, taskstate.PeerID) (quorum.Copy, error)
	Recover(context.Context, taskstate.PeerID, quorum.Copy) (uint64, error)
	Marked(generation uint64) uint64
	Losses() []quorum.Loss
}

// Disk carries out writes for those who must answer in time.
type Disk interface {
	Do(write func() error, undo func()) error
	Takes() error // nil, or why nothing can be written
}

// Orders carry out what a person orders at this peer. They are safe for concurrent use.
type Orders struct {
	cfg     Config
	poke    chan struct{} // wakes Forward
	recalls chan struct{} // wakes Recall
}

// New makes Orders. Forward and Recall are to run as long as the peer does.
func New(cfg Config) *Orders {
	return &Orders{cfg: cfg, poke: make(chan struct{}, 1), recalls: make(chan struct{}, 1)}
}
