package quorum

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/coveyproject/covey/dispatch/ledger/quorum/store"
	"github.com/coveyproject/covey/taskstate"
)

// identity is this peer's place among the servers of the ledger from seat to seat. Each seat has an
// incarnation of its own: it is part of the server's name, so that what was sent to a seat that was
// lost, or given up, never reaches the one after it. It has nothing to do with the incarnation of
// the worker's journal. Only seating changes it; what others say that they lost is entered by
// the peer that hears it.
type identity struct {
	cfg   *Config
	wakes *wakes

	mu        sync.Mutex
	inc       taskstate.Incarnation         // of the seat, or of the next one
	lost      *LostSeat                     // the seat this peer had to give up, until it is one of the voters again, or its old place is gone
	marked    bool                          // the memo says that there is a mark of the seat
	heard     map[taskstate.PeerID]LostSeat // what other peers said that they lost
	bound     logBound
	suspended bool   // see Suspend
	waits     uint64 // generation of the seat that waits for Resume, 0 if there is none
}

// begin takes over what the memo says.
func (t *identity) begin(m memo) {
	t.inc, t.lost, t.marked, t.bound = m.Incarnation, m.Lost, m.Marked, logBound{generation: m.Seat, index: m.Log}
}

// server is this peer's seat, or the one it would take.
func (t *identity) server() Voter {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Voter{Peer: t.cfg.Self, Incarnation: t.inc}
}

func (t *identity) loss() *LostSeat {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

// lossForOthers is what this peer tells about the seat it lost.
func (t *identity) lossForOthers() *LostSeat {
	l := t.loss()
	if l == nil {
		return nil
	}
	out := *l
	out.Folder = ""
	return &out
}

// hearLoss notes what a peer says about its own seat; nil is that it lost none.
func (t *identity) hearLoss(peer taskstate.PeerID, l *LostSeat) {
	if l != nil {
		of, _, err := parseServer(l.Server)
		if err != nil || of != peer || len(l.Server) > maxLossText || len(l.Why) > maxLossText {
			return
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if l == nil {
		delete(t.heard, peer)
		return
	}
	if t.heard == nil {
		t.heard = map[taskstate.PeerID]LostSeat{}
	}
	if _, known := t.heard[peer]; known || len(t.heard) < maxContacts {
		t.heard[peer] = *l
	}
}

// maxLossText bounds what others say about their losses.
const maxLossText = 2 << 10

func (t *identity) losses(voters []Voter) (out []LostSeat) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost != nil {
		out = append(out, *t.lost)
	}
	for _, l := range t.heard {
		if slices.ContainsFunc(voters, func(v Voter) bool { return v.Voting && v.server() == l.Server }) {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b LostSeat) int { return cmp.Compare(a.Server, b.Server) })
	return out
}

// redraw gives the next seat an incarnation of its own. The caller holds life, and saves the memo.
func (t *identity) redraw() {
	inc := t.cfg.Draw() // whoever draws may ask for the seat meanwhile
	t.mu.Lock()
	t.inc = inc
	t.mu.Unlock()
	t.wakes.reseated.fire()
}

// lose notes that the seat of a generation is lost, and draws an incarnation for the next.
func (t *identity) lose(generation uint64, u *store.Unsound, held uint64, aside string) {
	t.mu.Lock()
	t.lost = &LostSeat{
		Server: Voter{Peer: t.cfg.Self, Incarnation: t.inc}.server(), Generation: generation, Held: max(u.Held, held), Left: u.Left,
		Why: u.Error(), At: t.cfg.Now().UnixMilli(), Folder: aside,
	}
	if t.bound.generation == generation {
		t.lost.Held = max(t.lost.Held, t.bound.index)
	}
	t.mu.Unlock()
	t.redraw()
}

// forgetLoss tells whether the loss is made good: the coordinator knows that the old seat is
// gone, or this peer belongs to a newer ledger.
func (t *identity) forgetLoss(generation uint64, gone func(server string) bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.lost; l == nil || generation <= l.Generation && !gone(l.Server) {
		return false
	}
	t.lost = nil
	return true
}

// fresh forgets how far a log reached: that of the next seat begins empty.
func (t *identity) fresh() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bound, t.marked = logBound{}, false
}

// reaches is how far the log of a seat that is opened reaches at least, and whether there is a mark
// of it; from now on it has one of its own.
func (t *identity) reaches(generation uint64) (index uint64, marked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bound.generation == generation {
		index = t.bound.index
	}
	marked, t.marked = t.marked, false
	return index, marked
}

// memo is what is to be remembered of the seat that is open, if one is. It asks for that with mu
// held: a seat is closed before the next incarnation is drawn, so the two always belong together.
func (t *identity) memo(open func() *seat) memo {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := memo{Incarnation: t.inc, Lost: t.lost}
	if s := open(); s != nil {
		m.Seat, m.Marked = s.generation, true
		t.bound.rise(s)
		m.Log = t.bound.index
	} else if t.waits != 0 {
		m.Seat, m.Marked, m.Log = t.waits, true, t.bound.index
	}
	return m
}

// suspend begins a time without a seat; false if it has begun.
func (t *identity) suspend(s *seat) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.suspended {
		return false
	}
	t.suspended, t.waits = true, 0
	if s != nil {
		t.waits = s.generation
		t.bound.rise(s)
	}
	return true
}

// resume ends it, and names the generation of the seat that waited, 0 if none did.
func (t *identity) resume() (waited uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	waited, t.suspended, t.waits = t.waits, false, 0
	return waited
}

func (t *identity) isSuspended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.suspended
}

// differs is called when it is found that the replica is wrong: so is the seat, and another copy is
// fetched.
func (t *seating) differs(said string) {
	if s := t.place.seat.Load(); s != nil {
		t.unsound(s, errors.New(said))
	}
	t.wakes.follow.Set()
}

// keepIdentity gives up a seat that was found to be unsound, forgets a loss that was made good, and
// remembers the voters for messages.
func (t *seating) keepIdentity() {
	if index, _, _ := t.dir.configuration(); index != t.noted {
		if index > t.noted {
			t.remember("cannot remember the voters")
		}
		t.noted = index
	}
	s := t.place.seat.Load()
	if s == nil || s.unsound.Load() == nil {
		t.forgetLoss()
		return
	}
	t.life.Lock()
	defer t.life.Unlock()
	if t.place.seat.Load() != s {
		return
	}
	if err := t.lose(s.generation, s.unsound.Load()); err != nil {
		t.cfg.Log.Error("the seat among the voters was given up, with trouble", "err", err)
	}
	t.wakes.follow.Set()
}

// forgetLoss: the coordinator knows that the old seat is gone, or this peer belongs to a newer
// ledger.
func (t *seating) forgetLoss() {
	_, _, led := t.dir.coordinator()
	index, _, voters := t.dir.configuration()
	over := t.identity.forgetLoss(t.place.generation(), func(server string) bool {
		return led && index > 0 && !slices.ContainsFunc(voters, func(v Voter) bool { return v.server() == server })
	})
	if over {
		t.cfg.Log.Info("the seat that was lost is out of the configuration")
		t.wakes.reseated.fire()
		t.remember("cannot remember that")
	}
}

// saveMemo writes the memo, all of it or nothing.
func (t *seating) saveMemo() error {
	t.files.Lock() // what is newer is written later, too
	defer t.files.Unlock()
	m := t.identity.memo(t.place.seat.Load)
	m.Contacts, m.Voters = t.dir.ask(), t.dir.list()
	m.Contacts = m.Contacts[max(0, len(m.Contacts)-maxContacts):]
	return t.folder.writeMemo(m)
}

// saveCopy writes the copy for questions without a quorum.
func (t *seating) saveCopy() error {
	t.files.Lock()
	defer t.files.Unlock()
	return t.folder.keep(t.place.rep)
}

// remember is saveMemo for what can do without.
func (t *seating) remember(trouble string) {
	if err := t.saveMemo(); err != nil {
		t.cfg.Log.Warn(trouble, "err", err)
	}
}

// setContacts remembers the voters on disk, so that this peer finds the cluster again after a
// restart.
func (t *seating) setContacts(vs []Voter) {
	if t.dir.setContacts(vs) {
		t.remember("cannot remember the voters")
	}
}

// leaderMoved hears from raft that there is another leader, or none. Without one no peer
// coordinates as far as this voter knows; with one, the follower asks it for the epoch.
func (t *seating) leaderMoved(s *seat) {
	peer, ok := s.leader()
	if ok {
		t.dir.hear(peer)
	}
	mine := t.place.seat.Load() == s && slices.ContainsFunc(t.dir.list(), func(v Voter) bool { return v.Voting && s.is(v) })
	coord, _, _ := t.dir.coordinator()
	lost := mine && coord != "" && coord != t.cfg.Self && coord != peer
	if lost || !ok && mine && t.terms.lead.Load() == nil {
		t.dir.setCoordinator("", taskstate.Epoch{})
	}
	if !ok {
		t.wakes.suspect.Set() // from now on this peer looks by itself
	}
	t.wakes.follow.Set()
}

// seating is this peer's way from seat to seat: it opens and closes the one there is, checks what
// its disk says, gives it up when it was taken away or cannot be believed, and takes another. It
// alone changes which seat there is.
type seating struct {
	cfg       *Config
	place     *ownSeat
	feed      *feed
	dir       *directory
	wakes     *wakes
	authority *authority
	identity  *identity
	folder    folder
	marks     *seenMarks
	terms     *terms
	stale     *staleness
	asides    *asides
	disk      parker // of diskWatch

	life  longLock   // one start or stop of a seat at a time
	files sync.Mutex // one writer of the memo and the copy at a time
	noted uint64     // index of the voters the memo was asked to keep last; of keepIdentity
}
