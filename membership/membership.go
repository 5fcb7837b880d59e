package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// Membership is this peer's part in the cluster. Make it with New, give it life with Run.
type Membership struct {
	cfg        Config
	self       string
	log        *slog.Logger
	timings    Timings
	viewWatch  watchers[*View]
	hintWatch  watchers[Hint]
	hints      memberlist.TransmitLimitedQueue
	signal     wake.Signal   // something to publish
	ready      chan struct{} // closed when memberlist runs
	suspicions chan rumour   // suspicions to look into
	probes     *prober
	reach      *reacher
	near       *neighbours
	pump       pump
	seal       *sealer
	intake     *intake
	refusals   *refusals
	large      bool         // more than LargeCluster peers were known at the start, so that suspicion is slow
	count      atomic.Int64 // members in the table, for the gossip queue, which asks with its own lock held

	over      atomic.Bool   // Run has ended
	ending    chan struct{} // a lock between Leave, which takes its time, and the end of Run
	saving    sync.Mutex    // the book
	mu        sync.Mutex
	born      time.Time
	own       []string // the addresses this peer gives
	seat      taskstate.Incarnation
	table     *table
	book      *book
	view      *View // nil: to be made anew
	changed   bool  // observers have not heard of the newest verdicts
	hint      Hint
	told      Hint // the last hint observers heard of
	list      *memberlist.Memberlist
	transport *transport
	stopped   bool               // Run has ended: memberlist's late timers change nothing
	left      bool               // Leave was called: nobody is tried any more
	strangers map[string]meta    // turned away; tried when they are admitted
	hearings  map[string]hearing // by the peer it is about
	asking    int                // peers that are asked before they are held dead
}

// maxStrangers bounds what is remembered of members that were turned away.
const maxStrangers = 256

// New reads the peer book and makes a Membership that is not alive yet.
func New(cfg Config) (*Membership, error) {
	if err := cfg.normalize(); err != nil {
		return nil, err
	}
	b, torn, err := openBook(cfg.Book)
	if err != nil {
		return nil, err
	}
	self := cfg.Net.Self()
	b.forget(self)
	m := &Membership{
		cfg: cfg, self: self, log: cfg.Log, book: b, table: newTable(self), born: time.Now(),
		signal: wake.New(), ready: make(chan struct{}), ending: make(chan struct{}, 1),
		suspicions: make(chan rumour, 64), strangers: map[string]meta{}, hearings: map[string]hearing{},
		seal: &sealer{sign: cfg.Sign, self: self}, refusals: &refusals{log: cfg.Log, all: map[reason]int64{}, peers: map[string]*refusal{}},
	}
	m.intake, m.probes = newIntake(m), &prober{cfg: &m.cfg, verdicts: m}
	expect := max(len(b.peers)+1, cfg.Expect)
	m.timings, m.large, m.pump = cfg.Timings.or(DefaultTimings(expect)), expect > LargeCluster, pump{wake.New()}
	m.near = newNeighbours(m)
	m.reach = &reacher{host: cfg.Host, timings: m.timings, absentees: m, near: m.near, kicks: make(chan string, 64)}
	m.own, m.seat = slices.Clone(cfg.Addrs()), cfg.Seat
	m.hints.RetransmitMult = 4
	m.hints.NumNodes = func() int { return int(m.count.Load()) + 1 }
	if torn > 0 {
		m.log.Warn("the peer book is damaged; the rest of it is used", "path", cfg.Book, "lost lines", torn)
	}
	for _, r := range b.peers {
		cfg.Host.SetAddrs(r.ID, r.Addrs)
	}
	return m, nil
}

// Run is this peer's life in the cluster: it ends with ctx, silently; call Leave before to say
// goodbye. It is called once.
func (m *Membership) Run(ctx context.Context) error {
	t := newTransport(m)
	t.intake = m.intake
	list, err := memberlist.Create(m.listConfig(t, m.timings))
	if err != nil {
		_ = t.Shutdown()
		return fmt.Errorf("membership cannot start: %w", err)
	}
	m.mu.Lock()
	m.list, m.transport, m.born = list, t, time.Now()
	m.view, m.changed = nil, true
	m.signal.Set()
	m.mu.Unlock()
	t.open()
	close(m.ready)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var work sync.WaitGroup
	work.Go(func() { m.publish(ctx) })
	work.Go(func() { m.keep(ctx) })
	work.Go(func() { m.reach.reconnect(ctx) })
	work.Go(func() { m.reach.welcome(ctx) })
	work.Go(func() { m.askSuspected(ctx) })
	work.Go(func() { m.runPump(ctx) })
	m.probes.start(ctx)
	<-ctx.Done()
	m.cfg.Net.Handle(ProbeProtocol, nil)
	m.ending <- struct{}{}
	m.mu.Lock()
	m.stopped = true
	m.mu.Unlock()
	<-m.ending
	_ = list.Shutdown()
	work.Wait()
	m.probes.wait()
	m.save(true)
	m.over.Store(true)
	return nil
}

// View is the newest picture; at least self is in it. It is immutable.
func (m *Membership) View() *View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.currentView()
}

func (m *Membership) currentView() *View {
	if m.view == nil {
		m.view = m.table.view(Member{
			ID: m.self, Name: m.cfg.Name, Incarnation: m.cfg.Incarnation, Seat: m.seat, Addrs: m.own, Roles: m.cfg.Roles,
			Version: m.cfg.Version, Recipient: m.cfg.Recipient, Dialect: wire.Dialect, Verdict: Alive, Since: m.born,
		})
	}
	return m.view
}

// Observe registers f for every later change of a verdict, an address or another word of a member.
// Changes in quick succession may come as one View; the last one always comes. cancel takes it
// back; a call may still be under way then.
func (m *Membership) Observe(f func(*View)) (cancel func()) { return m.viewWatch.add(f) }

// goodbyeLimit bounds how long a goodbye may take: about as long as it takes the others to notice
// that a peer is gone.
const goodbyeLimit = 2 * time.Second

// Leave says goodbye, so that the others hold this peer dead at once instead of missing it. It
// returns when the news is out, or with an error when ctx or goodbyeLimit ends first: who is held
// alive and is gone takes no goodbye. In clusters up to LargeCluster this peer tells everybody
// itself, which takes no longer than to send it; in larger ones gossip does. Afterwards end Run.
func (m *Membership) Leave(ctx context.Context) error {
	select {
	case m.ending <- struct{}{}: // memberlist panics when asked to leave after its shutdown
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-m.ending }()
	m.mu.Lock()
	list, t, stopped := m.list, m.transport, m.stopped
	m.left = true
	m.mu.Unlock()
	if list == nil || stopped {
		return nil
	}
	wait := goodbyeLimit
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, max(time.Until(end), time.Millisecond))
	}
	var err error
	if members := list.Members(); len(members) > LargeCluster {
		err = list.Leave(wait)
	} else {
		_ = list.Leave(time.Millisecond) // gossip tells it again, and is not waited for
		m.sayGoodbye(members, t)
	}
	own, cancel := context.WithTimeout(ctx, goodbyeLimit)
	defer cancel()
	if !t.flush(own) && err == nil {
		err = errors.New("some do not take it")
	}
	if err != nil {
		return fmt.Errorf("the goodbye is not out; the others will notice that this peer is gone in a few seconds: %w", err)
	}
	return ctx.Err()
}

// sayGoodbye tells members itself: a goodbye that another passes on is believed later only.
func (m *Membership) sayGoodbye(members []*memberlist.Node, t *transport) {
	msg := encodeMessage(deadMsg, accuseBody{Incarnation: m.seal.newest(), Node: m.self, From: m.self})
	for _, n := range members {
		t.write(msg, n.Name)
	}
}

// Heard is a sign of life from elsewhere: a connection or session of that peer came up. It clears
// evidence against it; a peer that memberlist holds dead, or does not know, is told so within a
// second.
func (m *Membership) Heard(peer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped || peer == m.self {
		return
	}
	changed, dead := m.table.heard(peer, time.Now())
	if changed {
		m.dirty()
		m.log.Info("peer is alive", "peer", peer)
	}
	if dead && !m.left {
		m.reach.kick(peer)
	}
}

// Recheck is called after the roster changed: members that were turned away are tried again,
// members that are no longer admitted are forgotten.
func (m *Membership) Recheck() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.welcomeStrangers()
	for id := range m.table.entries {
		if !m.cfg.Admitted(id) {
			m.table.forget(id)
			m.intake.forget(id)
			m.book.forget(id)
			m.dirty()
		}
	}
	for id := range m.book.peers {
		if e := m.table.entries[id]; e == nil && m.cfg.Admitted(id) && m.near.has(id) {
			m.reach.kick(id)
		}
	}
}

// welcomeStrangers tries who was turned away and is admitted by now. The lock is held.
func (m *Membership) welcomeStrangers() {
	for id, words := range m.strangers {
		if m.cfg.Admitted(id) {
			delete(m.strangers, id)
			m.book.told(PeerAddr{ID: id, Addrs: words.Addrs})
			m.reach.kick(id)
		}
	}
}

// running is memberlist while it lives, else nil.
func (m *Membership) running() *memberlist.Memberlist {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return nil
	}
	return m.list
}

// dirty: a verdict or word changed. The lock is held.
func (m *Membership) dirty() {
	m.count.Store(int64(len(m.table.entries)))
	m.view, m.changed = nil, true
	m.near.update(m.table)
	m.signal.Set()
	m.pump.ring()
}

// publish tells observers until ctx ends.
func (m *Membership) publish(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.signal:
		}
		m.near.decide(m.cfg.Deciders())
		m.mu.Lock()
		var view *View
		if m.changed {
			view, m.changed = m.currentView(), false
		}
		hint := m.hint
		fresh := hint != m.told
		m.told = hint
		m.mu.Unlock()
		if fresh {
			m.hintWatch.tell(hint)
		}
		if view != nil {
			m.viewWatch.tell(view)
		}
	}
}
