package node

import (
	"context"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"

	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/coveyproject/covey/dispatch/coordinator"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/dispatch/worker"
	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/membership/verdict"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/blob"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/clinic"
	"github.com/coveyproject/covey/node/copies"
	"github.com/coveyproject/covey/node/decide"
	"github.com/coveyproject/covey/node/entry"
	"github.com/coveyproject/covey/node/highwater"
	"github.com/coveyproject/covey/node/links"
	"github.com/coveyproject/covey/node/load"
	"github.com/coveyproject/covey/node/orders"
	"github.com/coveyproject/covey/node/secrets"
	"github.com/coveyproject/covey/node/sweep"
	"github.com/coveyproject/covey/node/tasklog"
	"github.com/coveyproject/covey/node/view"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/audit"
)

// wire joins the parts: who calls whom when something happens. Nothing here waits; what takes long
// is handed to the part's own goroutine. The returned function takes everything back.
func (n *Node) wire(life context.Context) (func(), error) {
	topic, err := n.host.Topic(statusTopic, n.statuses.fromTopic)
	if err != nil {
		return nil, fmt.Errorf("join the topic of statuses: %w", err)
	}
	n.statuses.topic.Store(topic)
	undo := []func(){topic.Close}

	undo = append(undo, admission.Serve(n.host, n.line, n.roster, admission.Config{Log: n.log}))
	files := tasklog.Serve(n.host, n.logs, n.readers.Output, n.log)
	undo = append(undo, files.Close)
	undo = append(undo, blob.Serve(n.host, blob.Shelved(n.files.store), blob.ServerConfig{Admitted: n.roster.Admitted, May: n.readers.Blob, Log: n.log}).Close)
	undo = append(undo, n.files.serveKeeping().Close)
	undo = append(undo, n.feeds.Serve())
	undo = append(undo, n.secrets.Serve())
	n.host.Handle(session.Protocol, n.cfg.Machine.sessions(n.coord.ServeSession))
	n.host.Handle(calls.Protocol, func(peer string, c net.Conn) { n.line.Serve(life, peer, c) })

	n.host.Handle(copies.Protocol, n.copies.Serve)
	n.host.Handle(highwater.Protocol, n.statuses.asker.Serve)
	n.host.Handle(links.Protocol, n.links.Serve)
	n.host.Handle(load.Protocol, n.load.Serve)
	n.host.Handle(clinic.Protocol, n.clinic.Serve)

	undo = append(undo, n.observers.observe()...)
	n.keeper.TrustLedger()
	n.observers.missed()
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
	n.files.printed.News()
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
	n.coord.Verdict(coordinator.PeerVerdict{Peer: m.ID, Verdict: m.Verdict, Since: m.Since, Parted: m.Parted})
	if who, _, ok := n.ledger.Coordinator(); ok && who == m.ID && m.Verdict != verdict.Alive {
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
		Self: n.self, Incarnation: n.folder.firstIncarnation(n.roster.Cluster() != ""), Start: n.begun.start, Stamps: n.begun.stamps, Dir: n.folder.dir, Offer: n.offer.now(), Net: n.host, Local: n.coord.ServeSession,
		Runner: n.runner, Coordinator: n.ledger.Coordinator, Seated: n.ledger.Seated, Lied: n.refused.Note, Dialect: n.replica.Spoken, Load: n.load.Meter.Now, Stager: n.secrets, Log: n.log,
		Seal: func(inc taskstate.Incarnation, number uint64, body []byte) ([]byte, error) {
			env, err := digest.Seal(n.self, string(inc), number, body, n.host.Sign)
			if err != nil {
				return nil, err
			}
			return env.Encode()
		},
		Publish: n.statuses.publish, Synced: n.metrics.Synced, Journal: n.cfg.Machine.Journal, MakeRoom: n.room.GiveBack, Exhausted: n.own.Exhausted,
		Retired: func(inc taskstate.Incarnation, number uint64) { n.store.Retire(n.self, string(inc), number) },
		Renewed: func(inc taskstate.Incarnation, why string) {
			n.store.Current(n.self, string(inc))
			n.own.JournalLost(why)
		},
		Signed: func(inc taskstate.Incarnation) uint64 { return n.highwater.Highest(n.self, inc) },
		Stamped: func() {
			if err := n.folder.stamped(); err != nil {
				n.log.Warn("use of the worker's journal not remembered", "err", err)
			}
		},
	}
}

func (n *Node) coordConfig() coordinator.Config {
	return coordinator.Config{
		Core:   coordinator.CoreConfig{Self: n.self, Seed: uint64(n.started.UnixNano()), Heard: n.table.Get, Clocks: n.ledger.Clocks, StartWithin: n.cfg.Machine.StartWithin},
		Ledger: n.cfg.Machine.decides(n.ledger), OpenEnvelope: n.statuses.open, Known: n.statuses.comes, Vet: n.copies.Vet, Dialect: n.replica.Spoken, Log: n.log,
		Probe: func(ctx context.Context, peer taskstate.PeerID) error { return n.host.Connect(ctx, peer, nil) },
		Away:  n.host.RTT,
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
		Self: n.self, View: n.view, Who: n.view.Who, Deciders: n.view.Deciders, Tell: n.view.Events.Tell, Line: n.line, Held: n.held, Replica: n.replica, Ledger: n.ledger, Roster: n.roster, Disk: n.disk, Doors: n.doors.open,
		Members: n.members.View, Secrets: n.secrets, Expect: func(id taskstate.JobID) error { return n.feeds.Spools.Expect(id) },
		Sign: n.line.Signer().Order, Now: n.now, LedgerTime: n.ledgerTime, Log: n.log,
	}
}

func (n *Node) deskConfig() decide.Config {
	return decide.Config{
		Self: n.self, Ledger: n.cfg.Machine.decides(n.ledger), Replica: n.replica, Loop: n.coord, View: n.view, Deciders: n.view.Deciders, Roster: n.roster, Seats: n.seats, Host: n.host,
		Doors: n.doors.newcomer, Remember: n.doors.remember, Wrong: n.own.Of(n.differs, n.aheadText), Now: n.ledgerTime, Clock: n.now,
	}
}

func (n *Node) enter(ctx context.Context) error {
	// One's own removal may not have come through: it is told by the membership that was given up.
	own, in := n.roster.Get(n.self)
	n.left = n.begun.left != 0 && (!in || own.Removed || own.At == n.begun.left)
	e := entry.New(entry.Config{
		Ticket: n.cfg.Join, Bootstrap: n.cfg.Bootstrap, Invite: n.cfg.Invite, Open: n.cfg.Open,
		Self: n.self, Name: n.name, Incarnation: string(n.folder.incarnation), Dir: n.folder.dir, Lost: n.folder.lostRoster(),
		Roster: n.roster, Replica: n.replica, Ledger: n.ledger, Net: n.host, TrustLedger: n.keeper.TrustLedger, Remember: n.doors.remember,
		Removed: n.keeper.Removed, Left: n.left, ErrRemoved: n.keeper.ErrRemoved, Now: n.now, Say: n.cfg.Say,
	})
	resumed := n.roster.Cluster() != ""
	err := e.Begin(ctx)
	n.how, n.warnings = e.How, append(n.warnings, e.Warnings...)
	if err != nil {
		return err
	}
	if n.left = false; n.begun.left != 0 {
		if err := n.folder.setLeft(0); err != nil {
			return api.Errorf(api.Failed, "cannot note in the data folder that this peer is a member again: %v", err)
		}
	}
	own, _ = n.roster.Get(n.self)
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
		Dir: n.folder.path("tasks"), Keep: n.cfg.KeepOutput, Replica: n.replica, Held: n.held.Has, Forget: n.feeds.Forget, Clean: n.runner.Clean, Log: n.log,
		Current: n.keeper.InSync, Safe: n.files.outputSafe, Lacks: n.room.Lacks, Over: sweep.Over(n.replica, n.runner.Live),
	}
}

// copiesSweep removes copies of what tasks printed with their jobs. They stay within their budget
// without it.
func (n *Node) copiesSweep() sweep.Config {
	return sweep.Config{
		Dir: n.files.copies.Dir, Keep: math.MaxInt64, Replica: n.replica, Held: n.held.Has, Forget: func() {}, Clean: n.files.copies.Remove, Current: n.keeper.InSync, Log: n.log,
	}
}

func (n *Node) viewConfig() view.Config {
	return view.Config{
		Self: n.self, Boot: string(n.folder.incarnation)[:4] + fmt.Sprintf("%x", n.started.UnixMilli()), Started: n.started, Up: n.up, Now: n.cfg.Now,
		Replica: n.replica, Ledger: n.ledger, Table: n.table, Members: n.members.View, Roster: n.roster,
		Held: func() (out []view.Held) {
			for _, j := range n.held.List() {
				out = append(out, view.Held{Since: j.Since, Job: j.Job})
			}
			return out
		},
		Offer: n.offer.now, Output: func() view.Output { return n.logs }, Kept: func() view.Kept { return n.files.care }, Copies: func() view.Copies { return n.files.printed }, Net: n.host, Wrong: n.own.Of(n.differs, n.aheadText), Story: n.story,
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
		Peers:   n.members.Near,
	}
}

// voting are the peers with a vote, as far as this one knows.
func (n *Node) voting() (ids []string) {
	for _, v := range n.ledger.Voters() {
		if v.Voting {
			ids = append(ids, v.Peer)
		}
	}
	return ids
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
	if n.keeper.Removed() && !n.ending.leaving.Load() { // one that leaves is answered first
		n.ending.ask()
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

// secretsConfig joins what seals secrets for jobs that are submitted here, and brings those of
// tasks that run here.
func (n *Node) secretsConfig() secrets.Config {
	return secrets.Config{
		Self: n.self, Key: n.sealKey, Cluster: n.roster.Cluster, Net: n.host, Name: n.view.Who.Name, Log: n.log,
		Readers: n.audience.Readers, Grants: n.audience.Grants, Given: n.audience.Given,
		Over: func(id taskstate.JobID) (bool, bool) { return n.files.jobOver(id) },
		Tell: func(r secrets.Report) {
			n.worker.Staged(worker.StageReport{Job: r.Job, Version: r.Version, Here: r.Here, Message: r.Message})
		},
		Next: func(j *taskstate.Job) { n.files.stager.Stage(j) },
		Note: func(l taskstate.Launch, by taskstate.PeerID) {
			n.audit.Write(audit.Record{What: audit.SecretOpened, By: string(by), Job: string(l.Task.Job), Task: l.Task.String(), Detail: strings.Join(l.Job.Secrets.Names, ", ")})
		},
	}
}

// copiesConfig joins the copies with the rest of the peer.
func (n *Node) copiesConfig(key crypto.PrivKey) copies.Config {
	return copies.Config{
		Self: n.self, Start: n.begun.start, Sign: key.Sign, Say: &n.troubles, Halt: n.halt, Log: n.log,
		OnEach: func(ctx context.Context, peer, protocol string) []net.Conn { return n.host.OnEach(ctx, peer, protocol) },
		Name:   func(peer string) string { return n.view.Who.Name(peer) },
	}
}

// seenOwn hears of a batch in this peer's name that another one holds.
func (n *Node) seenOwn(env digest.Envelope, differs bool) {
	if n.worker != nil {
		n.worker.Seen(taskstate.Incarnation(env.Incarnation), env.Number, differs)
	}
}

func newStatuses(n *Node) *statuses {
	s := &statuses{table: n.table, replica: n.replica, report: n.view.Events.Reported, admits: n.roster.Admitted, store: n.store, self: n.self, highwater: n.highwater, own: n.seenOwn, faults: &faults{log: n.log, of: map[taskstate.PeerID]int64{}}, spilled: wake.New()}
	s.asker = highwater.NewAsker(highwater.AskerConfig{Self: n.self, Dial: n.host.Dial, Net: n.host, Known: s.known, Seats: n.voting})
	return s
}
