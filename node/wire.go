package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"covey/dispatch/coordinator"
	"covey/dispatch/cron"
	"covey/dispatch/ledger"
	"covey/dispatch/ledger/quorum"
	"covey/dispatch/session"
	"covey/dispatch/worker"
	"covey/membership"
	"covey/membership/digest"
	"covey/node/api"
	"covey/node/blob"
	"covey/node/calls"
	"covey/node/decide"
	"covey/node/entry"
	"covey/node/guard"
	"covey/node/highwater"
	"covey/node/orders"
	"covey/node/runner"
	"covey/node/sweep"
	"covey/node/tasklog"
	"covey/node/view"
	"covey/p2p"
	"covey/p2p/admission"
	"covey/taskstate"
	"covey/trust/audit"
)

// wire joins the parts: who calls whom when something happens. Nothing here waits; what takes long
// is handed to the part's own goroutine. The returned function takes everything back.
func (n *Node) wire(life context.Context) (func(), error) {
	topic, err := n.host.Topic(statusTopic, n.statuses.fromTopic)
	if err != nil {
		return nil, fmt.Errorf("join the topic of statuses: %w", err)
	}
	n.topic.Store(topic)
	undo := []func(){topic.Close}

	undo = append(undo, admission.Serve(n.host, n, n.roster, admission.Config{Log: n.log}))
	files := tasklog.Serve(n.host, n.logs, n.mayReadOutput, n.log)
	undo = append(undo, files.Close)
	undo = append(undo, blob.Serve(n.host, blob.Shelved(n.files.store), blob.ServerConfig{Admitted: n.roster.Admitted, May: n.readers.Blob, Log: n.log}).Close)
	undo = append(undo, n.files.serveKeeping().Close)
	undo = append(undo, n.feeds.serve(n.log))
	undo = append(undo, n.secrets.Serve())
	n.host.Handle(session.Protocol, n.coord.ServeSession)
	n.host.Handle(calls.Protocol, func(peer string, c net.Conn) { n.line.Serve(life, peer, c) })

	n.host.Handle(startProtocol, n.copies.serve)
	n.host.Handle(highwater.Protocol, n.statuses.asker.Serve)

	undo = append(undo, n.observe()...)
	n.keeper.TrustLedger()
	n.missed()
	undo = append(undo, n.members.Observe(n.seen))
	undo = append(undo, n.members.OnHint(func(h membership.Hint) {
		n.ledger.Hint(h.Coordinator, h.Epoch)
		n.worker.News()
	}))
	n.host.OnConnect(func(peer string) {
		n.members.Heard(peer)
		n.exchange.Meet(peer)
		n.worker.Connected(peer)
	})
	n.host.OnDisconnect(n.members.Probe)
	for _, v := range n.members.View().Members {
		n.verdict(v)
	}
	return func() {
		for _, f := range undo {
			f()
		}
	}, nil
}

// observe makes events, table and mark follow the replica, in this order. The returned functions
// take it back.
func (n *Node) observe() []func() {
	return []func(){
		n.replica.Observe(n.decided), n.replica.Observe(n.statuses.keepUp),
		n.replica.Observe(n.given.hear), n.replica.Observe(n.readers.Hear),
		n.replica.Observe(func(ledger.Event) { n.view.Applied(); n.statuses.moved() }),
	}
}

// missed makes up for what the replica applied before it was observed: a voter that starts again
// applies its log meanwhile, and for long nothing may follow.
func (n *Node) missed() {
	all := ledger.Event{Reset: true}
	n.keepLives(all)
	n.given.hear(all)
	n.readers.Hear(all)
	n.view.Applied()
	n.statuses.moved()
}

// seen hears every new view of the members: the coordinator's standings and the voters' rules rest
// on it.
func (n *Node) seen(v *membership.View) {
	for _, m := range v.Members {
		n.verdict(m)
		n.copies.Heard(m.ID, m.Start)
	}
	n.ledger.Reconsider()
	n.dialects.seen(v)
	n.files.care.News()
	if self, ok := v.Get(n.self); ok {
		if o, changed := n.offer.moved(self.Addrs); changed {
			n.worker.SetOffer(o)
		}
	}
	if current, _ := n.ledger.InSync(); !current {
		n.keeper.Moved() // there may be somebody new to follow
	}
	for _, peer := range n.view.Events.Seen(v) {
		n.host.Doubt(peer)
	}
}

func (n *Node) verdict(m membership.Member) {
	var v coordinator.Verdict
	switch m.Verdict {
	case membership.Alive:
		v = coordinator.VerdictAlive
	case membership.Suspect:
		v = coordinator.VerdictSuspect
	case membership.Dead:
		v = coordinator.VerdictDead
	}
	n.coord.Verdict(coordinator.PeerVerdict{Peer: m.ID, Verdict: v, Since: m.Since, Parted: m.Parted})
	if who, _, ok := n.ledger.Coordinator(); ok && who == m.ID && v != coordinator.VerdictAlive {
		n.ledger.SuspectLeader()
	}
}

// lead coordinates for one term. The ledger calls it, and waits for it, in a goroutine of its own.
func (n *Node) lead(ctx context.Context, epoch taskstate.Epoch) {
	n.line.Lead()
	n.members.SetHint(membership.Hint{Epoch: epoch, Coordinator: n.self})
	n.worker.News()
	n.orders.Wake()
	ctx, over := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { n.dialects.run(ctx) })
	n.coord.Run(ctx, epoch)
	over()
	wg.Wait()
}

// followLeads tells those who care when coordinator or epoch change, until ctx ends.
func (n *Node) followLeads(ctx context.Context) error {
	for {
		changed := n.ledger.Changed()
		n.dialects.follows(n.ledger.Unread())
		if who, epoch, ok := n.ledger.Coordinator(); ok {
			n.members.SetHint(membership.Hint{Epoch: epoch, Coordinator: who})
			n.orders.Wake()
		}
		n.worker.News()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func (n *Node) workerConfig() worker.Config {
	return worker.Config{
		Self: n.self, Incarnation: n.folder.firstIncarnation(n.roster.Cluster() != ""), Start: n.start, Stamps: n.stamps, Dir: n.folder.dir, Offer: n.offer.now(), Net: n.host, Local: n.coord.ServeSession,
		Runner: n.runner, Coordinator: n.ledger.Coordinator, Seated: n.ledger.Seated, Lied: n.refused.Note, Dialect: n.replica.Spoken, Stager: n.secrets, Log: n.log,
		Seal: func(inc taskstate.Incarnation, number uint64, body []byte) ([]byte, error) {
			env, err := digest.Seal(n.self, string(inc), number, body, n.host.Sign)
			if err != nil {
				return nil, err
			}
			return env.Encode()
		},
		Publish: n.publish, Journal: n.cfg.Machine.Journal, MakeRoom: n.room.GiveBack,
		Retired: func(inc taskstate.Incarnation, number uint64) { n.store.Retire(n.self, string(inc), number) },
		Renewed: n.journalLost,
		Signed:  func(inc taskstate.Incarnation) uint64 { return n.highwater.Highest(n.self, inc) },
		Stamped: func() {
			if err := n.folder.stamped(); err != nil {
				n.log.Warn("use of the worker's journal not remembered", "err", err)
			}
		},
	}
}

// publish sends an envelope of this peer's own worker to everybody. It is in our own table before
// anybody else's.
func (n *Node) publish(ctx context.Context, raw []byte) error {
	if err := n.statuses.acceptOwn(raw); err != nil {
		return fmt.Errorf("own statuses: %w", err)
	}
	topic := n.topic.Load()
	if topic == nil {
		return nil // not wired yet: the digest brings it to the others
	}
	return topic.Publish(ctx, raw)
}

func (n *Node) coordConfig() coordinator.Config {
	return coordinator.Config{
		Core:   coordinator.CoreConfig{Self: n.self, Seed: uint64(n.started.UnixNano())},
		Ledger: n.ledger, OpenEnvelope: n.statuses.open, Known: n.statuses.comes, Vet: n.copies.Vet, Dialect: n.replica.Spoken, Log: n.log,
		Probe: func(ctx context.Context, peer taskstate.PeerID) error { return n.host.Connect(ctx, peer, nil) },
	}
}

func (n *Node) lineConfig() calls.Config {
	return calls.Config{
		Self: n.self, Ledger: n.ledger, Dial: n.host.Dial, Cluster: n.roster.Cluster, Sign: n.host.Sign, Now: n.ledgerTime,
		Execute: func(ctx context.Context, c calls.Call) (calls.Reply, error) { return n.desk.Execute(ctx, c) },
		Speaks:  n.replica.Speaks,
		Removed: n.keeper.Removed, Show: n.keeper.Show, Note: n.refused.Note, Log: n.log,
	}
}

func (n *Node) ordersConfig() orders.Config {
	return orders.Config{
		Self: n.self, View: n.view, Who: n.view.Who, Deciders: n.view.Deciders, Tell: n.view.Events.Tell, Line: n.line, Held: n.held, Replica: n.replica, Ledger: n.ledger, Roster: n.roster, Disk: n.disk, Doors: n.openDoors,
		Members: func() *membership.View { return n.members.View() }, Secrets: n.secrets, Expect: func(id taskstate.JobID) error { return n.feeds.spools.Expect(id) },
		Sign: n.line.Signer().Order, Now: n.now, LedgerTime: n.ledgerTime, Log: n.log,
	}
}

// outdated tells why a task is not to start though its job was signed, as far as is known here.
func (n *Node) outdated(id taskstate.TaskID, job *taskstate.Job) (err error) {
	if o := job.Order; o != nil && o.Starts != nil && job.Origin != nil && !cron.Names(&o.Starts.Schedule, job.Origin.At) {
		return fmt.Errorf("%w: its schedule starts nothing at %s", taskstate.ErrOrderForged, time.UnixMilli(job.Origin.At).UTC().Format(time.RFC3339))
	}
	n.replica.Read(func(s *ledger.State) { err = s.Outdated(id, job) })
	return err
}

func (n *Node) deskConfig() decide.Config {
	return decide.Config{
		Self: n.self, Ledger: n.ledger, Replica: n.replica, Coord: n.coord, View: n.view, Deciders: n.view.Deciders, Roster: n.roster, Seats: n.seats, Host: n.host,
		Doors: n.openDoors, Remember: n.remember, Wrong: n.troubles.List, Now: n.ledgerTime,
	}
}

func (n *Node) enter(ctx context.Context) error {
	e := entry.New(entry.Config{
		Ticket: n.cfg.Join, Bootstrap: n.cfg.Bootstrap, Invite: n.cfg.Invite, Open: n.cfg.Open,
		Self: n.self, Name: n.name, Incarnation: string(n.folder.incarnation), Dir: n.folder.dir, Lost: n.folder.lostRoster(),
		Roster: n.roster, Replica: n.replica, Ledger: n.ledger, Net: n.host, TrustLedger: n.keeper.TrustLedger, Remember: n.remember,
		Removed: n.keeper.Removed, ErrRemoved: n.keeper.ErrRemoved, Now: n.now, Say: n.cfg.Say,
	})
	resumed := n.roster.Cluster() != ""
	err := e.Begin(ctx)
	n.how, n.warnings = e.How, append(n.warnings, e.Warnings...)
	if err != nil {
		return err
	}
	own, _ := n.roster.Get(n.self)
	warning, err := n.owner.Settle(resumed, own.Roles)
	if warning != "" {
		n.warnings = append(n.warnings, warning)
	}
	if err != nil {
		return fmt.Errorf("give this machine a policy: %w", err)
	}
	return nil
}

// policyChanged has what this machine's owner lets run known: to those who give it tasks, and to
// what runs here.
func (n *Node) policyChanged() {
	if n.worker == nil {
		return
	}
	n.worker.SetOffer(n.offer.now())
	n.guard.Review()
	n.audit.Write(audit.Record{What: audit.PolicyChanged, Detail: n.owner.InForce()})
}

func (n *Node) sweepConfig() sweep.Config {
	return sweep.Config{
		Dir: n.folder.path("tasks"), Keep: n.cfg.KeepOutput, Replica: n.replica, Held: n.held.Has, Forget: n.forgetStdins, Clean: n.runner.Clean, Log: n.log,
		Current: n.keeper.Level, Safe: n.files.outputSafe, Lacks: n.room.Lacks, Over: n.attemptOver,
	}
}

// attemptOver tells whether an attempt has ended here, and the ledger waits for nothing of it. One
// that was given up may be being saved, and then still count.
func (n *Node) attemptOver(id taskstate.TaskID) (over bool) {
	if _, _, live := n.runner.Live(id); live {
		return false
	}
	n.replica.Read(func(s *ledger.State) {
		j, ok := s.Job(id.Job)
		if _, _, _, known := s.Assigned(id); ok && known == taskstate.Retired {
			over = !j.Job().Saves() || j.Slot(id.Slot).Final != nil
		}
	})
	return over
}

func (n *Node) viewConfig() view.Config {
	return view.Config{
		Self: n.self, Boot: string(n.folder.incarnation)[:4] + fmt.Sprintf("%x", n.started.UnixMilli()), Started: n.started, Up: n.up, Now: n.cfg.Now,
		Replica: n.replica, Ledger: n.ledger, Table: n.table, Members: func() *membership.View { return n.members.View() }, Roster: n.roster,
		Held: func() (out []view.Held) {
			for _, j := range n.held.List() {
				out = append(out, view.Held{Since: j.Since, Job: j.Job})
			}
			return out
		},
		Offer: n.offer.now, Output: func() view.Output { return n.logs }, Kept: func() view.Kept { return n.files.care }, Net: n.host, Wrong: n.troubles.List,
		Ask: func(ctx context.Context, q calls.ClusterCall) *calls.ClusterView {
			r, err := n.line.Try(ctx, calls.Call{From: n.self, Cluster: &q})
			if err != nil || r.Lost {
				return nil
			}
			return r.Cluster
		},
	}
}

func (n *Node) exchangeConfig() digest.Config {
	return digest.Config{
		Net: n.host, Store: n.store, Verify: p2p.Verify, Accept: n.roster.Admitted, Log: n.log,
		Deliver: n.statuses.pulled,
		Peers:   func() []string { return n.members.View().Others() },
	}
}

// neighbour hears of peers found by mDNS: only those that are admitted are of interest. It can come
// before the node has its host.
func neighbour(admitted func(peer string) bool) func(by *p2p.Host, peer string, addrs []string) {
	return func(by *p2p.Host, peer string, addrs []string) {
		if admitted(peer) {
			by.AddAddrs(peer, addrs) // anybody on the network may have said so
		}
	}
}

func (n *Node) rosterChanged() {
	if n.keeper.Removed() && !n.leaving.Load() { // one that leaves is answered first
		n.downOnce.Do(func() { close(n.down) })
	}
	n.host.Recheck()
	n.members.Recheck()
	n.ledger.Reconsider()
	n.askNewcomers()
}

// askNewcomers gives the ledger others to ask, while it has nobody to follow: peers that were
// admitted while this one was away, of whom gossip may have said that they coordinate before the
// roster knew them.
func (n *Node) askNewcomers() {
	if current, _ := n.ledger.InSync(); current {
		return
	}
	var ask []taskstate.PeerID
	for m := range n.members.View().Alive() {
		if m.ID != n.self && n.keeper.MayVote(m.ID) {
			ask = append(ask, m.ID)
		}
	}
	n.ledger.Follow(ask)
	h := n.members.Hint()
	n.ledger.Hint(h.Coordinator, h.Epoch)
}

var _ ledger.Ledger = (*quorum.Node)(nil)

// newRunner makes what runs tasks, as far as this machine's owner allows.
func (n *Node) newRunner() (Runner, error) {
	var err error
	n.guard, err = guard.New(guard.Config{
		Self: n.self, Sink: func(r taskstate.RunReport) { n.worker.Report(n.room.addTo(r)) },
		Policy: n.owner.Now, Asks: n.owner.Asks, Roles: n.owner.Roles, Applied: n.replica.Applied,
		Judged: func(l *taskstate.Launch, by taskstate.PeerID, rule string, why string) {
			n.judgement.note(l, by, rule, why)
		},
	}, func(sink func(taskstate.RunReport)) (guard.Runner, error) { return n.unguardedRunner(sink) })
	if err != nil {
		return nil, err // not n.guard: a nil *guard.Guard would be a Runner that is not nil
	}
	n.trust = &guard.Desk{Owner: n.owner, Guard: n.guard, Name: n.view.Who.Name, Members: func() (keys []taskstate.PeerID) {
		for _, e := range n.roster.All() {
			if e.Has(admission.Submit) {
				keys = append(keys, e.Peer)
			}
		}
		return keys
	}}
	return n.guard, nil
}

func (n *Node) unguardedRunner(sink func(taskstate.RunReport)) (Runner, error) {
	if n.cfg.Machine.Runner != nil {
		return n.files.saving(sink, n.cfg.Machine.Runner)
	}
	cfg := runner.Config{Dir: TasksFolder(n.folder.dir), Log: n.log, Copied: n.moved, Stdin: n.feeds, Inputs: n.files.stager, Secrets: n.secrets}
	cfg.Sandbox = &runner.Sandbox{
		Hide: []string{n.folder.dir}, Show: []string{api.SocketPath(n.folder.dir)}, Users: n.folder.path("task-users"),
		Self: n.cfg.Testnet, // one's own experiment runs what one could run oneself
	}
	if n.cfg.Testnet {
		cfg.Guard = os.Getppid() // nothing of a testnet outlives it
	}
	return n.files.saving(sink, func(sink func(taskstate.RunReport)) (Runner, error) {
		r, err := runner.New(sink, cfg)
		if err != nil {
			return nil, err // not r: a nil *runner.Runner would be a Runner that is not nil
		}
		n.owner.Hold(r.Holds())
		n.tellExposed(r.Exposed())
		return r, nil
	})
}

// tellExposed says loudly that the owner of this machine has no protection from those who may submit.
func (n *Node) tellExposed(why string) {
	if why == "" {
		return
	}
	text := "its tasks reach its key, so whoever may submit to it owns it: " + why + "; run it as root, allow user namespaces to its user, or put its data folder where only root makes folders, as below /var/lib, and its kernel has Landlock"
	n.log.Warn(text)
	n.troubles.Set(n.self, api.TroubleExposed, text)
}

// copiesConfig joins the copies with the rest of the peer.
func (n *Node) copiesConfig(key crypto.PrivKey) copiesConfig {
	return copiesConfig{
		self: n.self, start: n.start, chain: n.chain, sign: key.Sign, say: &n.troubles, halt: n.halt, log: n.log,
		onEach: func(ctx context.Context, peer, protocol string) []net.Conn { return n.host.OnEach(ctx, peer, protocol) },
		back:   func(why string) { n.worker.TurnedBack(why) },
		name:   func(peer string) string { return n.view.Who.Name(peer) },
		met:    n.folder.path(metName),
	}
}

// journalLost hears that the worker goes on in another incarnation.
func (n *Node) journalLost(inc taskstate.Incarnation, why string) {
	n.store.Current(n.self, string(inc))
	n.troubles.Set(n.self, api.TroubleJournalLost, "the journal of this peer's worker was lost ("+why+"): it goes on as a new worker. Tasks it had are repeated where their job allows; those that must not run twice ended, and run again by `peer retry` only")
}

// seenOwn hears of a batch in this peer's name that another one holds.
func (n *Node) seenOwn(env digest.Envelope, differs bool) {
	if n.worker != nil {
		n.worker.Seen(taskstate.Incarnation(env.Incarnation), env.Number, differs)
	}
}

func newStatuses(n *Node) *statuses {
	s := &statuses{table: n.table, replica: n.replica, report: n.view.Events.Reported, admits: n.roster.Admitted, store: n.store, self: n.self, highwater: n.highwater, own: n.seenOwn, faults: &faults{log: n.log, of: map[taskstate.PeerID]int64{}}, spilled: make(chan struct{}, 1)}
	s.asker = highwater.NewAsker(highwater.AskerConfig{Self: n.self, Dial: n.host.Dial, Known: s.known, Seats: func() (vote []taskstate.PeerID) {
		for _, v := range n.ledger.Voters() {
			if v.Voting {
				vote = append(vote, v.Peer)
			}
		}
		return vote
	}})
	return s
}

// roomChanged has this peer take nothing on while its disk is full, and says so: here and, with its
// offer, to all.
func (n *Node) roomChanged(err error) {
	n.worker.Refrain(api.TroubleDiskFull, err)
	switch {
	case err == nil:
		n.troubles.Clear(n.self, api.TroubleDiskFull)
		n.log.Info("there is room on the disk again")
	case n.troubles.Set(n.self, api.TroubleDiskFull, err.Error()):
		n.log.Error("no room on the disk", "err", err)
	}
}
