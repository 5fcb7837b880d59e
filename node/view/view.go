package view

import (
	"context"
	"sync"
	"time"

	"covey/dispatch/ledger"
	"covey/dispatch/ledger/quorum"
	"covey/dispatch/session"
	"covey/membership"
	"covey/node/api"
	"covey/node/calls"
	"covey/node/tasklog"
	"covey/p2p/admission"
	"covey/taskstate"
)

// Config is all that a View reads, and whom it asks. What is a function is called anew for each
// answer.
type Config struct {
	Self    taskstate.PeerID
	Boot    string    // tells this start of the peer from others in the tokens of events
	Started time.Time // by this machine's clock
	Up      <-chan struct{}
	Now     func() time.Time // this machine's clock

	Replica *ledger.Replica                                     // what was decided, as far as this peer has heard
	Ledger  Ledger                                              // who decides
	Table   *taskstate.Table                                    // what workers report of tasks
	Members func() *membership.View                             // who is here, as gossip has it
	Roster  *admission.Roster                                   // who is admitted, before the ledger has come
	Held    func() []Held                                       // jobs that wait here for a coordinator, the oldest first; the slice is the caller's
	Offer   func() session.Offer                                // what this peer gives to tasks
	Output  func() *tasklog.Store                               // output of the tasks that ran here
	Net     Net                                                 // connections, and output from elsewhere
	Wrong   func(string) []api.Trouble                          // what this peer knows to be wrong with a peer
	Ask     func(context.Context, calls.FlockCall) *calls.Flock // how the coordinator sees everybody; nil: it does not say
}

// Ledger tells who decides, and who is missing where nobody does.
type Ledger interface {
	Coordinator() (taskstate.PeerID, taskstate.Epoch, bool)
	Voters() []quorum.Voter
	Missing() []taskstate.PeerID
	Losses() []quorum.Loss
}

// Net is what a View needs of the network.
type Net interface {
	tasklog.Dialer
	Connected(peer string) (direct, relayed bool)
}

// Held is a job that nobody has accepted yet.
type Held struct {
	Since int64 // milliseconds since 1970
	Job   taskstate.Job
}

// View answers questions about jobs, tasks and peers. It is safe for concurrent use.
type View struct {
	cfg     Config
	hub     *hub
	applied *mark

	mu       sync.Mutex
	verdicts map[taskstate.PeerID]membership.Verdict // told last
}

// New makes a View. It hears of what happens by Decided, Applied, Reported, Seen and Tell.
func New(cfg Config) *View {
	v := &View{cfg: cfg, hub: newHub(cfg.Boot), applied: newMark(), verdicts: map[taskstate.PeerID]membership.Verdict{}}
	v.Applied()
	return v
}

// Decided makes events of an applied entry, or of a ledger that was replaced as a whole. It comes
// before the table forgets what the ledger now knows for good.
func (v *View) Decided(ev ledger.Event) {
	if ev.Reset {
		v.hub.append([]event{{at: v.now(), kind: kindSnapshot}})
		return
	}
	v.hub.append(v.entryEvents(ev))
}

// Applied hears that the replica has come further: whoever waits for that in Reach goes on.
func (v *View) Applied() { v.applied.set(v.cfg.Replica.Applied()) }

// Reach waits until this peer's replica has come to an index, so that what is asked next knows what
// was decided there.
func (v *View) Reach(ctx context.Context, index uint64) error { return v.applied.reach(ctx, index) }

// Reported makes events of what was news of tasks.
func (v *View) Reported(news []taskstate.Status) {
	evs := make([]event, 0, len(news))
	for _, st := range news {
		peer, _, _, _ := v.cfg.Replica.Assigned(st.Task)
		evs = append(evs, taskEvent(st, peer))
	}
	v.hub.append(evs)
}

// Tell makes an event of what became of a job at this peer: decided is nothing of it.
func (v *View) Tell(job taskstate.JobID, state, note string) {
	v.hub.append([]event{{at: v.now(), kind: kindJob, job: job, state: state, note: note}})
}

// Next is closed when the next event comes.
func (v *View) Next() <-chan struct{} {
	_, _, more := v.hub.after(v.hub.last())
	return more
}

// now is this machine's clock, in milliseconds since 1970.
func (v *View) now() int64 { return v.cfg.Now().UnixMilli() }
