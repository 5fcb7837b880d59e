package node

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"covey/dispatch/coordinator"
	"covey/dispatch/ledger"
	"covey/dispatch/ledger/quorum"
	"covey/dispatch/worker"
	"covey/membership"
	"covey/membership/digest"
	"covey/node/calls"
	"covey/node/copies"
	"covey/node/decide"
	"covey/node/guard"
	"covey/node/held"
	"covey/node/highwater"
	"covey/node/metrics"
	"covey/node/orders"
	"covey/node/readers"
	"covey/node/roster"
	"covey/node/secrets"
	"covey/node/stdin"
	"covey/node/tasklog"
	"covey/node/troubles"
	"covey/node/view"
	"covey/p2p"
	"covey/p2p/admission"
	"covey/taskstate"
	"covey/trust/audit"
	"covey/trust/seal"
)

// Node is one peer: its parts, and the wires between them. All fields are set before Run's
// goroutines start and not changed after, except where their own type guards them.
type Node struct {
	cfg     Config
	log     *slog.Logger
	started time.Time

	folder    *folder
	self      taskstate.PeerID
	begun     thisStart
	copies    *copies.Copies
	highwater *highwater.File
	name      string
	host      *p2p.Host
	roster    *admission.Roster
	seats     *admission.SeatChain

	replica  *ledger.Replica
	ledger   *quorum.Node
	members  *membership.Membership
	table    *taskstate.Table
	store    *digest.Store
	exchange *digest.Exchange
	statuses *statuses
	heed     *heed
	coord    *coordinator.Loop
	dialects *dialects
	worker   *worker.Loop
	runner   Runner
	owner    *guard.Owner // of this machine: what it lets run
	guard    *guard.Guard
	trust    *guard.Desk
	logs     *tasklog.Store
	files    *jobFiles
	seat     *seat
	doors    *doors
	feeds    *stdin.Feeds
	sealKey  *seal.Key
	audience *secrets.Audience // whom secrets are for
	secrets  *secrets.Secrets
	held     *held.Store
	line     *calls.Line
	desk     *decide.Desk
	refused  *quorum.Refusals // what members said that no honest one does
	disk     *disk
	room     fullDisk
	view     *view.View
	orders   *orders.Orders
	offer    *offering

	audit *audit.Log

	given   *readers.Given
	readers *readers.Readers

	keeper *roster.Keeper // has the roster in step with the ledger

	how      string   // founded, joined, resumed
	warnings []string // of the start; not changed later
	metrics  *metrics.Meter
	troubles troubles.Troubles // what is wrong with peers, this one included
	own      troubles.Own      // what is wrong with this one
	down     chan struct{}     // closed by the first Down or Leave
	downOnce sync.Once
	ready    atomic.Bool   // the start is over
	up       chan struct{} // closed then
	leaving  atomic.Bool   // the end of the membership is this peer's own wish
}

// now is this machine's clock, in milliseconds since 1970. It may be wrong, and it may be set:
// nothing that is decided rests on it alone.
func (n *Node) now() int64 { return n.cfg.Now().UnixMilli() }

// ledgerTime is the time that decisions go by: that of the clock, and never before what the ledger
// has been stamped with.
func (n *Node) ledgerTime() (at int64) {
	n.replica.Read(func(s *ledger.State) { at = s.Stamp() })
	return max(at, n.now())
}
