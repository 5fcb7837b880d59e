package quorum

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"covey/dispatch/ledger"
	"covey/dispatch/ledger/quorum/mark"
	"covey/dispatch/ledger/quorum/raftlog"
	"covey/dispatch/ledger/quorum/store"
	"covey/p2p/wire"
	"covey/taskstate"
)

const (
	trailingLogs    = 1024 // entries kept behind a snapshot, so that a voter that was away briefly needs none
	snapshotEntries = 16 << 10
	snapshotBytes   = 32 << 20
	raftTimeout     = 5 * time.Second // for raft to send or hear one message
	// noPipeline makes raft wait for each answer before it sends more to a voter; what gathers
	// meanwhile goes together. Its pipeline can block for good when a voter refuses an entry while
	// two more are on their way (raft 1.8.0): nobody reads the answers any more, the sender waits
	// for room, and shutdown waits for the sender.
	noPipeline      = 1
	ringIdle        = 64 << 10 // recent entries kept by a peer that serves no followers, in bytes
	shutdownTimeout = 10 * time.Second
	seatPatience    = time.Minute // how long a seat waits to appear in the configuration
)

// seat is one running raft server: a place among the voters, or on the way to one.
type seat struct {
	generation uint64
	self       Voter
	raft       *raft.Raft
	trans      *raft.NetworkTransport
	stream     *streamLayer
	store      *store.Log
	fsm        *fsm
	watch      *raft.Observer
	watched    chan struct{} // closed when the watcher has ended
	closeWatch func()
	opened     time.Time
	seen       atomic.Bool                   // a configuration that contains this server was seen
	config     longLock                      // one change of the configuration is worked out and made at a time
	settings   sync.Mutex                    // one change of raft's settings at a time
	unsound    atomic.Pointer[store.Unsound] // why this seat must not vote any more
}

// seating is this peer's way from seat to seat: it opens and closes the one there is, checks what
// its disk says, gives it up when it was taken away or cannot be believed, and takes another. It
// alone changes which seat there is.
type seating struct {
	cfg       *Config
	place     *place
	feed      *feed
	dir       *directory
	wakes     *wakes
	authority *authority
	tenure    *tenure
	folder    folder
	marks     *seenMarks
	terms     *terms
	disk      parker // of diskWatch

	life  longLock   // one start or stop of a seat at a time
	files sync.Mutex // one writer of the memo and the copy at a time
	noted uint64     // index of the voters the memo was asked to keep last; of keepTenure
}

// open starts raft from its folder. With first, the folder is new and first is the first entry
// of a new ledger, whose only voter is this peer. The caller holds life.
func (t *seating) open(generation uint64, first []byte) (err error) {
	s := &seat{generation: generation, self: t.tenure.server(), opened: time.Now(), config: make(longLock, 1)}
	s.self.Voting = true
	s.fsm = &fsm{feed: t.feed, authority: t.authority}
	dir := t.folder.seatDir(generation)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the ledger's folder: %w", err)
	}
	logger := raftlog.New(t.cfg.Log)
	onDisk := t.folder.logIn(dir)
	onDisk.Moved = t.disk.unpark
	if s.store, err = store.Open(onDisk); err != nil {
		return err
	}
	kept, err := store.OpenSnapshots(dir, t.cfg.Log, soundState, ledger.FromVersion01)
	if err == nil {
		err = s.store.Sound(kept)
	}
	if newer := (store.Newer{}); errors.As(err, &newer) {
		err = newerFolder(newer.Why)
	}
	if err != nil {
		return errors.Join(err, s.store.Close())
	}
	snaps := s.store.Marked(kept)
	conf := raftConfig(s, t.terms.notify)
	conf.Logger = logger
	if err := t.checkLog(s, snaps); err != nil {
		return errors.Join(err, s.store.Close())
	}
	if first != nil {
		if err := s.bootstrap(conf, snaps, first); err != nil {
			_ = s.store.Close()
			return fmt.Errorf("found a ledger in %s: %w", dir, err)
		}
	}
	_, floor, err := s.store.Configuration(snaps)
	if err != nil {
		_ = s.store.Close()
		return fmt.Errorf("read the ledger's log in %s: %w", dir, err)
	}
	t.dir.setFloor(floor) // before raft says anything: while it replays its log, older ones come by again, and they are history
	s.stream = newStreamLayer(t.cfg.Net, generation, s.self, t.authority.reportForeign, t.wakes.suspect.Set)
	s.stream.show = func() []mark.Signed { return t.marks.show(s) }
	s.stream.learn = func(peer taskstate.PeerID, shown []mark.Signed) error {
		if t.learnMarks(peer, shown); s.unsound.Load() != nil {
			return errNoSeat
		}
		return nil
	}
	s.trans = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Logger: logger, Stream: s.stream, MaxPool: 3, Timeout: raftTimeout, MaxRPCsInFlight: noPipeline})
	s.raft, err = newRaft(conf, s.fsm, s.store.Guarded(func(err error) { t.unsound(s, err) }), snaps, steadyTransport{s.trans, s.store})
	if err != nil {
		s.trans.CloseStreams()
		_ = s.trans.Close()
		_ = s.store.Close()
		return fmt.Errorf("start the ledger from %s: %w", dir, err)
	}
	t.place.seat.Store(s)
	t.disk.unpark() // a write of before was not seen
	t.feed.ring.bound(t.cfg.RingBytes)
	s.observe(t.leaderMoved)
	if err := t.saveMemo(); err != nil {
		return errors.Join(fmt.Errorf("remember the seat among the voters: %w", err), t.close())
	}
	s.settle(t.dir)
	t.wakes.suspect.Set()
	return nil
}

func soundEntry(data []byte) error {
	_, err := ledger.ReadEntry(0, data)
	return err
}

func soundState(snapshot []byte) error {
	_, err := ledger.DecodeState(snapshot)
	if errors.Is(err, wire.ErrUnknown) {
		return store.Newer{Why: err} // it is whole: it stays where it is
	}
	return err
}

// checkLog refuses a log that has less than it is known to have had, and has its mark kept from now
// on.
func (t *seating) checkLog(s *seat, snaps raft.SnapshotStore) error {
	p := store.Promise{File: t.folder.markPath(), Self: mark.Mark{Server: s.self.server(), Generation: s.generation}, Decided: s.fsm.decided.Load}
	p.Reaches, p.Marked = t.tenure.reaches(s.generation)
	return s.store.Check(p, snaps)
}

func raftConfig(s *seat, leads chan<- bool) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(s.self.server())
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = raftPatience, raftPatience, raftLease
	c.CommitTimeout = commitTimeout
	c.BatchApplyCh = true
	c.MaxAppendEntries = 16 // our entries are batches already; sixteen of the largest must pass within raftTimeout
	c.ShutdownOnRemove = false
	c.TrailingLogs = trailingLogs
	c.SnapshotThreshold = snapshotEntries
	c.SnapshotInterval = 30 * time.Second
	c.NoLegacyTelemetry = true
	c.NotifyCh = leads
	return c
}

// commitTimeout is how soon an idle leader tells the other voters what has been committed. It need
// not be soon: their replicas follow the coordinator's stream (see follower), and an election
// commits by itself.
const commitTimeout = 4 * time.Second

// Raft's own timers are slow: whoever has a reason to ask whether the coordinator lives asks it
// directly, within a heartbeat (see probe.go), and raft's timers are left with what nobody had a
// reason to ask about. A leader sends each voter a heartbeat every 0.75 to 1.5 s (see relax) and
// gives up after two seconds without a majority, still before its peer calls a job HELD (3 s); a
// voter stands by itself after 2.25 to 4.5 s. Slower would save little: what is left wakes a
// coordinator up five times a second, of about 25. Raft demands that a voter's patience is no
// shorter than the lease.
const (
	raftLease    = 2 * time.Second
	raftPatience = 15 * heartbeat / 2
)

// bootstrap writes the two entries a ledger begins with: its configuration, this peer alone, and
// its first decision. Alone, what is on this disk is committed.
func (s *seat) bootstrap(conf *raft.Config, snaps raft.SnapshotStore, first []byte) error {
	id := s.self.server()
	conf0 := raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: raft.ServerID(id), Address: raft.ServerAddress(id)}}}
	if err := raft.BootstrapCluster(conf, s.store, s.store, snaps, nil, conf0); err != nil {
		return err
	}
	return s.store.StoreLog(&raft.Log{Index: 2, Term: 1, Type: raft.LogCommand, Data: first, AppendedAt: time.Now()})
}

// observe calls moved when raft learns of another leader.
func (s *seat) observe(moved func(*seat)) {
	ch := make(chan raft.Observation, 16)
	s.watched = make(chan struct{})
	s.watch = raft.NewObserver(ch, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	s.raft.RegisterObserver(s.watch)
	go func() {
		defer close(s.watched)
		for range ch {
			moved(s)
		}
	}()
	// The observer never blocks raft; a dropped notice is made up for by the next look, a second
	// later.
	s.closeWatch = func() { s.raft.DeregisterObserver(s.watch); close(ch); <-s.watched }
}

// settle looks at the configuration on disk: it tells Voters something to begin with, and a lone
// voter need not wait for anybody's heartbeat before it stands for election.
func (s *seat) settle(dir *directory) {
	f := s.raft.GetConfiguration()
	if f.Error() != nil {
		return
	}
	vs := votersOf(f.Configuration())
	s.seen.Store(slices.ContainsFunc(vs, s.is))
	dir.suppose(slices.Clone(vs))
	voting := slices.DeleteFunc(vs, func(v Voter) bool { return !v.Voting })
	if len(voting) == 1 && s.is(voting[0]) {
		s.elect()
	}
}

// elect makes raft stand for election at once, by the same message with which a leader hands over.
func (s *seat) elect() {
	id := s.self.server()
	req := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: []byte(id)}}
	_ = s.trans.TimeoutNow(raft.ServerID(id), raft.ServerAddress(id), req, &raft.TimeoutNowResponse{}) // or the timer does it, a little later
}

// is tells whether v is this server.
func (s *seat) is(v Voter) bool { return v.Peer == s.self.Peer && v.Incarnation == s.self.Incarnation }

// leader is the server raft believes to lead. One that waits for its own disk does not, whatever
// raft believes.
func (s *seat) leader() (taskstate.PeerID, bool) {
	_, id := s.raft.LeaderWithID()
	peer, _, err := parseServer(string(id))
	if _, stuck := s.store.Stuck(); stuck && peer == s.self.Peer {
		return "", false
	}
	return peer, err == nil
}

// close stops raft and leaves its folder. The caller holds life.
func (t *seating) close() error {
	s := t.place.seat.Swap(nil)
	if s == nil {
		return nil
	}
	t.feed.ring.bound(ringIdle)
	s.closeWatch()
	err := s.shutdown()
	s.trans.CloseStreams()
	_ = s.trans.Close()
	err = errors.Join(err, s.store.Close())
	t.wakes.moved.fire()
	return err
}

// shutdown stops raft and waits for it, within reason: a goroutine of raft's that never ends must
// not keep a peer from stopping.
func (s *seat) shutdown() error {
	done := make(chan error, 1)
	go func() { done <- s.raft.Shutdown().Error() }()
	select {
	case err := <-done:
		return err
	case <-time.After(shutdownTimeout):
		return errors.New("raft does not stop; its files are closed regardless")
	}
}

// votersOf translates raft's configuration.
func votersOf(c raft.Configuration) []Voter {
	out := make([]Voter, 0, len(c.Servers))
	for _, s := range c.Servers {
		if peer, inc, err := parseServer(string(s.ID)); err == nil {
			out = append(out, Voter{Peer: peer, Incarnation: inc, Voting: s.Suffrage == raft.Voter})
		}
	}
	return out
}

// takenAway tells whether a committed configuration no longer has this server, or never got it.
func (t *seating) takenAway() bool {
	s := t.place.seat.Load()
	if s == nil {
		return false
	}
	index, _, voters := t.dir.configuration()
	if slices.ContainsFunc(voters, s.is) {
		s.seen.Store(true)
		return false
	}
	if s.seen.Load() {
		return index > 0 && !s.holds(index)
	}
	return time.Since(s.opened) > seatPatience
}

// holds tells whether the seat's own log has it as a server still, for all that a committed
// configuration at index can say: one that the log has gone beyond is history.
func (s *seat) holds(index uint64) bool {
	return index <= s.raft.CommitIndex() && slices.ContainsFunc(votersOf(s.raft.GetConfiguration().Configuration()), s.is)
}

// keep gives up a seat that was taken away, together with its folder, and sees to snapshots.
func (t *seating) keep() {
	t.marks.save(false)
	if s := t.place.seat.Load(); s != nil {
		s.renewLog()
		s.fsm.snapshotIfDue(s)
		_ = s.store.Note() // Health says what is wrong with the disk
	}
	if !t.takenAway() {
		return
	}
	t.life.Lock()
	defer t.life.Unlock()
	s := t.place.seat.Load()
	if s == nil || !t.takenAway() {
		return
	}
	t.cfg.Log.Info("no longer a voter; following from now on")
	if err := t.drop(s); err != nil {
		t.cfg.Log.Warn("gave up the seat among the voters, with trouble", "err", err)
	}
	t.wakes.follow.Set()
}

// drop closes the seat and forgets it for good. The caller holds life.
func (t *seating) drop(s *seat) error {
	err := t.close()
	t.tenure.redraw()
	if e := t.saveMemo(); e != nil {
		return e
	}
	if e := os.RemoveAll(t.folder.seatDir(s.generation)); e != nil {
		return e
	}
	return err
}

// newRaft starts raft. Its own goroutine reads the log first, and ends if that is rotten.
func newRaft(conf *raft.Config, f raft.FSM, logs store.Guarded, snaps raft.SnapshotStore, trans raft.Transport) (r *raft.Raft, err error) {
	done := make(chan struct{})
	err = errors.New("the ledger's log is rotten")
	go func() {
		defer close(done)
		defer func() {
			if x := recover(); x != nil {
				err = fmt.Errorf("raft cannot begin with what the disk holds: %v", x)
			}
		}()
		r, err = raft.NewRaft(conf, f, logs, logs, snaps, trans)
	}()
	<-done
	return r, err
}

// errSuspended answers whoever would have this peer take part in deciding meanwhile.
var errSuspended = errors.New("this peer takes no part in deciding: another one goes by the same key")

// suspend: another peer goes by the same key, and until a person has settled which is the right
// one, none of the two votes or leads.
func (t *seating) suspend() error {
	t.life.Lock()
	defer t.life.Unlock()
	s, voters := t.place.seat.Load(), t.dir.list()
	if !t.tenure.suspend(s) || s == nil {
		return nil
	}
	err := t.close()
	t.terms.awaitEnd()
	t.dir.addContacts(peersOf(voters), math.MaxInt) // there may be one to follow
	t.dir.setCoordinator("", taskstate.Epoch{})
	t.wakes.follow.Set()
	return err
}

func (t *seating) resume() error {
	t.life.Lock()
	defer t.life.Unlock()
	generation := t.tenure.resume()
	if generation == 0 {
		return nil
	}
	defer t.wakes.follow.Set()
	return t.retake(generation)
}

// retake opens a seat that was closed, or was open when the peer stopped. One that cannot be
// believed is given up. The caller holds life.
func (t *seating) retake(generation uint64) error {
	err := t.open(generation, nil)
	if bad := new(store.Unsound); errors.As(err, &bad) {
		return t.lose(generation, bad)
	}
	return err
}
