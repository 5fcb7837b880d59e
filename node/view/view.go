package view

import (
	"context"
	"iter"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/node/story"
	"github.com/coveyproject/covey/node/tasklog"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// Config is all that a View reads, and whom it asks. What is a function is called anew for each
// answer.
type Config struct {
	Self    taskstate.PeerID
	Boot    string    // tells this start of the peer from others in the tokens of events
	Started time.Time // by this machine's clock
	Up      <-chan struct{}
	Now     func() time.Time // this machine's clock

	Replica Replica                                                     // what was decided, as far as this peer has heard
	Ledger  Ledger                                                      // who decides
	Table   Table                                                       // what workers report of tasks
	Members func() *membership.View                                     // who is here, as gossip has it
	Roster  Roster                                                      // who is admitted, before the ledger has come
	Held    func() []Held                                               // jobs that wait here for a coordinator, the oldest first; the slice is the caller's
	Offer   func() session.Offer                                        // what this peer gives to tasks
	Output  func() Output                                               // output of the tasks that ran here
	Net     Net                                                         // connections, and output from elsewhere
	Kept    func() Kept                                                 // output that is kept elsewhere than where the task ran
	Copies  func() Copies                                               // of what tasks printed, on second peers; nil: there are none
	Wrong   func(string) []api.Trouble                                  // what this peer knows to be wrong with a peer
	Story   Story                                                       // what is remembered of what happened; nil: nothing
	Ask     func(context.Context, calls.ClusterCall) *calls.ClusterView // how the coordinator sees everybody; nil: it does not say
}

// Replica is the ledger as far as this peer has heard.
type Replica interface {
	Read(func(*ledger.State))
	Applied() uint64
	Assigned(taskstate.TaskID) (taskstate.PeerID, taskstate.Incarnation, uint64, taskstate.LedgerView)
}

// Table is what was reported of tasks. It asks the Replica under a lock: nobody asks it within
// Read.
type Table interface {
	Get(taskstate.TaskID) (taskstate.Status, bool)
	OfJob(taskstate.JobID) map[taskstate.TaskID]taskstate.Status
	All() iter.Seq[taskstate.Status]
}

// Roster is who is admitted.
type Roster interface {
	Get(peer string) (admission.Entry, bool)
	All() []admission.Entry
}

// Output is where this peer has its tasks' output.
type Output interface {
	Copy(context.Context, tasklog.Request, func(tasklog.Chunk) error) error
}

// Kept is output that is kept when its task has ended.
type Kept interface {
	Logs(ctx context.Context, s *taskstate.Saved, at int64, req tasklog.Request, f func(tasklog.Chunk) error) error
}

// Copies are second copies of what tasks printed.
type Copies interface {
	Holders(job taskstate.JobID, submitter taskstate.PeerID) []taskstate.PeerID // those that may have some
	SoleAt(ctx context.Context, peer taskstate.PeerID, job taskstate.JobID, leaving bool) (keep.Sole, error)
}

// Ledger tells who decides, and who is missing where nobody does.
type Ledger interface {
	Coordinator() (taskstate.PeerID, taskstate.Epoch, bool)
	Distance() time.Duration
	Voters() []quorum.Voter
	Missing() []taskstate.PeerID
	Losses() []quorum.LostSeat
	Stale() *quorum.StaleSeat
	SetAside() []quorum.Aside
	Copy() (quorum.Copy, error)
}

// Net is what a View needs of the network.
type Net interface {
	tasklog.Dialer
	Connected(peer string) (direct, relayed bool)
}

// Story remembers what happened that is not about single tasks.
type Story interface {
	Add(of story.Entry, events ...story.Event)
	Since(t time.Time) []story.Event
}

// Held is a job that nobody has accepted yet.
type Held struct {
	Since int64 // milliseconds since 1970
	Job   taskstate.Job
}

// View answers questions about jobs, tasks and peers. It is safe for concurrent use.
type View struct {
	Who      *Names
	Deciders *Deciders
	Events   *Events
	Shapes   *Shapes

	cfg     Config
	hub     *hub
	applied *mark
}

// New makes a View. It hears of what happens by Events and Applied.
func New(cfg Config) *View {
	v := &View{cfg: cfg, hub: newHub(cfg.Boot), applied: newMark(), Who: &Names{self: cfg.Self, replica: cfg.Replica, roster: cfg.Roster}}
	v.Deciders = &Deciders{cfg.Self, cfg.Ledger, cfg.Members, v.Who}
	v.Events = &Events{hub: v.hub, replica: cfg.Replica, table: cfg.Table, now: v.now, writer: storyWriter{v.Who, cfg.Story}, verdicts: map[taskstate.PeerID]membership.Verdict{}}
	v.Shapes = &Shapes{view: v}
	v.Applied()
	return v
}

// Applied hears that the replica has come further: what waits for that in Reach goes on.
func (v *View) Applied() { v.applied.set(v.cfg.Replica.Applied()) }

// Reach waits until this peer's replica has come to an index, so that what is asked next knows what
// was decided there.
func (v *View) Reach(ctx context.Context, index uint64) error { return v.applied.reach(ctx, index) }

func (v *View) now() int64 { return v.cfg.Now().UnixMilli() }
