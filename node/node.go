package node

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"covey/dispatch/coordinator"
	"covey/dispatch/ledger"
	"covey/dispatch/ledger/quorum"
	"covey/dispatch/worker"
	"covey/internal/atomicfile"
	"covey/membership"
	"covey/membership/digest"
	"covey/node/api"
	"covey/node/calls"
	"covey/node/decide"
	"covey/node/heard"
	"covey/node/held"
	"covey/node/orders"
	"covey/node/room"
	"covey/node/roster"
	"covey/node/stdin"
	"covey/node/tasklog"
	"covey/node/troubles"
	"covey/node/view"
	"covey/p2p"
	"covey/p2p/admission"
	"covey/p2p/starts"
	"covey/taskstate"
)

// Config says how a peer lives. The zero value of everything but Data is a default.
type Config struct {
	Data      string   // data folder
	Join      string   // ticket
	Bootstrap []string // addresses to join through by hand
	Invite    string   // secret, with Bootstrap
	Open      bool     // found a cluster that anybody may join

	NewIdentity bool // give up the identity that the folder holds and draw another one; needs Join or Bootstrap

	Listen     []string // multiaddrs or host:port
	Announce   []string // further addresses to tell others
	Name       string   // default: the host's name
	Labels     map[string]string
	MilliCPU   int64            // offered; default: all
	Memory     int64            // offered, bytes; default: all
	Others     taskstate.Counts // offered, by name: gpus, licenses, whatever jobs ask for
	NoMDNS     bool
	Testnet    bool // the API may cut this peer off from others
	Version    string
	KeepOutput int64            // bytes that the files of finished jobs may take here; default 16 GiB
	Now        func() time.Time // the machine's clock; default time.Now
	Say        func(string)     // tells a person, in a sentence, what the start waits for; default: the log
	Log        *slog.Logger
	Machine    Machine
}

// Node is one peer: its parts, and the wires between them. All fields are set before Run's
// goroutines start and not changed after, except where their own type guards them.
type Node struct {
	cfg     Config
	log     *slog.Logger
	started time.Time

	folder *folder
	self   taskstate.PeerID
	start  starts.Start // of this program in its folder
	stamps []uint64     // starts before it that may have used the journal last
	chain  startChain   // starts before it
	copies *copies
	heard  *heard.File
	moved  bool // the folder is not where it was at the last start
	name   string
	host   *p2p.Host
	roster *admission.Roster
	seats  *admission.SeatChain

	replica  *ledger.Replica
	ledger   *quorum.Node
	members  *membership.Membership
	table    *taskstate.Table
	store    *digest.Store
	exchange *digest.Exchange
	statuses *statuses
	coord    *coordinator.Loop
	worker   *worker.Loop
	runner   Runner
	logs     *tasklog.Store
	feeds    *feeds
	held     *held.Store
	line     *calls.Line
	desk     *decide.Desk
	refused  *quorum.Refusals // what members said that no honest one does
	disk     *disk
	room     fullDisk
	view     *view.View
	orders   *orders.Orders
	offer    *offering

	topic atomic.Pointer[p2p.Topic]

	keeper *roster.Keeper // has the roster in step with the ledger

	how      string            // founded, joined, resumed
	warnings []string          // of the start; not changed later
	troubles troubles.Troubles // what is wrong with peers, this one included
	down     chan struct{}     // closed by the first Down or Leave
	downOnce sync.Once
	ready    atomic.Bool   // the start is over
	up       chan struct{} // closed then
	leaving  atomic.Bool   // the end of the membership is this peer's own wish
}

// New opens the data folder and builds the parts. Nothing runs yet, but the folder is locked and
// the port is bound: Run or Close.
func New(cfg Config) (_ *Node, err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Say == nil {
		cfg.Say = func(s string) { cfg.Log.Warn(s) }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	n := &Node{
		cfg: cfg, log: cfg.Log, started: time.Now(),
		down: make(chan struct{}), up: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			n.Close()
			err = n.room.explain(err)
		}
	}()
	if err = checkName(cfg.Name); err != nil {
		return nil, err
	}
	n.offer = &offering{cfg: cfg}
	if offer := n.offer.now(); offer.Check() != nil {
		return nil, api.Errorf(api.Usage, "this peer cannot offer that: %v", offer.Check())
	}
	if n.folder, err = openFolder(cfg.Data, cfg.Join != "" || len(cfg.Bootstrap) > 0, cfg.NewIdentity); err != nil {
		return nil, err
	}
	n.disk = &disk{dir: n.folder.dir}
	n.room = fullDisk{room.Open(room.Config{Dir: n.folder.dir, Look: cfg.Machine.Room, Say: n.roomChanged})}
	if n.name, err = n.folder.name(cfg.Name); err != nil {
		n.log.Warn("name not remembered", "err", err)
	}
	if err = n.openNetwork(); err != nil {
		return nil, err
	}
	if err = n.moveOver(); err != nil {
		return nil, err
	}
	if err = n.openState(); err != nil {
		return nil, err
	}
	return n, n.openWork()
}

// openNetwork: who this peer is, whom it lets in, where it listens.
func (n *Node) openNetwork() (err error) {
	key, err := p2p.LoadIdentity(n.folder.path(keyFile))
	if err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	n.roster, err = admission.OpenRoster(n.folder.path("roster"), p2p.Verify)
	switch {
	case errors.Is(err, admission.ErrDamaged): // it was moved aside: begin takes it from the ledger, or says what to do
		n.log.Warn("roster damaged", "err", err)
		n.warnings = append(n.warnings, err.Error())
	case err != nil:
		return api.Errorf(api.Failed, "%v", err)
	}
	if n.self, err = p2p.ID(key); err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	n.beginStart()
	n.copies = newCopies(n.copiesConfig(key))
	n.host, err = p2p.New(p2p.Config{
		Key: key, Listen: n.cfg.Listen, Announce: n.cfg.Announce, Admitted: n.roster.Admitted, Strangers: []string{admission.JoinProtocol, admission.OldJoinProtocol, admission.RosterProtocol},
		Prefer: n.folder.port(), Sought: len(n.roster.All()) > 1, MDNS: !n.cfg.NoMDNS && n.cfg.Machine.Sockets == nil, OnFound: n.neighbour,
		Relay: true, Sockets: n.cfg.Machine.Sockets, Log: n.log,
		Version: n.cfg.Version, Start: n.start, OnHello: n.copies.Heard, OnOld: n.tooOld, OnSecond: n.copies.Ask,
	})
	if err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	n.offer.name, n.offer.addrs = n.name, n.host.Addrs
	if err := atomicfile.Write(n.folder.path("port"), fmt.Appendf(nil, "%d\n", n.host.Port())); err != nil {
		n.log.Warn("port not remembered", "err", err)
	}
	n.refused = quorum.NewRefusals(n.log)
	n.seats, err = admission.OpenSeats(n.folder.path("seats"), n.host, p2p.Verify)
	if errors.Is(err, admission.ErrDamaged) {
		n.log.Warn("seats damaged", "err", err)
	} else if err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	n.keeper = roster.New(roster.Config{Self: n.self, Roster: n.roster, Ledger: func() *quorum.Node { return n.ledger }, Net: n.host, Note: n.refused.Note, Log: n.log})
	n.roster.Believe(n.seats, n.keeper.Level, n.keeper.Past)
	return nil
}

// openState: what was decided, who is here, what is reported.
func (n *Node) openState() (err error) {
	if n.ledger, err = n.openLedger(n.candidates); err != nil {
		return err
	}
	n.replica = n.ledger.Replica()
	n.table = taskstate.NewTable(n.replica, parkLimit)
	n.store = digest.NewStore(0)
	n.line = calls.NewLine(n.lineConfig())
	if n.held, err = held.Open(n.folder.path("held"), n.line.Signer().ForDisk()); err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	n.view = view.New(n.viewConfig())
	n.orders = orders.New(n.ordersConfig())
	n.members, err = membership.New(membership.Config{
		Net: n.host, Host: dialer{n.host, n.keeper.Show}, Name: n.name, Incarnation: n.folder.incarnation, Start: n.start, Seat: n.ledger.SeatIncarnation(), Addrs: n.host.Addrs,
		Version: n.cfg.Version, Sign: n.host.Sign, Verify: p2p.Verify, Admitted: n.roster.Admitted, Book: n.folder.path("book"), Expect: len(n.roster.All()), Log: n.log,
	})
	return err
}

func (n *Node) openLedger(candidates func() []quorum.Candidate) (*quorum.Node, error) {
	l, err := quorum.Open(quorum.Config{
		Net: n.host, Self: n.self, Incarnation: n.folder.incarnation, Dir: n.folder.path("ledger"), Mark: n.folder.path("voter.mark"), Sign: n.host.Sign, Verify: p2p.Verify, Candidates: candidates, MayVote: n.keeper.MayVote, Seats: n.seats, Refused: n.refused, Log: n.log, Now: n.cfg.Now,
	})
	if err != nil {
		return nil, api.Errorf(api.Failed, "%v", err)
	}
	return l, nil
}

// parkLimit is how many statuses wait for ledger entries this peer has not got yet.
const parkLimit = 100_000

// openWork: running tasks here, and coordinating those of all when this peer is elected.
func (n *Node) openWork() (err error) {
	n.feeds = &feeds{self: n.self, host: n.host, assigned: n.replica.Assigned, reach: n.view.Reach, spools: stdin.Open(n.folder.path("tasks"))}
	if n.runner, err = n.newRunner(); err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	n.heard = heard.Open(heard.Config{
		Path: n.folder.path(heard.Name), Newest: n.store.Newest, Seated: func() bool { return n.ledger.Seated(n.self) }, Log: n.log,
	})
	n.statuses = newStatuses(n)
	n.exchange = digest.New(n.exchangeConfig())
	n.statuses.offer, n.statuses.allows = n.exchange.Offer, n.exchange.Allows
	n.coord = coordinator.NewLoop(n.coordConfig())
	n.desk = decide.New(n.deskConfig())
	n.offer.moved(n.host.Addrs())
	n.worker, err = worker.NewLoop(n.workerConfig())
	if err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	n.logs = tasklog.NewStore(tasklog.Config{Dir: n.folder.path("tasks"), Live: n.runner.Live, Started: n.worker.Replayed()})
	n.store.Current(n.self, string(n.worker.Incarnation()))
	return nil
}

// TasksFolder is where the peer with this data folder keeps its tasks: what supervise.EndAll wants.
func TasksFolder(data string) string { return filepath.Join(data, "tasks") }

// Close releases what New took. After Run it is not needed.
func (n *Node) Close() error {
	var errs []error
	if n.worker != nil {
		errs = append(errs, n.worker.Close())
	}
	if n.runner != nil {
		errs = append(errs, n.runner.Close())
	}
	if n.ledger != nil {
		errs = append(errs, n.ledger.Close())
	}
	if n.host != nil {
		errs = append(errs, n.host.Close())
	}
	if n.folder != nil {
		errs = append(errs, n.folder.close())
	}
	return errors.Join(errs...)
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
