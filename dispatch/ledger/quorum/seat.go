package quorum

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum/store"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

const (
	trailingLogs    = 1024 // entries kept behind a snapshot, so that a voter that was away briefly needs none
	snapshotEntries = 16 << 10
	snapshotBytes   = 32 << 20
	raftTimeout     = 5 * time.Second // for raft to send or hear one message
	ringIdle        = 64 << 10        // recent entries kept by a peer that serves no followers, in bytes
	shutdownTimeout = 10 * time.Second
	lastAnswers     = time.Second // for raft to answer what it was asked, before it is stopped
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
	closeWatch func()
	opened     time.Time
	relaxed    atomic.Bool                   // raft's timers are those of a leader
	seen       atomic.Bool                   // a configuration that contains this server was seen
	config     longLock                      // one change of the configuration is worked out and made at a time
	settings   sync.Mutex                    // one change of raft's settings at a time
	asks       asks                          // what raft has not answered
	gone       chan struct{}                 // closed when raft has stopped, or was given up
	unsound    atomic.Pointer[store.Unsound] // why this seat must not vote any more
}

func soundEntry(data []byte) error {
	_, err := ledger.ReadEntry(0, data)
	return err
}

func soundState(snapshot []byte) error {
	_, err := readState(snapshot)
	if errors.Is(err, wire.ErrUnknown) {
		return store.Newer{Why: err} // it is whole: it stays where it is
	}
	return err
}

// Raft's own timers are slow: a peer that has a reason to ask whether the coordinator lives asks it
// directly, within a heartbeat (see probe.go), and raft's timers are left with what nobody had a
// reason to ask about. A leader sends each voter a heartbeat every 0.75 to 1.5 s (see relax) and
// gives up after two seconds without a majority, still before its peer calls a job HELD (3 s); a
// voter looks every 3.75 to 7.5 s whether it heard of a leader within 3.75 s, so that it stands by
// itself 3.75 to 11.25 s after the last word. That leaves the probe time over long links, too:
// raft's candidate asks whether it may stand while others still know a leader, is refused, and then
// waits so long again without a vote for anybody. Slower would save little: what is left wakes a
// coordinator up five times a second, of about 25. Over links that are slower still, all of that
// grows with the round trip (see terms.patience and seatTransport.heartbeat).
const (
	raftLease    = 2 * time.Second
	raftPatience = 25 * heartbeat / 2
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
	watched := make(chan struct{})
	watch := raft.NewObserver(ch, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	s.raft.RegisterObserver(watch)
	go func() {
		defer close(watched)
		for range ch {
			moved(s)
		}
	}()
	// The observer never blocks raft; a dropped notice is made up for by the next look, a second
	// later.
	s.closeWatch = func() { s.raft.DeregisterObserver(watch); close(ch); <-watched }
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

// asks counts what raft was asked to write and has not answered. When raft stops, it forgets what
// is in its queues, and never answers that (1.8.0): so nothing should be in them by then. The zero
// value is open.
type asks struct {
	mu     sync.Mutex
	under  int
	closed chan struct{} // not nil once nothing more may be asked, and closed when all is answered
}

// begin tells whether raft may be asked; what is must end.
func (a *asks) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed != nil {
		return false
	}
	a.under++
	return true
}

func (a *asks) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.under--; a.under == 0 && a.closed != nil {
		close(a.closed)
	}
}

// close has nothing more asked, and waits for what was; not for ever: a leader that reaches no
// majority does not answer before it is stopped.
func (a *asks) close() {
	a.mu.Lock()
	if a.closed == nil {
		if a.closed = make(chan struct{}); a.under == 0 {
			close(a.closed)
		}
	}
	closed := a.closed
	a.mu.Unlock()
	select {
	case <-closed:
	case <-time.After(lastAnswers):
	}
}

// ask asks raft something and waits for its answer.
func (s *seat) ask(f func() raft.Future) error {
	if !s.asks.begin() {
		return raft.ErrNotLeader
	}
	defer s.asks.end()
	return s.answer(f())
}

// answer waits for what raft says of something it was asked. What it had not said when it stopped,
// it never says.
func (s *seat) answer(f raft.Future) error {
	said := make(chan error, 1)
	go func() { said <- f.Error() }()
	select {
	case err := <-said:
		return err
	case <-s.gone:
	}
	select {
	case err := <-said:
		return err
	default:
		return raft.ErrRaftShutdown
	}
}

// shutdown stops raft and waits for it, within reason: a goroutine of raft's that never ends must
// not keep a peer from stopping.
func (s *seat) shutdown() error {
	defer close(s.gone)
	s.asks.close()
	done := make(chan error, 1)
	go func() { done <- s.raft.Shutdown().Error() }()
	select {
	case err := <-done:
		return err
	case <-time.After(shutdownTimeout):
		return errors.New("raft does not stop; its files are closed regardless")
	}
}

// holds tells whether the seat's own log has it as a server still, for all that a committed
// configuration at index can say: one that the log has gone beyond is history.
func (s *seat) holds(index uint64) bool {
	return index <= s.raft.CommitIndex() && slices.ContainsFunc(votersOf(s.raft.GetConfiguration().Configuration()), s.is)
}

// renewLog makes a snapshot and cuts off all entries before it if there are some without checksums.
func (s *seat) renewLog() {
	if !s.store.Unsummed() {
		return
	}
	_ = s.reload(func(c *raft.ReloadableConfig) { c.TrailingLogs = 0 })
	s.snapshot()
	_ = s.reload(func(c *raft.ReloadableConfig) { c.TrailingLogs = trailingLogs })
}

// reload changes raft's settings, one change at a time.
func (s *seat) reload(f func(*raft.ReloadableConfig)) error {
	s.settings.Lock()
	defer s.settings.Unlock()
	c := s.raft.ReloadableConfig()
	f(&c)
	return s.raft.ReloadConfig(c)
}

// snapshotIfDue asks raft for a snapshot when enough has gathered, in a quiet moment if there is
// one: encoding the state holds up what is being applied.
func (f *fsm) snapshotIfDue(s *seat) {
	b, quiet := f.bytes.Load(), time.Since(time.Unix(0, f.last.Load())) > time.Second
	if b < snapshotBytes/4 || b < snapshotBytes && !quiet || !f.busy.CompareAndSwap(false, true) {
		return
	}
	defer f.busy.Store(false)
	s.snapshot()
}

// snapshot has raft make one. Raft logs what is wrong; the next look tries again. A raft whose
// goroutine met a rotten entry answers nothing any more: who waits here gives its seat up.
func (s *seat) snapshot() {
	made := make(chan struct{})
	go func() {
		defer close(made)
		_ = s.raft.Snapshot().Error()
	}()
	for s.unsound.Load() == nil {
		select {
		case <-made:
			return
		case <-time.After(time.Second):
		}
	}
}

// heardSince tells whether raft had word from a leader after t.
func (s *seat) heardSince(t time.Time) bool { return s.raft.LastContact().After(t) }

// hasLeader tells whether raft knows a leader, this server included.
func (s *seat) hasLeader() bool {
	_, known := s.leader()
	return known
}

// servers is the latest configuration; the leader's is the committed one or about to be.
func (s *seat) servers() ([]Voter, error) {
	f := s.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, err
	}
	return votersOf(f.Configuration()), nil
}
