package decide

import (
	"context"

	"github.com/coveyproject/covey/dispatch/coordinator"
	"github.com/coveyproject/covey/dispatch/coordinator/freeze"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// Config is what a Decider decides with.
type Config struct {
	Self     taskstate.PeerID
	Ledger   Ledger
	Replica  Replica
	Loop     Coordinator
	View     View
	Deciders Deciders
	Roster   Roster
	Seats    interface{ Proof() []admission.Seats }
	Host     admission.Signer            // signs entries of the roster
	Doors    func() []admission.PeerAddr // where a newcomer finds this peer, others, and some that are away
	Remember func([]admission.PeerAddr)  // where peers are
	Wrong    func(string) []api.Trouble  // what this peer knows to be wrong with a peer
	Now      func() int64                // the time that decisions go by, in milliseconds since 1970
	Clock    func() int64                // what this machine's clock shows
}

// Ledger is where decisions are written.
type Ledger interface {
	Coordinator() (taskstate.PeerID, taskstate.Epoch, bool)
	Propose(context.Context, []ledger.Command) (uint64, []ledger.Result, error)
	RemoveVoter(context.Context, taskstate.PeerID) error
}

// Replica is the ledger as far as this peer has heard.
type Replica interface {
	Read(func(*ledger.State))
	Applied() uint64
}

// View is what is known here of jobs.
type View interface {
	JobOf(taskstate.JobID) (*taskstate.Job, error)
	Reach(ctx context.Context, index uint64) error
}

// Deciders are those who vote; Living without those who lost what they knew.
type Deciders interface {
	Voters() []taskstate.PeerID
	LivingVoters() []taskstate.PeerID
}

// Roster is who is admitted.
type Roster interface {
	Get(peer string) (admission.Entry, bool)
	All() []admission.Entry
	Cluster() string
	Roots() []string
}

// Coordinator is the loop that places tasks, while this peer coordinates.
type Coordinator interface {
	Waiting(context.Context, taskstate.JobID) (why string, err error)
	Whys(context.Context) (map[taskstate.JobID]string, error)
	Waited(context.Context, taskstate.JobID) ([]coordinator.WaitPeriod, error)
	Frozen(context.Context) (freeze.State, error)
	Thaw(context.Context) (was freeze.State, err error)
	Peers(context.Context) ([]coordinator.PeerLoad, error)
	Rebalance(context.Context, taskstate.JobID) (moves []coordinator.Move, busy bool, err error)
	Balance(context.Context, taskstate.JobID) (moves []coordinator.Move, busy bool, err error)
	Preview(context.Context, *taskstate.Job) (coordinator.Preview, error)
}

// Decider decides what peers call for while this peer coordinates.
type Decider struct{ cfg Config }

// New makes a Decider.
func New(cfg Config) *Decider { return &Decider{cfg} }
