package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum/mark"
	"github.com/coveyproject/covey/dispatch/ledger/quorum/store"
	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// runUpkeep gives up a seat that was taken away, makes snapshots, and keeps the copy on disk.
func (n *Node) runUpkeep(ctx context.Context) {
	const look, rest = time.Second, 10 * time.Second // between looks while entries come and until one look later; and while nothing does
	saved, next := n.place.rep.Applied(), time.Now().Add(saveEvery)
	pace := look
	t := time.NewTimer(pace)
	defer t.Stop()
	for {
		wait := n.wakes.moved.wait()
		if s := n.place.seat.Load(); s == nil {
			wait = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-wait:
			if !n.seating.takenAway() {
				// Entries move all the time; look at the rest once a second.
				if pace == rest {
					t.Reset(look)
				}
				select {
				case <-ctx.Done():
					return
				case <-t.C:
				case <-n.wakes.unsound:
				}
			}
			pace = look
		case <-t.C:
			pace = rest
		case <-n.wakes.unsound:
		}
		t.Reset(pace)
		n.seating.keep()
		n.seating.keepIdentity()
		n.dropBodies()
		n.authority.hold()
		if err := n.authority.seats.Save(); err != nil {
			n.cfg.Log.Warn("cannot remember who holds a seat", "err", err)
		}
		if now := time.Now(); now.After(next) && n.place.rep.Applied() != saved {
			if err := errors.Join(n.seating.saveCopy(), n.seating.saveMemo()); err != nil {
				n.cfg.Log.Warn("cannot keep a copy of the ledger", "err", err)
			}
			saved, next = n.place.rep.Applied(), now.Add(saveEvery)
		}
	}
}

// dropBodies has a guest forget, also on disk, what other people's jobs run: it had a role that let
// it know, or its copy is of a version that gave it to everybody.
func (n *Node) dropBodies() {
	if !n.authority.guest() {
		return
	}
	knew, err := n.feed.strip(n.cfg.Self)
	if knew && err == nil {
		err = n.seating.saveCopy()
	}
	if err != nil {
		n.cfg.Log.Warn("what others' jobs run could not be forgotten here", "err", err)
	}
}

// runTell tells the other voters how far this one has acknowledged, if it moved, until ctx ends:
// what raft's streams began with is old when they have lasted.
func (n *Node) runTell(ctx context.Context) {
	var told mark.Mark
	for {
		moved := n.wakes.moved.wait()
		if own, ok := n.marks.own(n.place.seat.Load()); ok && own.Mark != told {
			told = own.Mark
			var wg sync.WaitGroup
			for _, v := range n.dir.list() {
				if v.Peer != n.cfg.Self {
					wg.Go(func() { _, _ = n.call.ask(ctx, v.Peer, voterAsk{}, voterTimeout) }) // who is away hears it when it greets
				}
			}
			wg.Wait()
		}
		select {
		case <-ctx.Done():
			return
		case <-moved:
			_ = pause.For(ctx, tellEvery)
		}
	}
}

// Open prepares a Node from its folder: a voter takes its seat again, everybody has its copy of the
// ledger. Nothing is decided or followed before Run.
func Open(cfg Config) (*Node, error) {
	cfg.RingBytes = cmp.Or(cfg.RingBytes, 4<<20)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Candidates == nil {
		cfg.Candidates = func() []Candidate {
			return []Candidate{{Peer: cfg.Self, Alive: true, Eligible: true}}
		}
	}
	if cfg.Draw == nil {
		cfg.Draw = taskstate.NewIncarnation
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, wakes: newWakes(), served: limit.New(maxFollowers, maxFollowing)}
	n.life, n.end = context.WithCancel(context.Background())
	if err := n.assemble(); err != nil {
		return nil, err
	}
	if err := n.restore(); err != nil {
		return nil, err
	}
	n.handle(RaftProtocol, n.handleRaft)
	n.handle(FollowProtocol, n.handleFollow)
	n.handle(VoterProtocol, n.handleVoter)
	return n, nil
}

// assemble makes the parts, those that others need first.
func (n *Node) assemble() (err error) {
	cfg, rep := &n.cfg, ledger.NewReplica()
	rep.Verify(cfg.Verify)
	rep.Observe(func(ev ledger.Event) {
		own := func(c ledger.Command) bool { return c.Admit != nil && c.Admit.Entry.Peer == cfg.Self }
		if ev.Reset || slices.ContainsFunc(ev.Entry.Commands, own) {
			n.wakes.unsound.Set() // its roles may be others
		}
		if ev.SetsTime() {
			n.terms.beginAnew(ev.Entry.Epoch)
		}
	})
	n.place, n.folder = &ownSeat{rep: rep}, folder{cfg}
	n.identity = &identity{cfg: cfg, wakes: n.wakes}
	n.dir = newDirectory(n.place, n.wakes, cfg)
	if n.authority, err = newAuthority(cfg, n.place, n.dir, n.wakes); err != nil {
		return err
	}
	n.marks = &seenMarks{cfg: cfg, place: n.place, folder: n.folder}
	n.compared = &comparison{self: cfg.Self, log: cfg.Log, rep: rep, voters: n.dir.list, due: make(chan uint64, 1), point: n.place.point, logs: make(chan uint64, 1)}
	n.feed = &feed{rep: rep, unread: &n.place.unread, ring: newRing(ringIdle), compared: n.compared, wakes: n.wakes, log: cfg.Log}
	n.terms = &terms{cfg: cfg, place: n.place, dir: n.dir, wakes: n.wakes, notify: make(chan bool, 64), established: n.authority.confirm}
	n.stale = &staleness{cfg: cfg, place: n.place, marks: n.marks, dir: n.dir, wakes: n.wakes, copy: n.Copy, news: wake.New(), voting: make(longLock, 1)}
	n.terms.stale = n.stale.stale
	n.asides = &asides{cfg: cfg, folder: n.folder, rep: rep}
	n.seating = &seating{
		cfg: cfg, place: n.place, feed: n.feed, dir: n.dir, wakes: n.wakes, authority: n.authority, identity: n.identity,
		folder: n.folder, marks: n.marks, terms: n.terms, stale: n.stale, asides: n.asides, disk: parker{wake: wake.New()}, life: make(longLock, 1),
	}
	n.clocks = &clockTable{cfg: cfg, voters: n.dir.list}
	n.call = &caller{net: cfg.Net, marks: n.marks, place: n.place, identity: n.identity, clocks: n.clocks, learn: n.seating.learnMarks}
	n.terms.clocks, n.terms.call = n.clocks, n.call
	n.stale.call = n.call
	n.compared.ask, n.compared.found = n.call.ask, n.seating.differs
	n.prober = &prober{cfg: cfg, place: n.place, dir: n.dir, authority: n.authority, wakes: n.wakes, call: n.call, stale: n.stale}
	n.electorate = &electorate{
		cfg: cfg, place: n.place, dir: n.dir, identity: n.identity, terms: n.terms, wakes: n.wakes, call: n.call,
		remember: n.seating.setContacts, absent: map[taskstate.PeerID]time.Time{},
	}
	n.terms.tend = n.electorate.tend
	n.follower = &follower{log: cfg.Log, dir: n.dir, terms: n.terms, wakes: n.wakes, stream: n.follow}
	return nil
}

// restore reads what the folder holds: the copy, the contacts and, for a voter, its seat.
func (n *Node) restore() error {
	mem, err := n.folder.loadMemo()
	if err != nil {
		return err
	}
	n.dir.addContacts(mem.Contacts, math.MaxInt)
	n.authority.seats.Assume(mem.Contacts) // a folder of version 0.1 knows no better
	n.identity.begin(mem)
	n.marks.load()
	n.asides.load()
	n.dir.suppose(mem.Voters)
	if cfg := n.cfg.Root; cfg != nil {
		n.stale.doubt(cfg.Stale())
	}
	if err := loadCopy(n.place.rep, n.folder.path("copy")); errors.Is(err, wire.ErrUnknown) {
		return newerFolder(err)
	} else if err != nil {
		n.cfg.Log.Warn("the copy of the ledger cannot be read, another will be fetched", "err", err)
	}
	if own := n.place.generation(); mem.Seat != 0 && own != 0 && own != mem.Seat {
		n.place.rep.Reset(ledger.NewState())
	}
	n.feed.ring.reset(n.place.rep.Applied())
	if mem.Seat == 0 {
		return nil
	}
	n.seating.life.Lock()
	defer n.seating.life.Unlock()
	if _, err := os.Stat(n.folder.seatDir(mem.Seat)); err != nil {
		return n.seating.lose(mem.Seat, &store.Unsound{Why: fmt.Errorf("its folder is missing: %w", err)})
	}
	return n.seating.retake(mem.Seat)
}

// Close ends the Node: its seat, its handlers, its files. Run must have returned. A copy of the
// ledger stays on disk.
func (n *Node) Close() error {
	n.mu.Lock() // no handler begins from here on, so that all there are can be waited for
	n.end()
	n.mu.Unlock()
	for _, p := range []string{RaftProtocol, FollowProtocol, VoterProtocol} {
		n.cfg.Net.Handle(p, nil)
	}
	n.seating.life.Lock()
	defer n.seating.life.Unlock()
	var err error
	if n.place.seat.Load() != nil {
		err = n.seating.saveMemo()
	}
	err = errors.Join(err, n.seating.close())
	n.wakes.moved.fire()
	n.handlers.Wait()
	n.marks.save(true)
	return errors.Join(err, n.seating.saveCopy(), n.authority.seats.Save())
}

// handle serves a protocol until Close, which waits for the handlers under way.
func (n *Node) handle(protocol string, f func(string, net.Conn)) {
	n.cfg.Net.Handle(protocol, func(peer string, c net.Conn) {
		n.mu.Lock()
		if n.life.Err() != nil {
			n.mu.Unlock()
			_ = c.Close()
			return
		}
		n.handlers.Add(1)
		n.mu.Unlock()
		defer n.handlers.Done()
		f(peer, c)
	})
}

// Run takes part until ctx ends: it coordinates when elected, follows otherwise, and keeps the copy
// on disk. lead is called in its own goroutine once this peer's term is established – its barrier
// passed, its Lead entry applied – and must return when its context ends, which is as soon as
// leadership is lost. Run waits for it.
func (n *Node) Run(ctx context.Context, lead func(context.Context, taskstate.Epoch)) error {
	disk := diskWatch{place: n.place, terms: n.terms, prober: n.prober, parker: &n.seating.disk, log: n.cfg.Log}
	var wg sync.WaitGroup
	for _, f := range []func(context.Context){
		func(ctx context.Context) { n.terms.run(ctx, lead) }, n.follower.run, n.runUpkeep, n.prober.run, n.runTell, n.compared.run, disk.run, n.stale.run,
	} {
		wg.Go(func() { f(ctx) })
	}
	wg.Wait()
	return context.Cause(ctx)
}
