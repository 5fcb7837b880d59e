package orders

import (
	"context"
	"log/slog"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/held"
	"github.com/coveyproject/covey/node/view"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// Config is what Orders are carried out with.
type Config struct {
	Self       taskstate.PeerID
	View       View
	Who        *view.Names
	Deciders   Deciders
	Tell       func(job taskstate.JobID, state, note string) // who watches
	Line       Line
	Held       Held
	Replica    Replica
	Ledger     Ledger
	Members    func() *membership.View
	Roster     Roster
	Disk       Disk
	Secrets    Secrets
	Expect     func(taskstate.JobID) error                          // makes room for what a job is to read
	Sign       func(job *taskstate.Job, old *taskstate.Order) error // has this peer answer for a job, in the place of an order
	Doors      func() []admission.PeerAddr                          // where a newcomer finds this peer, and others
	Now        func() int64                                         // this machine's clock, in milliseconds since 1970
	LedgerTime func() int64                                         // the time that decisions go by
	Log        *slog.Logger
}

// View is what is known here of jobs and peers.
type View interface {
	Find(ctx context.Context, id string) (taskstate.JobID, *view.Held, error)
	FindLive(ctx context.Context, id string) (taskstate.JobID, *view.Held, error)
	FindTask(ctx context.Context, word string, find func(context.Context, string) (taskstate.JobID, *view.Held, error)) (taskstate.JobID, int, int, *view.Held, error)
	Job(ctx context.Context, id string) (api.JobAnswer, error)
	JobNow(id taskstate.JobID) (api.Job, error)
	JobOf(id taskstate.JobID) (*taskstate.Job, error)
	PeerNow(ctx context.Context, id taskstate.PeerID) (api.PeerAnswer, error)
	Predecessors(job *taskstate.Job) []api.Predecessor
	Reach(ctx context.Context, index uint64) error
	Refused(job *taskstate.Job, why string)
}

// Deciders words why nobody decides.
type Deciders interface {
	WhoIsMissing() string
	TryAgain() string
	LossText(lost ...quorum.LostSeat) string
}

// Line brings a call to the coordinator.
type Line interface {
	Decide(context.Context, calls.Call) (calls.Reply, error)
}

// Held keeps jobs that nobody has accepted yet.
type Held interface {
	Put(j taskstate.Job, now int64) error
	List() []held.Job
	Drop(id taskstate.JobID, withdrawn bool) (bool, error)
	Withdraw(id taskstate.JobID, why string) (bool, error)
	Withdrawals() []held.Job
}

// Replica is the ledger as far as this peer has heard.
type Replica interface{ Read(func(*ledger.State)) }

// Roster is who is admitted.
type Roster interface {
	Get(peer string) (admission.Entry, bool)
	Cluster() string
	Roots() []string
}

// Ledger tells who coordinates, and begins anew from a copy when nobody can.
type Ledger interface {
	calls.Ledger
	Copy() (quorum.Copy, error)
	AskCopy(context.Context, taskstate.PeerID) (quorum.Copy, error)
	Recover(context.Context, taskstate.PeerID, quorum.Copy) (uint64, error)
	Marked(generation uint64) uint64
	Losses() []quorum.LostSeat
	Covers(quorum.Copy, quorum.LostSeat) bool
	AsideJobs() []quorum.AsideJob
}

// Disk carries out writes for those who must answer in time.
type Disk interface {
	Do(write func() error, undo func()) error
	Takes() error // nil, or why nothing can be written
}

// Orders carry out what a person orders at this peer. They are safe for concurrent use.
type Orders struct {
	cfg     Config
	poke    wake.Signal // has Forward look
	recalls wake.Signal // has Recall look
}

// New makes Orders. Forward and Recall are to run as long as the peer does.
func New(cfg Config) *Orders {
	return &Orders{cfg: cfg, poke: wake.New(), recalls: wake.New()}
}
