package quorum

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum/mark"
	"github.com/coveyproject/covey/dispatch/ledger/quorum/raftlog"
	"github.com/coveyproject/covey/dispatch/ledger/quorum/store"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// openDisk opens the log and the snapshots of a seat, which are sound when it returns; else nothing
// stays open.
func (t *seating) openDisk(s *seat, dir string) (raft.SnapshotStore, error) {
	var err error
	onDisk := t.folder.logIn(dir)
	onDisk.Moved = t.disk.unpark
	onDisk.Aside = func(log raft.LogStore, from, to uint64) error { return t.asides.take(log, s.generation, from, to) }
	onDisk.TakenBack = t.feed.compared.differsIn
	if s.store, err = store.Open(onDisk); err != nil {
		return nil, err
	}
	kept, err := store.OpenSnapshots(dir, t.cfg.Log, soundState, ledger.FromVersion01)
	if err == nil {
		err = s.store.Sound(kept)
	}
	if newer := (store.Newer{}); errors.As(err, &newer) {
		err = newerFolder(newer.Why)
	}
	if err != nil {
		return nil, errors.Join(err, s.store.Close())
	}
	snaps := s.store.Marked(kept)
	if err := t.checkLog(s, snaps); err != nil {
		return nil, errors.Join(err, s.store.Close())
	}
	return snaps, nil
}

// open starts raft from its folder. With first, the folder is new and first is the first entry
// of a new ledger, whose only voter is this peer. The caller holds life.
func (t *seating) open(generation uint64, first []byte) (err error) {
	s := &seat{generation: generation, self: t.identity.server(), opened: time.Now(), config: make(longLock, 1), gone: make(chan struct{})}
	s.self.Voting = true
	s.fsm = &fsm{feed: t.feed, voters: t.authority.setVoters}
	dir := t.folder.seatDir(generation)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the ledger's folder: %w", err)
	}
	snaps, err := t.openDisk(s, dir)
	if err != nil {
		return err
	}
	conf := raftConfig(s, t.terms.notify)
	conf.Logger = raftlog.New(t.cfg.Log)
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
	s.stream.end = func(h *raftHello) {
		h.Log = s.point(math.MaxUint64)
		wire.Clip(h, t.place.rep.Spoken())
	}
	s.stream.check = func(o *logPoint) error { return s.against(o, t.feed.compared.differsIn) }
	s.trans = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Logger: conf.Logger, Stream: s.stream, MaxPool: 3, Timeout: raftTimeout, MaxRPCsInFlight: noPipeline})
	t.stale.fits(s)
	t.stale.warn()
	trans := newSeatTransport(s, t.stale)
	s.raft, err = newRaft(conf, s.fsm, s.store.Guarded(func(err error) { t.unsound(s, err) }), snaps, trans)
	if err != nil {
		s.trans.CloseStreams()
		_ = s.trans.Close()
		_ = s.store.Close()
		return fmt.Errorf("start the ledger from %s: %w", dir, err)
	}
	go trans.screen()
	t.place.seat.Store(s)
	t.stale.news.Set()
	t.disk.unpark() // a write of before was not seen
	t.feed.ring.bound(t.cfg.RingBytes)
	t.terms.tune(s)
	s.observe(t.leaderMoved)
	if err := t.saveMemo(); err != nil {
		return errors.Join(fmt.Errorf("remember the seat among the voters: %w", err), t.close())
	}
	s.settle(t.dir)
	t.wakes.suspect.Set()
	return nil
}

// checkLog refuses a log that has less than it is known to have had, and has its mark kept from now
// on.
func (t *seating) checkLog(s *seat, snaps raft.SnapshotStore) error {
	p := store.Promise{File: t.folder.markPath(), Self: mark.Mark{Server: s.self.server(), Generation: s.generation}, Decided: s.fsm.decided.Load}
	p.Reaches, p.Marked = t.identity.reaches(s.generation)
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

// noPipeline makes raft wait for each answer before it sends more to a voter; what gathers
// meanwhile goes together. Its pipeline can block for good when a voter refuses an entry while
// two more are on their way (raft 1.8.0): nobody reads the answers any more, the sender waits
// for room, and shutdown waits for the sender.
const noPipeline = 1

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

// keep gives up a seat that was taken away, together with its folder, and sees to snapshots.
func (t *seating) keep() {
	t.marks.save(false)
	if s := t.place.seat.Load(); s != nil {
		t.terms.tune(s)
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
	t.identity.redraw()
	if e := t.saveMemo(); e != nil {
		return e
	}
	if e := os.RemoveAll(t.folder.seatDir(s.generation)); e != nil {
		return e
	}
	return err
}

// suspend: another peer goes by the same key, and until a person has settled which is the right
// one, none of the two votes or leads.
func (t *seating) suspend() error {
	t.life.Lock()
	defer t.life.Unlock()
	s, voters := t.place.seat.Load(), t.dir.list()
	if !t.identity.suspend(s) || s == nil {
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
	generation := t.identity.resume()
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

// errSuspended answers calls that would have this peer take part in deciding meanwhile.
var errSuspended = errors.New("this peer takes no part in deciding: another one goes by the same key")

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

// adopt takes a snapshot. One of a higher generation than ours comes from a recovered ledger: ours
// is set aside.
func (t *seating) adopt(from taskstate.PeerID, st *ledger.State) error {
	t.life.Lock()
	defer t.life.Unlock()
	switch own := t.place.generation(); {
	case own == 0 || own == st.Generation():
	case st.Generation() < own:
		return fmt.Errorf("a snapshot of generation %d, older than %d here", st.Generation(), own)
	case t.authority.seats.Now().Generation != st.Generation() || !t.authority.seated(from):
		return fmt.Errorf("a ledger of generation %d from %s: %w", st.Generation(), from, errUnseated)
	default:
		t.cfg.Log.Warn("the ledger was recovered elsewhere: this peer's own is set aside", "from", from, "theirs", st.Generation(), "ours", own)
		if err := t.setAside(own); err != nil {
			return err
		}
	}
	t.feed.reset(st)
	return nil
}

// setAside moves this peer's ledger to a folder aside, for people to look at, and gives up its
// seat. The replica stays as it is until it is replaced. The caller holds life.
func (t *seating) setAside(generation uint64) error {
	aside, err := t.folder.asideFolder(t.place.rep, generation)
	if err != nil {
		return err
	}
	t.leave()
	t.identity.redraw()
	if err := t.saveMemo(); err != nil {
		return fmt.Errorf("set the ledger aside: %w", err)
	}
	return t.moveAside(aside, generation)
}

// moveAside puts the folder of a closed seat aside, and notes what is there.
func (t *seating) moveAside(aside string, generation uint64) error {
	if err := t.folder.moveSeat(aside, generation); err != nil {
		return err
	}
	t.asides.addLedger(aside)
	return nil
}

// leave closes the seat and waits until nobody leads here any more.
func (t *seating) leave() {
	if err := t.close(); err != nil {
		t.cfg.Log.Warn("gave up the seat among the voters, with trouble", "err", err)
	}
	t.terms.awaitEnd()
	t.dir.forgetVoters()
}

// learnMarks takes what another peer shows. A mark of this peer's own seat that is higher than its
// own says that its folder was turned back: the seat is given up.
func (t *seating) learnMarks(from taskstate.PeerID, shown []mark.Signed) {
	own := t.marks.learn(shown, t.dir.list())
	s := t.place.seat.Load()
	if own == nil || s == nil || !own.Same(mark.Mark{Server: s.self.server(), Generation: s.generation}) {
		return
	}
	m, _ := s.store.Acknowledged()
	t.unsound(s, &store.Unsound{Held: own.Index, Left: m.Index, Why: fmt.Errorf(
		"%s shows, signed by this peer itself, that it had acknowledged entry %d in term %d and voted in term %d; its folder knows of entry %d, term %d and term %d, and was turned back",
		from, own.Index, own.Term, own.Voted, m.Index, m.Term, m.Voted)})
}

// unsound is called when it is found, in any goroutine, that the log of a seat cannot be believed.
// The seat gives no vote, leads no more and acknowledges nothing from this moment on. It is given
// up for good a moment later, on disk as well (see lose), and the coordinator, if the others can
// elect one, seats this peer anew, with an empty log that is brought up to date.
func (t *seating) unsound(s *seat, why error) {
	u, ok := why.(*store.Unsound) //nolint:errorlint // not one that is wrapped: what is around it would be lost
	if !ok {
		u = &store.Unsound{Why: why}
	}
	if !s.unsound.CompareAndSwap(nil, u) {
		return
	}
	t.cfg.Log.Error("this voter's log cannot be believed: it votes no more and asks for another seat", "err", u)
	_ = s.stream.Close()
	s.store.Bar(u)
	select {
	case t.terms.notify <- false:
	default: // full of news of its own
	}
	t.wakes.unsound.Set()
}

// heldOnce is how far the log of this peer's seat had acknowledged, whatever is left of it: the
// mark beside the folder says so, and what others saw. Nothing, if none of them does.
func (t *seating) heldOnce(generation uint64) mark.Mark {
	self := mark.Mark{Server: t.identity.server().server(), Generation: generation}
	held := t.marks.acknowledged(self)
	file, own, err := mark.Open(t.folder.markPath())
	if err != nil {
		return held
	}
	_ = file.Close()
	if own.Same(self) && (held.Server == "" || held.Behind(own)) {
		return own
	}
	return held
}

// lose gives up a seat, open or not, whose log cannot be believed: it puts what is left aside for a
// person to look at, and remembers what was lost. The caller holds life.
func (t *seating) lose(generation uint64, u *store.Unsound) error {
	aside, err := t.folder.asideFolder(t.place.rep, generation)
	if err != nil {
		t.cfg.Log.Warn("what is left of the ledger's log stays where it is", "err", err)
	}
	voters := t.dir.list()
	if t.place.seat.Load() != nil {
		t.leave()
	}
	t.dir.suppose(voters) // for messages
	held := t.heldOnce(generation)
	t.marks.attest(held)
	t.identity.lose(generation, u, held.Index, aside)
	t.cfg.Log.Error("this peer's log of the ledger was lost: it gives no vote until it is seated anew", "why", u, "set aside", aside)
	if err := t.saveMemo(); err != nil {
		return fmt.Errorf("remember that the seat among the voters was lost: %w", err)
	}
	if aside == "" {
		return nil
	}
	return t.moveAside(aside, generation)
}
