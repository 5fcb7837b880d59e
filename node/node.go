package node

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/dispatch/worker"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/clinic"
	"github.com/coveyproject/covey/node/copies"
	"github.com/coveyproject/covey/node/decide"
	"github.com/coveyproject/covey/node/door"
	"github.com/coveyproject/covey/node/guard"
	"github.com/coveyproject/covey/node/held"
	"github.com/coveyproject/covey/node/highwater"
	"github.com/coveyproject/covey/node/links"
	"github.com/coveyproject/covey/node/load"
	"github.com/coveyproject/covey/node/metrics"
	"github.com/coveyproject/covey/node/orders"
	"github.com/coveyproject/covey/node/readers"
	"github.com/coveyproject/covey/node/roster"
	"github.com/coveyproject/covey/node/secrets"
	"github.com/coveyproject/covey/node/stdin"
	"github.com/coveyproject/covey/node/story"
	"github.com/coveyproject/covey/node/tasklog"
	"github.com/coveyproject/covey/node/troubles"
	"github.com/coveyproject/covey/node/view"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/audit"
	"github.com/coveyproject/covey/trust/seal"
)

// Node is one peer: its parts, and the wires between them. All fields are set before Run's
// goroutines start and not changed after, except where their own type guards them.
type Node struct {
	cfg     Config
	log     *slog.Logger
	started time.Time

	// Who this peer is, whom it lets in, where it listens.
	folder *folder
	self   taskstate.PeerID
	name   string
	begun  thisStart
	left   bool           // this peer left its cluster by itself and has not joined again; set by enter
	copies *copies.Copies // who else goes by its key
	host   *p2p.Host
	doors  *contacts
	door   *door.Door // lets programs ask over TCP
	roster *admission.Roster
	keeper *roster.Sync // has the roster in step with the ledger
	seats  *admission.SeatChain

	// What was decided, who is here.
	ledger    *quorum.Node
	replica   *ledger.Replica
	observers *entryObservers
	members   *membership.Membership
	dialects  *dialects
	seat      *seat
	refused   *quorum.Refusals // what members said that no honest one does
	given     *readers.Given
	readers   *readers.Readers

	// What is reported.
	table     *taskstate.Table
	store     *digest.Store
	exchange  *digest.Exchange
	statuses  *statuses
	highwater *highwater.File

	// What runs here, and who runs what when this peer coordinates.
	coord    *coordinator.Loop
	worker   *worker.Loop
	offer    *offering
	runner   Runner
	owner    *guard.Owner // of this machine: what it lets run
	guard    *guard.Guard
	logs     *tasklog.Store
	files    *jobFiles
	feeds    *stdin.Feeds
	sealKey  *seal.Key
	audience *secrets.Audience // whom secrets are for
	secrets  *secrets.Secrets
	disk     *disk
	room     fullDisk

	// What people ask and order.
	view    *view.View
	orders  *orders.Orders
	trust   *guard.OwnerView
	held    *held.Store
	line    *calls.Line
	desk    *decide.Decider
	audit   *audit.Log
	story   *story.Story
	links   *links.Asker
	load    *load.Hours
	clinic  *clinic.Clinic
	metrics *metrics.Meter

	how      string            // founded, joined, resumed
	warnings []string          // of the start; not changed later
	troubles troubles.Troubles // what is wrong with peers, this one included
	own      troubles.Own      // what is wrong with this one
	ready    atomic.Bool       // the start is over
	up       chan struct{}     // closed then
	ending   *ending
}

// now is this machine's clock, in milliseconds since 1970. It may be wrong, and it may be set:
// nothing that is decided rests on it alone.
func (n *Node) now() int64 { return n.cfg.Now().UnixMilli() }

// ledgerTime is the time that decisions go by: that of the clock, as far as the other voters'
// clocks let it be ahead, and never before what the ledger has been stamped with.
func (n *Node) ledgerTime() (at int64) {
	n.replica.Read(func(s *ledger.State) { at = s.Stamp() })
	return max(at, n.ledger.Clock(at))
}
