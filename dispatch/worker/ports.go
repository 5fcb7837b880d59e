package worker

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/p2p/starts"
	"github.com/coveyproject/covey/taskstate"
)

// Runner runs tasks. It is given a sink for its reports at construction – Loop.Report – and may
// call it from any goroutine, also before Start returns: a task that does nothing needs neither
// goroutine nor timer. Reports of one task come in order; after a final one nothing follows. The
// worker calls Adopt, Start, Stop and Kept one at a time.
type Runner interface {
	// Start begins a task and returns at once. What goes wrong is reported as the task's end.
	Start(taskstate.Launch)
	// Stop ends a task early and returns at once. Its end is reported as usual, as Shutdown with
	// this reason. Of a task that is being saved it breaks that off.
	Stop(task taskstate.TaskID, reason taskstate.Reason)
	// Adopt is called once, before anything is started: these tasks may have been started by an
	// earlier process of this peer, and nobody has its end. Those that still run are taken up again
	// and those that ended meanwhile are reported, as if they had been started just now. Of those
	// with Ended the process has ended: what they left is saved again. It returns the others: of
	// these nothing runs when it returns, and nothing is reported.
	Adopt(tasks []taskstate.Launch) (lost []taskstate.Loss)
	// Kept says that the ends of these tasks, none of which is a no-op, are in the journal. Until
	// then they may be told again by Adopt.
	Kept(tasks []taskstate.TaskID)
}

// Dialer opens streams to peers: the part of p2p.Net a worker needs.
type Dialer interface {
	Dial(ctx context.Context, peer, protocol string) (net.Conn, error)
}

// Config is what a worker is made of. Everything without "optional" is needed.
type Config struct {
	Self taskstate.PeerID
	// Incarnation is of the first journal in a data folder. "" says that there must be one already:
	// if it is gone, another incarnation begins.
	Incarnation taskstate.Incarnation
	Start       starts.Start // of the peer, told to the coordinator; optional
	// Stamps are the starts that may have used the journal last: one with another stamp is an old
	// copy. Optional.
	Stamps []uint64
	// Signed is the highest batch number of an incarnation that this peer remembers beside its
	// journal: one that ends before it is an old copy. Optional.
	Signed func(inc taskstate.Incarnation) uint64
	// Stamped hears that this start has used the journal: only its stamp is right from then on.
	// Called once, from a goroutine of Run's. Optional.
	Stamped func()
	Dir     string        // data folder; the journal is a file in it
	Offer   session.Offer // what this peer gives to tasks
	Net     Dialer
	// Local serves the session of this peer's own worker, when this peer coordinates: a host does
	// not dial itself. It closes the stream. Optional: without it, the own id is dialled like any
	// other.
	Local  func(peer string, c net.Conn)
	Runner Runner
	// Stager brings inputs here. Optional: without it the runner is given tasks as they are.
	Stager Stager
	// Coordinator names whom to keep a session with, in which epoch: a hint. Called from one
	// goroutine; must not block.
	Coordinator func() (taskstate.PeerID, taskstate.Epoch, bool)
	// Seated tells whether a peer holds a seat in the ledger: only such a one's Welcome counts.
	// Lied hears what a coordinator said that no honest one says. Both must not block. Optional.
	Seated func(peer taskstate.PeerID) bool
	Lied   func(peer taskstate.PeerID, what string)
	// Dialect is what the cluster speaks: frames say nothing above it. Optional: 1.
	Dialect func() int
	// Load is how busy this machine is: the same pointer as before says that nothing has changed.
	// Called with every beat; must not block. Optional.
	Load func() *session.Load
	// Seal signs a batch: body is its encoding. Called from one goroutine, once per batch; the
	// result is journaled and used ever after.
	Seal func(inc taskstate.Incarnation, number uint64, body []byte) ([]byte, error)
	// Synced hears how long each write to the journal took to be on disk. Optional.
	Synced func(time.Duration)
	// Publish hands a sealed batch to the topic. An error is logged: the digest exchange brings
	// what gossip lost.
	Publish func(ctx context.Context, envelope []byte) error
	// Retired hears up to which number this worker's batches are of no use to anybody any more.
	// Called from one goroutine; must not block. Optional.
	Retired func(inc taskstate.Incarnation, number uint64)
	// Renewed hears that another incarnation has begun, and why: the journal of the one before was
	// lost. Called by NewLoop and by Run before anything is said in its name; must not block.
	// Optional.
	Renewed func(inc taskstate.Incarnation, why string)
	// Exhausted hears why this worker gives tasks back and takes fewer: its machine refused it a
	// process or a file; nil: it takes as many as before. Must not block. Optional.
	Exhausted func(err error)
	// MakeRoom is asked when the disk refuses a transaction because it is full, and tells whether
	// there is more room now. Optional.
	MakeRoom func() bool
	// Journal replaces what opens the journal in Dir, which it is given: how a test has a disk that
	// takes its time, or refuses. Optional.
	Journal func(open journal.Opener) journal.Opener
	Log     *slog.Logger // optional
}

func (cfg *Config) validate() error {
	switch {
	case cfg.Self == "":
		return errors.New("worker: Self is needed")
	case cfg.Dir == "":
		return errors.New("worker: a data folder is needed")
	case cfg.Net == nil || cfg.Runner == nil || cfg.Coordinator == nil || cfg.Seal == nil || cfg.Publish == nil:
		return errors.New("worker: Net, Runner, Coordinator, Seal and Publish are needed")
	}
	return nil
}
