package coordinator

import (
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator/clock"
	"github.com/coveyproject/covey/dispatch/coordinator/freeze"
	"github.com/coveyproject/covey/taskstate"
)

// Core is the pure core of the one peer that decides: who runs what, which ends are settled, which
// attempts are given up. It is built from the ledger's state at the start of an epoch and lives no
// longer than that epoch. From then on every entry applied must be fed to it, in order, as
// LedgerApplied; it changes its mind about decisions only by what was applied.
//
// It does no I/O and reads no clock. Its driver calls Step with an event and the time,
// carries out the effects in order, and calls again no later than Wake says. It is not safe for
// concurrent use.
//
// It has no state of its own: each part owns its own, and knows only those above it here.
type Core struct {
	cfg   *CoreConfig
	epoch taskstate.Epoch

	clock    *clock.Clock
	agenda   *agenda
	outbox   *outbox
	peers    *peers
	jobs     *jobs
	sessions *sessions
	tasks    *tasks
	placer   *placer
	replacer *replacer
	recaller *recaller
	upkeep   *upkeep
	explain  *explainer
}

// Wake is when Step must be called at the latest, with TimePassed if nothing else happened; zero if
// time alone changes nothing.
func (c *Core) Wake() time.Time { return c.clock.Wake() }

// Peers lists the members, by id.
func (c *Core) Peers() []PeerLoad { return c.peers.loads() }

// Frozen tells whether and why nothing is replaced.
func (c *Core) Frozen() freeze.State { return c.peers.frozen() }

// Waiting tells a person why a job has slots that nobody runs; "" if it has none, or is over.
func (c *Core) Waiting(id taskstate.JobID) string { return c.explain.waiting(id) }

// Whys says of every job that waits for something why, as Waiting does of one.
func (c *Core) Whys() map[taskstate.JobID]string { return c.explain.whys() }

// Waited lists the newest times in which a job's slots waited because nobody could take them, as
// far as this coordinator saw them and until the job is over.
func (c *Core) Waited(id taskstate.JobID) []WaitPeriod { return c.explain.waited(id) }

// Preview tells where the tasks of a job would go now. If there is a job with its id, it is taken
// for an update of that. Nothing is changed; a moment later the answer may be another.
func (c *Core) Preview(job *taskstate.Job) Preview { return c.placer.preview(job) }

// Rebalance tells which tasks of a service to move so that its peers differ by one task at most, by
// slot. Nothing is changed. While tasks are on their way – busy – there is nothing to say yet.
func (c *Core) Rebalance(id taskstate.JobID) (moves []Move, busy bool) { return c.upkeep.rebalance(id) }
