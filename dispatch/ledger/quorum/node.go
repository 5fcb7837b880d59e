package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"covey/dispatch/ledger"
	"covey/dispatch/ledger/quorum/store"
	"covey/internal/limit"
	"covey/internal/wake"
	"covey/p2p"
	"covey/p2p/admission"
	"covey/p2p/wire"
	"covey/taskstate"
)

// Config of a Node. Net, Self and Dir are required.
type Config struct {
	Net         p2p.Net
	Self        taskstate.PeerID
	Incarnation taskstate.Incarnation // of the seat in a folder whose memo, written by version 0.1, does not say
	Dir         string                // belongs to the Node alone; created if absent
	Mark        string                // file of the own mark (see package mark), best not in Dir, which may be turned back as a whole; "" is in Dir
	// Candidates lists every admitted peer, dead ones too, for the voters' rules: whoever is not
	// listed loses its vote. nil means that nobody but this peer ever votes. It is called about
	// once a second while this peer leads, and must be quick.
	Candidates func() []Candidate
	// MayVote tells of peers that the own copy of the ledger does not know yet whether they are
	// admitted with the role voter, for a peer that was away while others took over; nil knows
	// none.
	MayVote func(taskstate.PeerID) bool
	// Seats is who holds a seat, and the proof; it outlives restarts. nil keeps it in memory,
	// unsigned.
	Seats *admission.SeatChain
	// Sign signs for Self, and Verify proves what another peer signed; without them the voters keep
	// no marks of each other (see seen).
	Sign      func([]byte) ([]byte, error)
	Verify    func(peer string, data, sig []byte) error
	Refused   *Refusals // counts what no honest member says; nil counts nothing
	Log       *slog.Logger
	Now       func() time.Time // stamps entries; nil is time.Now
	RingBytes int              // recent entries kept for followers; 0 is 4 MiB
	// Draw draws the incarnation of a seat (see tenure); nil draws at random.
	Draw func() taskstate.Incarnation
	Hurt func() error // for tests: asked before every write to the log, which fails with what it answers, or waits for it; nil never does
}

// How long things take: elections, the voters' rules, following.
const (
	heartbeat     = 300 * time.Millisecond // a coordinator that is suspected and does not answer for so long is gone
	tendEvery     = time.Second            // the voters' rules are looked at so often
	replaceAfter  = 30 * time.Second       // a voter dead for so long is replaced
	shrinkAfter   = 10 * time.Minute       // five voters, one dead for so long: three
	bookmarkEvery = 2 * time.Second        // followers hear at least so often
	saveEvery     = 5 * time.Minute        // the copy for questions without a quorum is written so often, if there was news
)

// Node is a peer's part in the ledger: as a voter it runs raft, otherwise it follows a voter; its
// Replica is current either way. Open, then Found or Follow if the folder is new, then Run, then
// Close. It puts the parts together, serves the protocols, and is what others see of this package;
// no part knows it.
type Node struct {
	cfg        Config
	place      *place
	feed       *feed
	wakes      *wakes
	folder     folder
	tenure     *tenure
	dir        *directory
	authority  *authority
	marks      *seenMarks
	seating    *seating
	terms      *terms
	call       *caller
	prober     *prober
	electorate *electorate
	compared   *comparison
	follower   *follower

	served         *limit.Limit // followers
	snapshots      snapshotLimits
	snapshotsTaken atomic.Int64 // from others so far

	mu       sync.Mutex // of handlers: none begins after the life has ended
	handlers sync.WaitGroup
	life     context.Context // until Close
	end      context.CancelFunc
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
		cfg.Draw = drawIncarnation
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
	n.place, n.folder = &place{rep: rep}, folder{cfg}
	n.tenure = &tenure{cfg: cfg, wakes: n.wakes}
	n.dir = newDirectory(n.place, n.wakes, cfg)
	if n.authority, err = newAuthority(cfg, n.place, n.dir, n.wakes); err != nil {
		return err
	}
	n.marks = &seenMarks{cfg: cfg, place: n.place, folder: n.folder}
	n.compared = &comparison{self: cfg.Self, log: cfg.Log, rep: rep, voters: n.dir.list, due: make(chan uint64, 1)}
	n.feed = &feed{rep: rep, unread: &n.place.unread, ring: newRing(ringIdle), compared: n.compared, wakes: n.wakes, log: cfg.Log}
	n.terms = &terms{cfg: cfg, place: n.place, dir: n.dir, wakes: n.wakes, notify: make(chan bool, 64), established: n.authority.confirm}
	n.seating = &seating{
		cfg: cfg, place: n.place, feed: n.feed, dir: n.dir, wakes: n.wakes, authority: n.authority, tenure: n.tenure,
		folder: n.folder, marks: n.marks, terms: n.terms, disk: parker{wake: wake.New()}, life: make(longLock, 1),
	}
	n.call = &caller{net: cfg.Net, marks: n.marks, place: n.place, tenure: n.tenure, learn: n.seating.learnMarks}
	n.compared.ask, n.compared.found = n.call.ask, n.seating.differs
	n.prober = &prober{cfg: cfg, place: n.place, dir: n.dir, authority: n.authority, wakes: n.wakes, call: n.call}
	n.electorate = &electorate{
		cfg: cfg, place: n.place, dir: n.dir, tenure: n.tenure, terms: n.terms, wakes: n.wakes, call: n.call,
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
	n.tenure.begin(mem)
	n.marks.load()
	n.dir.suppose(mem.Voters)
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
	n.end()
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
func (n *Node) handle(protocol string, f func(string, connT)) {
	n.cfg.Net.Handle(protocol, func(peer string, c connT) {
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
		func(ctx context.Context) { n.terms.run(ctx, lead) }, n.follower.run, n.runUpkeep, n.prober.run, n.runTell, n.compared.run, disk.run,
	} {
		wg.Go(func() { f(ctx) })
	}
	wg.Wait()
	return context.Cause(ctx)
}

// Replica is this peer's copy of what was decided.
func (n *Node) Replica() *ledger.Replica { return n.place.rep }

// Propose implements Ledger. Calls that arrive while others are under way share the next entry.
// Beyond the errors of Ledger it fails with ErrOutcomeUnknown and ErrTooLarge.
func (n *Node) Propose(ctx context.Context, commands []ledger.Command) (uint64, []ledger.Result, error) {
	return n.terms.propose(ctx, commands)
}

// Coordinator is who decides now and in which epoch, as far as this peer knows: certain when it is
// this peer itself, the word of a voter otherwise. ok is false while nobody is known to decide.
func (n *Node) Coordinator() (taskstate.PeerID, taskstate.Epoch, bool) { return n.dir.coordinator() }

// Changed is closed when coordinator or epoch change after the call.
func (n *Node) Changed() <-chan struct{} { return n.wakes.changed.wait() }

// InSync tells whether this peer's copy is current: it coordinates itself, or follows somebody and
// has caught up. at is when it last was known to be (zero: never).
func (n *Node) InSync() (ok bool, at time.Time) { return n.follower.inSync() }

// Generation of the ledger this peer belongs to; 0 before it knows one.
func (n *Node) Generation() uint64 { return n.place.generation() }

// Foreign is the highest generation this peer has heard of that is above its own, 0 if none:
// somebody recovered the ledger elsewhere.
func (n *Node) Foreign() uint64 { return n.dir.newerGeneration() }

// Voters is the committed configuration, as far as this peer knows.
func (n *Node) Voters() []Voter { return n.dir.list() }

// Missing lists the voters that do not answer, for messages. It goes by what membership says, and
// by name.
func (n *Node) Missing() []taskstate.PeerID { return n.electorate.missing() }

// Seated tells whether a peer holds a seat in the ledger, as far as this peer knows.
func (n *Node) Seated(peer taskstate.PeerID) bool { return n.authority.seated(peer) }

// SeatIncarnation is that of this peer's seat, or of the one it would take: others must know it to
// make this peer a voter. Reseated is closed when it changes.
func (n *Node) SeatIncarnation() taskstate.Incarnation { return n.tenure.server().Incarnation }

// Reseated is closed when SeatIncarnation or Lost change after the call.
func (n *Node) Reseated() <-chan struct{} { return n.wakes.reseated.wait() }

// Lost is the seat this peer had to give up and has not got back yet; nil if there is none.
func (n *Node) Lost() *Loss { return n.tenure.loss() }

// Losses are the voters that had to give up their seats, because their disks lost what they had
// acknowledged, and have no other yet; this peer's own among them. Without them too few may be left
// to decide.
func (n *Node) Losses() []Loss { return n.tenure.losses(n.dir.list()) }

// Marked is the highest entry that any voter of a generation is known here to have acknowledged, 0
// if nothing is.
func (n *Node) Marked(generation uint64) uint64 { return n.marks.highest(generation) }

// Differs says in a sentence how this peer's copy of the ledger, or somebody's, differs from the
// others'; "" if nothing is known.
func (n *Node) Differs() string { return n.compared.said() }

// Health is nil, or why this peer, as a voter, cannot write its log now: it takes no part in
// decisions meanwhile. Others go on without it, as long as they are a majority.
func (n *Node) Health() error {
	if s := n.place.seat.Load(); s != nil {
		return s.store.Health()
	}
	return nil
}

// Follow names peers that may be voters: whom a newcomer asks first.
func (n *Node) Follow(voters []taskstate.PeerID) {
	n.authority.seats.Assume(voters)
	if n.dir.addContacts(voters, math.MaxInt) {
		n.seating.remember("cannot remember whom to follow")
		n.wakes.follow.Set()
	}
}

// Hint is news from gossip about who coordinates: it says whom to ask, nothing more.
func (n *Node) Hint(peer taskstate.PeerID, e taskstate.Epoch) { n.authority.hint(peer, e) }

// SuspectLeader says that somebody waits for the coordinator, or has seen a sign of its end. It
// returns at once; if the coordinator is gone there will be an election, about 300 ms
// later on fast links (much sooner if dials to it are refused). If it lives, nothing happens.
func (n *Node) SuspectLeader() { n.wakes.suspect.Set() }

// Reconsider looks at the voters' rules, and at whom to follow, at once: call it when membership
// changed.
func (n *Node) Reconsider() {
	n.wakes.voters.Set()
	n.wakes.follow.Set()
}

// Handover prepares the cluster for this peer's stop. If those who stay would not be a majority of
// the voters, the configuration shrinks to them, one committed change at a time; if nobody else
// votes, a live peer becomes the voter first. A coordinator then hands leadership over, so that
// there is no gap. It returns when somebody else coordinates or nothing needs doing, and the
// context's error if that takes too long: stopping then is what a crash would be. Run must be
// running.
func (n *Node) Handover(ctx context.Context) error { return n.electorate.handover(ctx) }

// RemoveVoter takes the vote from a peer for good, before it is removed from the cluster: call it
// on the coordinator, before the Remove decision. It fails with ErrSoleVoter, and with
// ErrNotCoordinator here and when the peer is this one: leadership is on its way to another then,
// to whom the caller forwards.
func (n *Node) RemoveVoter(ctx context.Context, peer taskstate.PeerID) error {
	return n.electorate.removeVoter(ctx, peer)
}

// Suspend closes this peer's seat, if it has one, until Resume: it gives no vote, leads nothing,
// and follows. What is on disk stays as it is.
func (n *Node) Suspend() error { return n.seating.suspend() }

// Resume ends a suspension: this peer takes its seat again.
func (n *Node) Resume() error { return n.seating.resume() }

var _ ledger.Ledger = (*Node)(nil)
