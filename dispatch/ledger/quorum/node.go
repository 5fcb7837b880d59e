package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"covey/dispatch/ledger"
	"covey/dispatch/ledger/quorum/store"
	"covey/p2p"
	"covey/p2p/admission"
	"covey/taskstate"
)

// Config of a Node. Net, Self and Dir are required.
type Config struct {
	Net         p2p.Net
	Self        taskstate.PeerID
	Incarnation taskstate.Incarnation // of the seat in a folder whose memo, written by version 0.1, does not say
	Dir         string                // belongs to the Node alone; created if absent
	Mark        string                // file of the own mark (see package mark), best not in Dir, which may be turned back as a whole; "" is in Dir
	Timings     Timings
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

// Timings of elections, voters' rules and following. Zero fields take the default.
type Timings struct {
	Heartbeat time.Duration // a coordinator that is suspected and does not answer for so long is gone; 300 ms
	Election  time.Duration // from this raft's time for an election comes, see raftTimers; 300 ms
	Lease     time.Duration // a coordinator that reaches no majority for ten times so long steps down; 200 ms
	Tend      time.Duration // the voters' rules are looked at so often; 1 s
	Replace   time.Duration // a voter dead for so long is replaced; 30 s
	Shrink    time.Duration // five voters, one dead for so long: three; 10 min
	Bookmark  time.Duration // followers hear at least so often; 2 s
	Save      time.Duration // the copy for questions without a quorum is written so often, if there was news; 5 min
}

func (t Timings) withDefaults() Timings {
	return Timings{
		Heartbeat: cmp.Or(t.Heartbeat, 300*time.Millisecond), Election: cmp.Or(t.Election, 300*time.Millisecond),
		Lease: cmp.Or(t.Lease, 200*time.Millisecond), Tend: cmp.Or(t.Tend, time.Second), Replace: cmp.Or(t.Replace, 30*time.Second),
		Shrink: cmp.Or(t.Shrink, 10*time.Minute), Bookmark: cmp.Or(t.Bookmark, 2*time.Second), Save: cmp.Or(t.Save, 5*time.Minute),
	}
}

// Node is a peer's part in the ledger: as a voter it runs raft, otherwise it follows a voter; its
// Replica is current either way. Open, then Found or Follow if the folder is new, then Run, then
// Close.
type Node struct {
	cfg  Config
	rep  *ledger.Replica
	ring *ring

	feed      sync.Mutex // one entry or snapshot at a time goes into replica and ring
	life      longLock   // one start or stop of a seat at a time
	notify    chan bool  // raft: leadership gained or lost
	poke      chan struct{}
	tendNow   chan struct{}
	suspect   chan struct{}
	disk      parker       // of watchDisk
	permits   permits      // which server this voter permits to stand for election
	probing   atomic.Int32 // questions about the leader that are looked into now
	moved     signal       // entries, coordinator or voters changed: for those that serve followers
	changed   signal       // the coordinator changed
	reseated  signal       // this peer's seat is, or will be, another
	lead      atomic.Pointer[leading]
	serving   servingLimits // followers served now
	snapshots atomic.Int64  // taken from others so far
	handing   atomic.Bool   // Handover is under way: leave the voters alone
	handlers  sync.WaitGroup
	closing   chan struct{}

	memos sync.Mutex // one writer of the memo at a time

	mu          sync.Mutex
	seat        *seat
	coord       taskstate.PeerID
	epoch       taskstate.Epoch // of coord
	hint        taskstate.PeerID
	hintEpoch   taskstate.Epoch
	voters      []Voter
	votersIndex uint64 // raft index of voters; 0 if they are only what the disk held at start
	votersFloor uint64 // configurations below it are of the past
	bound       logBound
	contacts    []taskstate.PeerID // peers to try that might be voters
	absent      map[string]time.Time
	heard       map[taskstate.PeerID]time.Time // when raft or gossip last named a peer as the one to follow
	sync        syncState
	foreign     foreign
	tenure      tenure
	seen        seen
	authority   authority
	suspension  suspension
	compared    comparison
}

// Open prepares a Node from its folder: a voter takes its seat again, everybody has its copy of the
// ledger. Nothing is decided or followed before Run.
func Open(cfg Config) (*Node, error) {
	cfg.Timings = cfg.Timings.withDefaults()
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
	n := &Node{
		cfg: cfg, rep: ledger.NewReplica(), ring: newRing(ringIdle), notify: make(chan bool, 64), life: make(longLock, 1),
		poke: make(chan struct{}, 1), tendNow: make(chan struct{}, 1), suspect: make(chan struct{}, 1), disk: parker{wake: make(chan struct{}, 1)}, closing: make(chan struct{}), absent: map[string]time.Time{}, heard: map[taskstate.PeerID]time.Time{},
	}
	n.tenure.bad = make(chan struct{}, 1)
	if err := n.openAuthority(); err != nil {
		return nil, err
	}
	n.compared.due = make(chan uint64, 1)
	if err := n.restore(); err != nil {
		return nil, err
	}
	n.handle(RaftProtocol, n.handleRaft)
	n.handle(FollowProtocol, n.handleFollow)
	n.handle(VoterProtocol, n.handleVoter)
	return n, nil
}

// restore reads what the folder holds: the copy, the contacts and, for a voter, its seat.
func (n *Node) restore() error {
	mem, err := n.loadMemo()
	if err != nil {
		return err
	}
	n.contacts = mem.Contacts
	n.authority.seats.Assume(mem.Contacts) // a folder of version 0.1 knows no better
	n.tenure.begin(mem)
	n.loadSeen()
	n.voters = mem.Voters
	n.bound = logBound{generation: mem.Seat, index: mem.Log}
	if err := loadCopy(n.rep, n.copyPath()); err != nil {
		n.cfg.Log.Warn("the copy of the ledger cannot be read, another will be fetched", "err", err)
	}
	if mem.Seat != 0 && n.Generation() != 0 && n.Generation() != mem.Seat {
		n.rep.Reset(ledger.NewState())
	}
	n.ring.reset(n.rep.Applied())
	if mem.Seat == 0 {
		return nil
	}
	n.life.Lock()
	defer n.life.Unlock()
	_, err = os.Stat(n.seatDir(mem.Seat))
	if err != nil {
		err = &store.Unsound{Why: fmt.Errorf("its folder is missing: %w", err)}
	} else {
		err = n.openSeat(mem.Seat, nil)
	}
	if bad := new(store.Unsound); errors.As(err, &bad) {
		return n.loseSeat(mem.Seat, bad)
	}
	return err
}

// Close ends the Node: its seat, its handlers, its files. Run must have returned. A copy of the
// ledger stays on disk.
func (n *Node) Close() error {
	close(n.closing)
	for _, p := range []string{RaftProtocol, FollowProtocol, VoterProtocol} {
		n.cfg.Net.Handle(p, nil)
	}
	n.life.Lock()
	defer n.life.Unlock()
	var err error
	if n.currentSeat() != nil {
		err = n.saveMemo()
	}
	err = errors.Join(err, n.closeSeat())
	n.moved.fire()
	n.handlers.Wait()
	n.saveSeen(true)
	return errors.Join(err, n.save(), n.authority.seats.Save())
}

// handle serves a protocol until Close, which waits for the handlers under way.
func (n *Node) handle(protocol string, f func(string, connT)) {
	n.cfg.Net.Handle(protocol, func(peer string, c connT) {
		n.mu.Lock()
		select {
		case <-n.closing:
			n.mu.Unlock()
			_ = c.Close()
			return
		default:
		}
		n.handlers.Add(1)
		n.mu.Unlock()
		defer n.handlers.Done()
		f(peer, c)
	})
}

// Replica is this peer's copy of what was decided.
func (n *Node) Replica() *ledger.Replica { return n.rep }

// Run takes part until ctx ends: it coordinates when elected, follows otherwise, and keeps the copy
// on disk. lead is called in its own goroutine once this peer's term is established – its barrier
// passed, its Lead entry applied – and must return when its context ends, which is as soon as
// leadership is lost. Run waits for it.
func (n *Node) Run(ctx context.Context, lead func(context.Context, taskstate.Epoch)) error {
	var wg sync.WaitGroup
	for _, f := range []func(context.Context){
		func(ctx context.Context) { n.runTerms(ctx, lead) }, n.runFollow, n.runUpkeep, n.runSuspect, n.runTell, n.runCompare, n.watchDisk,
	} {
		wg.Go(func() { f(ctx) })
	}
	wg.Wait()
	return context.Cause(ctx)
}

// kick wakes whoever decides whom to follow.
func (n *Node) kick() { nudge(n.poke) }

// Reconsider looks at the voters' rules, and at whom to follow, at once: call it when membership
// changed.
func (n *Node) Reconsider() {
	nudge(n.tendNow)
	n.kick()
}

func (n *Node) copyPath() string { return filepath.Join(n.cfg.Dir, "copy") }

var _ ledger.Ledger = (*Node)(nil)
