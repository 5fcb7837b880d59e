package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/dispatch/worker"
	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/internal/mailbox"
	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/copies"
	"github.com/coveyproject/covey/node/decide"
	"github.com/coveyproject/covey/node/door"
	"github.com/coveyproject/covey/node/guard"
	"github.com/coveyproject/covey/node/held"
	"github.com/coveyproject/covey/node/highwater"
	"github.com/coveyproject/covey/node/links"
	"github.com/coveyproject/covey/node/load"
	"github.com/coveyproject/covey/node/orders"
	"github.com/coveyproject/covey/node/readers"
	"github.com/coveyproject/covey/node/room"
	"github.com/coveyproject/covey/node/roster"
	"github.com/coveyproject/covey/node/secrets"
	"github.com/coveyproject/covey/node/stdin"
	"github.com/coveyproject/covey/node/story"
	"github.com/coveyproject/covey/node/sweep"
	"github.com/coveyproject/covey/node/troubles"
	"github.com/coveyproject/covey/node/view"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"
	"github.com/coveyproject/covey/trust/audit"
	"github.com/coveyproject/covey/trust/policy"
	"github.com/coveyproject/covey/trust/seal"
)

// New opens the data folder and builds the parts. Nothing runs yet, but the folder is locked and
// the port is bound: Run or Close.
func New(cfg Config) (_ *Node, err error) {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Say == nil {
		cfg.Say = func(s string) { cfg.Log.Warn(s) }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	n := &Node{
		cfg: cfg, log: cfg.Log, started: time.Now(),
		up: make(chan struct{}), ending: &ending{asked: make(chan struct{})},
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
	if err = checkMoved(cfg); err != nil {
		return nil, err
	}
	n.offer = &offering{cfg: cfg}
	if offer := n.offer.now(); offer.Check() != nil {
		return nil, api.Errorf(api.Usage, "this peer cannot offer that: %v", offer.Check())
	}
	if n.folder, err = openFolder(cfg.Data, cfg.Join != "" || len(cfg.Bootstrap) > 0, cfg.NewIdentity); err != nil {
		return nil, err
	}
	n.folder.at = cfg.Machine.Place
	n.offer.measure(n.folder.dir)
	n.disk = &disk{dir: n.folder.dir}
	n.room = fullDisk{room.Open(room.Config{Dir: n.folder.dir, Look: cfg.Machine.Room, Say: func(err error) {
		n.worker.Refrain(api.TroubleDiskFull, err) // takes nothing on, and says so: here and, with its offer, to all
		n.own.DiskFull(err)
	}})}
	if n.name, err = n.folder.name(cfg.Name); err != nil {
		n.log.Warn("name not remembered", "err", err)
	}
	if n.door, err = door.New(door.Config{Path: n.folder.path(door.FileName), Listen: cfg.API, Now: cfg.Now, Log: n.log}); err != nil {
		return nil, err
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

// Run lives until ctx ends, Down or Leave is asked for, or something essential fails. ready is
// called once when the peer can be used. Before Run returns everything it started has ended.
func (n *Node) Run(ctx context.Context, ready func(api.Status)) error {
	if err := n.enter(ctx); err != nil {
		err = errors.Join(err, n.Close())
		if n.keeper.Removed() { // while this peer was away: what it left running must end
			err = errors.Join(err, n.folder.endTasks())
		}
		return n.room.explain(err)
	}
	life, end := context.WithCancelCause(context.Background()) // ends after the goodbyes, not with ctx
	defer end(nil)
	var wg sync.WaitGroup
	run := func(what string, f func(context.Context) error) {
		wg.Go(func() {
			if err := f(life); err != nil && life.Err() == nil {
				end(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	stop, err := n.wire(life)
	if err != nil {
		return errors.Join(err, n.Close())
	}
	n.begin(run)
	listener, err := n.cfg.Machine.listenAPI(n.folder.dir)
	if err != nil {
		end(nil)
		return errors.Join(api.Errorf(api.Failed, "%v", err), n.finish(&wg, stop))
	}
	n.door.SetAPI(api.NewHandler(n.Backend(), gate(n)))
	run("door", n.door.Run)
	run("api", func(ctx context.Context) error { return n.serveAPI(ctx, listener) })

	err = n.awaitReady(ctx, life)
	if err == nil {
		n.ready.Store(true)
		close(n.up)
		st, _ := n.Status(ctx)
		ready(st)
		select {
		case <-ctx.Done():
		case <-n.ending.asked:
		case <-life.Done():
		}
	}
	n.goodbye()
	if errors.Is(err, quorum.ErrNewer) {
		end(err)
	}
	end(nil)
	err = n.finish(&wg, stop)
	if cause := context.Cause(life); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return n.ended(err)
}

// ended is what this peer's end means, which brought err: one that was removed leaves nothing
// running.
func (n *Node) ended(err error) error {
	if err != nil || !n.keeper.Removed() {
		return err
	}
	if err := n.folder.endTasks(); err != nil || n.ending.leaving.Load() {
		return err
	}
	return n.keeper.ErrRemoved()
}

// begin starts what a peer is made of, each until the peer's life ends; the contacts come last.
func (n *Node) begin(run func(what string, f func(context.Context) error)) {
	run("audit", n.audit.Run)
	run("ledger", func(ctx context.Context) error { return n.ledger.Run(ctx, n.lead) })
	run("story", n.story.Run)
	run("membership", n.members.Run)
	run("digest", n.exchange.Run)
	run("copies", n.copies.Run)
	run("workers heard", n.highwater.Run)
	run("former identity", func(ctx context.Context) error { return n.folder.giveUp(ctx, n.self, n.host.Dial, n.log) })
	run("statuses", func(ctx context.Context) error { return n.statuses.refill(ctx, n.store) })
	run("worker", n.worker.Run)
	run("policy", n.owner.Run)
	run("rights", func(ctx context.Context) error { return n.observers.review(ctx, n.keeper.InSync, n.guard.Review) })
	run("room", n.room.Run)
	run("files", n.files.store.Run)
	run("what is kept", n.files.care.Run)
	run("copies of output", n.files.printed.Run)
	run("inputs", n.files.stager.Run)
	run("secrets", n.secrets.Run)
	run("old files", sweep.New(n.sweepConfig()).Run)
	run("old copies of output", sweep.New(n.copiesSweep()).Run)
	run("held jobs", n.orders.Forward)
	run("withdrawn jobs", n.orders.Recall)
	run("coordinator news", n.followLeads)
	run("roster", func(ctx context.Context) error { return n.keeper.Run(ctx, n.rosterChanged) })
	run("liars", func(ctx context.Context) error { return watchLiars(ctx, n.members.Liars, n.view.Who.Name, &n.troubles) })
	run("seat", n.seat.tell)
	if n.cfg.Machine.API == nil { // whoever simulates this machine has another one's load
		run("load", n.load.Meter.Run)
	}
}

// openNetwork: who this peer is, whom it lets in, where it listens.
func (n *Node) openNetwork() (err error) {
	key, err := p2p.LoadIdentity(n.folder.path(keyFile))
	if err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	if n.sealKey, err = seal.Load(n.folder.path(sealKeyFile)); err != nil {
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
	n.own = troubles.Own{Self: n.self, All: &n.troubles, Log: n.log}
	n.audit = audit.New(audit.Config{Path: n.folder.path(audit.FileName), Now: n.cfg.Now, Trouble: n.own.Audit})
	n.audit.Write(audit.Record{What: audit.Began, By: n.self, Detail: "version " + n.cfg.Version})
	if begun, err := n.folder.begin(n.self); err != nil {
		// A number that the next start would not know of is not used: others take this one for what
		// it was.
		n.log.Warn("this start cannot be remembered, so that a copy of this peer may go unnoticed", "err", err)
	} else if n.begun = begun; begun.moved != "" {
		n.own.Moved(begun.moved)
	}
	n.copies = copies.New(n.copiesConfig(key))
	barred := mailbox.New[taskstate.PeerID]()
	n.host, err = p2p.New(p2p.Config{
		Key: key, Listen: n.cfg.Listen, Announce: n.cfg.Announce, Admitted: n.roster.Admitted, Strangers: []string{admission.JoinProtocol, admission.OldJoinProtocol, admission.RosterProtocol},
		Prefer: n.folder.port(), Sought: len(n.roster.All()) > 1, MDNS: !n.cfg.NoMDNS && n.cfg.Machine.Sockets == nil, OnFound: neighbour(n.roster.Admitted),
		Relay: true, Sockets: n.cfg.Machine.Sockets, Slowable: n.cfg.Testnet, Log: n.log,
		Version: n.cfg.Version, Start: n.begun.start, OnHello: n.copies.Heard, OnOld: n.tooOld, OnSecond: n.copies.Ask,
		OnNotAdmitted: barred.Put,
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
	n.keeper = roster.New(roster.Config{Self: n.self, Left: func() bool { return n.left }, Roster: n.roster, Ledger: func() *quorum.Node { return n.ledger }, Net: n.host, Note: n.refused.Note, Log: n.log, NotAdmitted: barred})
	n.roster.Believe(n.seats, n.keeper.InSync, n.keeper.AppliedUpTo)
	return nil
}

// openState: what was decided, who is here, what is reported.
func (n *Node) openState() (err error) {
	n.metrics = newMetrics(n)
	var known atomic.Pointer[view.View] // other voters ask before it is there
	if n.ledger, err = n.openLedger(func() []quorum.Candidate { return n.candidates(known.Load()) }); err != nil {
		return err
	}
	n.replica = n.ledger.Replica()
	if n.members, err = membership.New(membership.Config{
		Net: n.host, Host: dialer{n.host, n.keeper.Show}, Name: n.name, Incarnation: n.folder.incarnation, Start: n.begun.start, Seat: n.ledger.SeatIncarnation(), Addrs: n.host.Addrs,
		Version: n.cfg.Version, Recipient: n.sealKey.Recipient(), Sign: n.host.Sign, Verify: p2p.Verify, Admitted: n.roster.Admitted, Deciders: n.voting, Book: n.folder.path("book"), Expect: len(n.roster.All()), Log: n.log,
	}); err != nil {
		return err
	}
	n.doors = &contacts{self: n.self, host: n.host, members: n.members}
	n.table = taskstate.NewTable(n.replica, parkLimit)
	n.store = digest.NewStore(0)
	n.line = calls.NewLine(n.lineConfig())
	if n.held, err = held.Open(n.folder.path("held"), n.line.Signer().ForDisk()); err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	n.given = readers.NewGiven(n.replica, n.roster.Roots)
	n.readers = readers.New(readers.Config{Self: n.self, Replica: n.replica, Roles: n.given.Roles})
	n.story = story.Open(n.folder.path(story.FileName), n.cfg.Now)
	n.view = view.New(n.viewConfig())
	known.Store(n.view)
	n.links = &links.Asker{Self: n.self, Dial: n.host.Dial, Members: n.members.View, Connected: n.host.Connected, Name: n.view.Who.Called}
	n.load = &load.Hours{Self: n.self, Meter: load.NewMeter(), Dial: n.host.Dial, Find: n.view.Who.MeantPeer, Name: n.view.Who.Called}
	n.clinic = newClinic(n)
	n.audience = &secrets.Audience{
		Self: n.self, Replica: n.replica, Members: n.members.View, Roots: n.roster.Roots, Reach: n.view.Reach, Peers: n.view.Peers, Lets: n.line.Lets,
	}
	n.secrets = secrets.New(n.secretsConfig())
	n.orders = orders.New(n.ordersConfig())
	n.seat = &seat{ledger: n.ledger, members: n.members, deciders: n.view.Deciders, who: n.view.Who, own: n.own, since: n.started}
	return nil
}

// parkLimit is how many statuses wait for ledger entries this peer has not got yet.
const parkLimit = 100_000

// candidates are the peers that may vote, as far as v knows. Before there is one it is nobody.
func (n *Node) candidates(v *view.View) []quorum.Candidate {
	if v == nil {
		return nil
	}
	return v.Deciders.Candidates(n.ledger.SeatIncarnation())
}

// openWork: running tasks here, and coordinating those of all when this peer is elected.
func (n *Node) openWork() (err error) {
	if n.files, err = openFiles(n); err != nil {
		return err
	}
	n.feeds = &stdin.Feeds{
		Self: n.self, Net: n.host, Spools: stdin.Open(n.folder.path("tasks")), Replica: n.replica, Reach: n.view.Reach, Held: n.held.Has, Log: n.log,
		Current: func() bool { current, _ := n.ledger.InSync(); return current },
	}
	n.owner = guard.NewOwner(guard.OwnerConfig{
		Path: n.folder.path(policy.FileName), Self: n.self, Cluster: n.roster.Cluster, Now: n.now, Verify: n.cfg.Machine.verify, Roles: n.given.Roles, Changed: n.policyChanged, Replica: n.replica,
		Facts: func() constraint.Facts { return n.offer.facts(n.self) },
		User:  n.cfg.TaskUser, Older: n.folder.older, Life: func() taskstate.Incarnation { return n.worker.Incarnation() },
	})
	n.offer.owner = n.owner
	if n.runner, err = n.newRunner(); err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	n.highwater = highwater.Open(highwater.Config{
		Path: n.folder.path(highwater.Name), Newest: n.store.Newest, Seated: func() bool { return n.ledger.Seated(n.self) }, Log: n.log,
	})
	n.statuses = newStatuses(n)
	n.observers = &entryObservers{self: n.self, replica: n.replica, keeper: n.keeper, store: n.store, statuses: n.statuses, given: n.given, readers: n.readers, view: n.view, metrics: n.metrics, rights: wake.New()}
	n.exchange = digest.New(n.exchangeConfig())
	n.statuses.offer, n.statuses.allows = n.exchange.Offer, n.exchange.Allows
	n.coord = coordinator.NewLoop(n.coordConfig())
	n.dialects = &dialects{self: n.self, ledger: n.ledger, view: n.members.View, moved: wake.New(), troubles: &n.troubles, log: n.log}
	n.desk = decide.New(n.deskConfig())
	n.offer.moved(n.host.Addrs())
	n.worker, err = worker.NewLoop(n.workerConfig())
	if err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	n.files.openPrinted(n)
	n.store.Current(n.self, string(n.worker.Incarnation()))
	return nil
}

// openFolder makes the folder if it is not there, locks it and reads (or draws) its incarnation.
// One that has lost everything but its key is opened only to join with: who types `peer up` there
// means the cluster it was in, and must not found another unawares.
func openFolder(dir string, joining, anew bool) (*folder, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("data folder %s: %w", dir, err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, api.Errorf(api.Failed, "cannot make the data folder: %v; choose another with --data DIR", err)
	}
	if err := onlyOurs(abs); err != nil {
		return nil, err
	}
	f := &folder{dir: abs}
	if f.lock, err = os.OpenFile(f.path(lockName), os.O_CREATE|os.O_RDWR, 0o600); errors.Is(err, syscall.EROFS) {
		return nil, api.Errorf(api.Failed, "cannot use the data folder: %v; check that disk, mount it for writing, and start this peer again: what runs here goes on meanwhile", err)
	} else if err != nil {
		return nil, api.Errorf(api.Failed, "cannot use the data folder: %v; is it yours? choose another with --data DIR", err)
	}
	if err := f.takeLock(); err != nil {
		f.lock.Close()
		return nil, api.Errorf(api.Conflict, "a peer already runs with the data folder %s; stop it with `peer down --data %s`, or give this one a folder of its own with --data DIR", abs, abs)
	}
	if anew {
		if err := f.newIdentity(joining); err != nil {
			f.lock.Close()
			return nil, err
		}
	}
	if !joining && f.wiped() {
		f.lock.Close()
		return nil, api.Errorf(api.Conflict, "the data folder %s holds the key of a peer that was in a cluster, and nothing else any more. To come back as the same peer, make a ticket there (`peer ticket`) and type `peer up --join TICKET`; to found a new cluster, remove the file %s first", abs, f.path(keyFile))
	}
	_, err = os.Stat(f.path("incarnation"))
	f.fresh = errors.Is(err, fs.ErrNotExist) && !f.lived()
	_, noSeal := os.Stat(f.path(sealKeyFile))
	_, noAudit := os.Stat(f.path(audit.FileName))
	f.older = errors.Is(noSeal, fs.ErrNotExist) && errors.Is(noAudit, fs.ErrNotExist)
	if f.incarnation, err = readIncarnation(f.path("incarnation")); err != nil {
		f.lock.Close()
		return nil, err
	}
	return f, nil
}
