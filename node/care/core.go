package care

import (
	"cmp"
	"container/heap"
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// LostAfter is how long a keeper is away before its copy counts as lost.
const LostAfter = 10 * time.Minute

// Pauses between tries.
const (
	firstPause = 2 * time.Second
	mostPause  = 5 * time.Minute
	roomPause  = time.Minute      // after there was no room here
	fullPause  = 2 * time.Minute  // after a peer had no room
	busyPause  = 10 * time.Second // after a peer had no time
	nonePause  = time.Hour        // after a peer said that it keeps nothing
	gonePause  = time.Minute      // what is not here, and nobody has, may come back so long
	tellEvery  = 2 * time.Second  // what came meanwhile is told together
	tellPause  = time.Minute      // after it was told, or not
	orphanFor  = 10 * time.Minute // a pin that nothing in the ledger explains
)

// FileSet is files that are kept together under one pin.
type FileSet struct {
	ID      taskstate.TaskID // whose output it is; slot 0: what the tasks of a job need
	Order   uint64           // of its job: older ones first
	Owner   taskstate.PeerID // who submitted it
	Saved   *taskstate.Saved // of an output
	Job     *taskstate.Job   // of inputs
	Partial bool             // of a task that failed: nobody but its keepers brings it
}

func (t *FileSet) keepers() []taskstate.PeerID {
	if t.Saved == nil {
		return nil
	}
	return t.Saved.Keepers
}

// copies is how many there are to be.
func (t *FileSet) copies() int {
	if t.Saved == nil {
		return 0
	}
	return max(1, t.Saved.Keep)
}

// Peer is a member of the cluster.
type Peer struct {
	Here    bool
	Since   time.Time // when it came or went, as far as this peer knows
	Drained bool
	Blind   bool // it may read only what itself submitted, so it keeps nothing else
}

// mayKeep tells whether a peer may be asked to keep a thing.
func (t *FileSet) mayKeep(id taskstate.PeerID, p Peer) bool {
	return p.Here && !p.Drained && (!p.Blind || id == t.Owner)
}

// PinState is how a thing is pinned here.
type PinState int

// Each PinState holds more than the one before.
const (
	NotPinned PinState = iota
	ForNow             // its pin has a time
	Damaged            // pinned, but not all of it is here
	ForGood
)

// Kind is what is to be done with a thing.
type Kind int

// All kinds.
const (
	Nothing    Kind = iota
	Bring           // what of it is not here, and pin it for good
	BringSmall      // the same of little, which is brought with others
	Fasten          // pin for good what is pinned for now
	Drop            // remove its pin
	Ask             // Peer to keep it
	Tell            // the ledger that it is kept here, and not any more by those in Lost
	Release         // it: tell the ledger that it is not kept here any more, and remove its pin
	Lose            // it: tell the ledger that it is not here any more
	kinds
)

// atOnce is how many of each kind are under way at once.
var atOnce = [kinds]int{Bring: 4, BringSmall: 64, Fasten: 256, Drop: 1, Ask: 4, Tell: 4096, Release: 1, Lose: 4096}

// smallBytes is how much is brought with others.
const smallBytes = 1 << 20

// Do is something to be done; Done says what came of it.
type Action struct {
	Kind  Kind
	Thing FileSet
	Peer  taskstate.PeerID   // Ask
	Lost  []taskstate.PeerID // Tell
}

// Outcome is what came of it.
type Outcome int

// All outcomes.
const (
	OK      Outcome = iota
	Failed          // Bring: no reachable peer has it; Ask: it did not work out
	NoRoom          // here, or at the peer that was asked
	Busy            // the peer that was asked
	Refuses         // it keeps nothing for others
)

// Core decides what is to be done about what is kept. Its methods are events; each returns what is
// to be begun because of it. now never goes back.
type Core struct {
	self    taskstate.PeerID
	leaving bool
	tight   bool // there is little room here
	things  map[taskstate.TaskID]*thing
	peers   map[taskstate.PeerID]Peer
	no      map[taskstate.PeerID]decline // peers that are not to be asked for a while
	waiting pile                         // by the time at which they are looked at again
	ready   [kinds]pile                  // in order of older
	running [kinds]int
	began   time.Time
}

// no is what a peer answered that keeps nothing for now.
type decline struct {
	until time.Time
	from  int64 // things with so many bytes or more
	why   Outcome
}

type thing struct {
	FileSet
	known  bool // the ledger says that it is kept
	held   PinState
	others map[taskstate.PeerID]time.Time // that said that they keep it, and the ledger does not know; until when that is believed
	busy   bool
	rotten bool      // it was damaged while it was busy
	again  time.Time // not brought or dropped before
	tell   time.Time // when the ledger is told that it is kept here
	lose   time.Time // when the ledger is told that it is not here, because it cannot be brought back
	few    time.Time // since when there are too few copies, as far as this peer could do something about it
	fails  int
	failed map[taskstate.PeerID]time.Time // peers that could not take this one, and until when they are not asked

	pile *pile // that it is in
	at   int   // its place there
	due  time.Time
	do   Action // when it was looked at last
}

// NewCore is a core that knows nothing yet.
func NewCore(self taskstate.PeerID, now time.Time) *Core {
	c := &Core{
		self: self, things: map[taskstate.TaskID]*thing{}, peers: map[taskstate.PeerID]Peer{},
		no: map[taskstate.PeerID]decline{}, began: now,
	}
	c.waiting.before = func(a, b *thing) bool { return a.due.Before(b.due) }
	for k := range c.ready {
		c.ready[k].before = older
	}
	return c
}

// older is the order in which things have their turn: what could not be brought lets others go
// first, so that what is lost for good holds nothing up.
func older(a, b *thing) bool {
	return cmp.Or(cmp.Compare(a.fails, b.fails), cmp.Compare(a.Order, b.Order), a.ID.Compare(b.ID)) < 0
}

// Keep says that things are kept, as the ledger has it.
func (c *Core) Keep(things []FileSet, now time.Time) []Action {
	for _, x := range things {
		t := c.thing(x.ID)
		if !t.known || !t.Saved.Equal(x.Saved) {
			t.fails, t.again = 0, time.Time{}
			maps.DeleteFunc(t.others, func(p taskstate.PeerID, _ time.Time) bool { return slices.Contains(x.keepers(), p) })
		}
		t.FileSet, t.known = x, true
		c.look(t, now)
	}
	return c.next(now)
}

// Forget says that things are not kept any more. unsure: they may be, by a ledger that has not come
// here yet.
func (c *Core) Forget(ids []taskstate.TaskID, unsure bool, now time.Time) []Action {
	for _, id := range ids {
		t := c.things[id]
		if t == nil {
			continue
		}
		if !t.known && !t.again.IsZero() && unsure {
			continue // it is waited for
		}
		t.known, t.again = false, now
		if unsure {
			t.again = now.Add(orphanFor)
		}
		c.look(t, now)
	}
	return c.next(now)
}

// Holds says how things are pinned here; all others are not.
func (c *Core) Holds(held map[taskstate.TaskID]PinState, now time.Time) []Action {
	for id := range held {
		c.thing(id)
	}
	for id, t := range c.things {
		switch h := held[id]; {
		case t.busy:
			t.rotten = t.rotten || h == Damaged
		case h != t.held:
			t.held, t.fails = h, 0
			c.look(t, now)
		}
	}
	return c.next(now)
}

// Sees says who the members are. Those who come may have what is missing, and may keep something.
func (c *Core) Sees(peers map[taskstate.PeerID]Peer, now time.Time) []Action {
	came := false
	for id, p := range peers {
		if was := c.peers[id]; p.Here && !was.Here {
			came = true
			delete(c.no, id)
		}
	}
	c.peers = peers
	for _, t := range c.things {
		if came && t.known && t.held != ForGood {
			t.fails, t.again = 0, time.Time{}
		}
		c.look(t, now)
	}
	return c.next(now)
}

// Leave says that this peer is about to leave, or that it stays after all.
func (c *Core) Leave(on bool, now time.Time) []Action {
	if c.leaving = on; on {
		clear(c.no)
	}
	for _, t := range c.things {
		if on {
			t.failed = nil
		}
		c.look(t, now)
	}
	return c.next(now)
}

// Tight says that there is little room here, or that there is enough. Copies that are not needed,
// because what they are of has come home and is kept often enough, go then.
func (c *Core) Tight(on bool, now time.Time) []Action {
	c.tight = on
	for _, t := range c.things {
		c.look(t, now)
	}
	return c.next(now)
}

// Done says what came of something.
func (c *Core) Done(d Action, is Outcome, now time.Time) []Action {
	c.running[d.Kind]--
	t := c.things[d.Thing.ID]
	if t == nil {
		return c.next(now)
	}
	t.busy = false
	switch {
	case d.Kind == Ask:
		c.asked(t, d.Peer, is, now)
	case d.Kind == Tell:
		t.tell = now.Truncate(tellEvery).Add(tellPause)
	case d.Kind == Release && is == OK:
		t.held = NotPinned
		c.notMine(t)
	case d.Kind == Release:
		t.tell = now.Add(tellPause)
	case d.Kind == Lose && is == OK:
		c.notMine(t)
	case d.Kind == Lose:
		t.lose = now.Truncate(tellEvery).Add(tellPause)
	case is == OK && d.Kind == Drop:
		t.held, t.fails = NotPinned, 0
	case is == OK:
		t.held, t.fails = ForGood, 0
	default:
		t.again = now.Add(min(mostPause, firstPause<<min(t.fails, 10)))
		soon := gonePause
		if is == NoRoom {
			t.again = now.Add(max(roomPause, t.again.Sub(now)))
			soon = 0
		}
		if lose := now.Truncate(tellEvery).Add(tellEvery + soon); t.lose.IsZero() || lose.Before(t.lose) {
			t.lose = lose
		}
		t.fails++
	}
	if t.rotten && t.held != NotPinned { // what was done may have been about the damage, or not: bringing what is here is little work
		t.held, t.fails, t.again = Damaged, 0, time.Time{}
	}
	t.rotten = false
	c.look(t, now)
	return c.next(now)
}

// notMine is what the ledger will say, now that it was told: this peer is no keeper.
func (c *Core) notMine(t *thing) {
	s := *t.Saved
	s.Keepers = slices.DeleteFunc(slices.Clone(s.Keepers), func(p taskstate.PeerID) bool { return p == c.self })
	t.Saved = &s
}

func (c *Core) asked(t *thing, peer taskstate.PeerID, is Outcome, now time.Time) {
	switch is {
	case OK:
		if t.others == nil {
			t.others = map[taskstate.PeerID]time.Time{}
		}
		t.others[peer] = now.Add(LostAfter) // by then the ledger knows, or the copy may be lost
	case NoRoom:
		c.no[peer] = decline{now.Add(fullPause), t.Saved.Bytes, is}
	case Busy:
		c.no[peer] = decline{now.Add(busyPause), 0, is}
	case Refuses:
		c.no[peer] = decline{now.Add(nonePause), 0, is}
	case Failed:
		if t.failed == nil {
			t.failed = map[taskstate.PeerID]time.Time{}
		}
		t.failed[peer] = now.Add(fullPause)
	}
}

// Tick is for when nothing happened but the time; see Next.
func (c *Core) Tick(now time.Time) []Action { return c.next(now) }

// Next is when there may be something to do although nothing happens; zero: not at all.
func (c *Core) Next() time.Time {
	if len(c.waiting.list) == 0 {
		return time.Time{}
	}
	return c.waiting.list[0].due
}

func (c *Core) thing(id taskstate.TaskID) *thing {
	t := c.things[id]
	if t == nil {
		t = &thing{FileSet: FileSet{ID: id}}
		c.things[id] = t
	}
	return t
}

// look finds out what is to be done with a thing, and when.
func (c *Core) look(t *thing, now time.Time) {
	t.leave()
	if t.busy {
		return
	}
	do, at := c.wants(t, now)
	switch {
	case do.Kind != Nothing && !at.After(now):
		t.do = do
		c.ready[do.Kind].put(t)
	case !at.IsZero():
		t.due = at
		c.waiting.put(t)
	case !t.known && t.held == NotPinned:
		delete(c.things, t.ID)
	}
}

// next begins what there is room for.
func (c *Core) next(now time.Time) (begun []Action) {
	for len(c.waiting.list) > 0 && !c.waiting.list[0].due.After(now) {
		c.look(c.waiting.list[0], now)
	}
	for k := range c.ready {
		for c.running[k] < atOnce[k] && len(c.ready[k].list) > 0 {
			t := c.ready[k].list[0]
			if c.look(t, now); t.pile != &c.ready[k] || t.do.Kind != Kind(k) { // who can be asked may have changed
				continue
			}
			t.leave()
			t.busy = true
			c.running[k]++
			t.do.Thing = t.FileSet
			begun = append(begun, t.do)
		}
	}
	return begun
}

// mine tells whether a thing is to be here.
func (c *Core) mine(t *thing) bool {
	switch {
	case t.Saved == nil, t.held > NotPinned, slices.Contains(t.keepers(), c.self):
		return true
	}
	return t.Owner == c.self && !t.Partial && t.copies() > 1
}

// wants is what is to be done with a thing, and not before when; zero: at once, or not at all.
func (c *Core) wants(t *thing, now time.Time) (do Action, at time.Time) {
	switch {
	case !t.known && t.held == NotPinned:
		return do, at
	case !t.known && t.again.IsZero(): // nobody has said yet
		return do, at
	case !t.known:
		return Action{Kind: Drop}, t.again
	case c.mine(t) && (t.held == NotPinned || t.held == Damaged):
		return c.bring(t, now)
	}
	t.lose = time.Time{}
	switch {
	case t.held == ForNow:
		return Action{Kind: Fasten}, t.again
	case t.held != ForGood || t.Saved == nil:
		return do, at
	case slices.Contains(t.keepers(), c.self) && c.tight && c.spare(t):
		return Action{Kind: Release}, t.tell
	case slices.Contains(t.keepers(), c.self) && !c.outlives(t, now):
		t.tell = time.Time{}
		return c.repair(t, now)
	}
	if t.tell.IsZero() {
		t.tell = now.Truncate(tellEvery).Add(tellEvery)
	}
	if !t.tell.After(now) {
		return Action{Kind: Tell, Lost: c.lost(t, now)}, at
	}
	if do, at = c.repair(t, now); do.Kind == Nothing {
		at = sooner(at, t.tell)
	}
	return do, at
}

// bring is what is to be done with a thing that is to be here and is not. Where that cannot be, the
// others have to know that one of those on whom they count is none: they make another copy.
func (c *Core) bring(t *thing, now time.Time) (do Action, at time.Time) {
	do, at = Action{Kind: Bring}, t.again
	if t.Saved != nil && t.Saved.Bytes <= smallBytes {
		do.Kind = BringSmall
	}
	switch {
	case t.lose.IsZero() || !slices.Contains(t.keepers(), c.self):
	case t.held == Damaged && len(t.keepers()) == 1: // what is left of it is all that there is
	case !t.lose.After(now):
		return Action{Kind: Lose}, time.Time{}
	case at.After(now):
		at = sooner(at, t.lose)
	}
	return do, at
}

// spare tells whether a copy is not needed here: its submitter has it, and without this one there
// are as many as there are to be. The ledger has the last word, so that two do not let go at once.
func (c *Core) spare(t *thing) bool {
	n, home := 0, false
	for _, id := range t.keepers() {
		if p := c.peers[id]; id != c.self && p.Here && !p.Drained {
			n, home = n+1, home || id == t.Owner
		}
	}
	return home && n >= t.copies()
}

// outlives tells whether it falls to this peer to tell that a keeper has left for good, so that its
// copy is not shown any more where no other is made: there are enough without it, or nobody can
// make one.
func (c *Core) outlives(t *thing, now time.Time) bool {
	if !slices.ContainsFunc(t.keepers(), c.left) {
		return false
	}
	_, first, _ := c.count(t, now)
	return first
}

// left tells whether another peer is no member any more.
func (c *Core) left(id taskstate.PeerID) bool {
	_, member := c.peers[id]
	return !member && id != c.self
}

// lost are the keepers whose copies do not count any more.
func (c *Core) lost(t *thing, now time.Time) (lost []taskstate.PeerID) {
	for _, id := range t.keepers() {
		if p := c.peers[id]; c.left(id) || id != c.self && !p.Here && !c.lostAt(p).After(now) {
			lost = append(lost, id)
		}
	}
	return lost
}

// lostAt is when the copies of a peer that is away count as lost.
func (c *Core) lostAt(p Peer) time.Time {
	since := p.Since
	if since.Before(c.began) {
		since = c.began // it may have been here while this peer was not
	}
	return since.Add(LostAfter)
}

// repair is whom to ask to keep a thing that this peer keeps, if that falls to it.
func (c *Core) repair(t *thing, now time.Time) (do Action, at time.Time) {
	n, first, at := c.count(t, now)
	if n >= t.copies() {
		t.few = time.Time{}
		return do, at
	}
	if t.few.IsZero() {
		t.few = now
	}
	if turn := t.few.Add(LostAfter); !first && turn.After(now) { // the first may have lost its copy
		return do, sooner(at, turn)
	}
	var best taskstate.PeerID
	for id, p := range c.peers {
		if id == c.self || !t.mayKeep(id, p) || slices.Contains(t.keepers(), id) || t.others[id].After(now) {
			continue
		}
		until := t.failed[id]
		if no, said := c.no[id]; said && t.Saved.Bytes >= no.from && no.until.After(until) {
			until = no.until
		}
		if until.After(now) {
			at = sooner(at, until)
			continue
		}
		if best == "" || c.better(t, id, best) {
			best = id
		}
	}
	if best == "" {
		return do, at
	}
	return Action{Kind: Ask, Peer: best}, time.Time{}
}

// count is how many copies of a thing count, this peer's own among them, whether this peer is the
// first of those who are here and have one, and when that may be different although nothing
// happens.
func (c *Core) count(t *thing, now time.Time) (n int, first bool, at time.Time) {
	first = true
	mine := false
	maps.DeleteFunc(t.others, func(_ taskstate.PeerID, until time.Time) bool { return !until.After(now) })
	for _, id := range slices.Concat(t.keepers(), slices.Sorted(maps.Keys(t.others))) {
		if id == c.self {
			mine = true
			continue
		}
		if until, only := t.others[id]; only {
			at = sooner(at, until)
		}
		p, member := c.peers[id]
		switch {
		case !member:
		case p.Here:
			if !p.Drained {
				n++
			}
			first = first && mine
		default:
			if lost := c.lostAt(p); lost.After(now) {
				n++
				at = sooner(at, lost)
			}
		}
	}
	if !c.leaving && !c.peers[c.self].Drained {
		n++
	}
	return n, first, at
}

// Row is how it stands with a thing.
type Row struct {
	FileSet
	Held      PinState
	Copies    int                // that count, this peer's own among them
	Elsewhere int                // on others that are here and stay
	Not       []taskstate.PeerID // that are here and said that they cannot keep it
	Busy      bool               // one of them has only no time now
	Alone     bool               // there is nobody else who could
}

// Rows yields the things that are to be here, in no order.
func (c *Core) Rows(now time.Time) iter.Seq[Row] {
	return func(yield func(Row) bool) {
		for _, t := range c.things {
			if t.known && c.mine(t) && !yield(c.row(t, now)) {
				return
			}
		}
	}
}

func (c *Core) row(t *thing, now time.Time) Row {
	r := Row{FileSet: t.FileSet, Held: t.held, Alone: true}
	r.Copies, _, _ = c.count(t, now)
	if t.held == NotPinned || t.held == Damaged {
		r.Copies--
	}
	for id, p := range c.peers {
		kept := slices.Contains(t.keepers(), id) || t.others[id].After(now)
		if id == c.self || !p.Here || p.Drained || !kept && !t.mayKeep(id, p) {
			continue
		}
		r.Alone = false
		switch no, said := c.no[id]; {
		case kept:
			r.Elsewhere++
		case said && t.Saved != nil && t.Saved.Bytes >= no.from, !t.failed[id].IsZero():
			r.Not = append(r.Not, id)
			r.Busy = r.Busy || said && no.why == Busy
		}
	}
	slices.Sort(r.Not)
	return r
}

// Unsettled tells whether it is about to be known that something a task left is kept here: it is
// pinned, and the ledger has not said yet what is to become of it, because the task has just ended,
// or is about to; or the ledger says that it is kept here, and it is just being looked for.
func (c *Core) Unsettled() bool {
	for _, t := range c.things {
		switch {
		case t.ID.Slot == 0:
		case !t.known && t.held != NotPinned && t.again.IsZero(),
			t.known && t.held == NotPinned && t.busy && slices.Contains(t.keepers(), c.self):
			return true
		}
	}
	return false
}

// Idle tells whether nothing is under way, nor ready to be begun.
func (c *Core) Idle(k Kind) bool { return c.running[k] == 0 && len(c.ready[k].list) == 0 }

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// better tells whether one peer is to be asked before another: who submitted the job, then
// whoever the task's name chooses.
func (c *Core) better(t *thing, a, b taskstate.PeerID) bool {
	if (a == t.Owner) != (b == t.Owner) {
		return a == t.Owner
	}
	x, y := weight(t.ID, a), weight(t.ID, b)
	return x > y || x == y && a < b
}

func weight(id taskstate.TaskID, peer taskstate.PeerID) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id.String()))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(peer))
	x := h.Sum64() // its low bits hardly depend on what came first
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

// pile is things in some order.
type pile struct {
	list   []*thing
	before func(a, b *thing) bool
}

func (p *pile) put(t *thing) {
	t.pile = p
	heap.Push(p, t)
}

// leave takes a thing out of the pile it is in.
func (t *thing) leave() {
	if t.pile != nil {
		heap.Remove(t.pile, t.at)
		t.pile = nil
	}
}

func (p *pile) Len() int           { return len(p.list) }
func (p *pile) Less(i, j int) bool { return p.before(p.list[i], p.list[j]) }

func (p *pile) Swap(i, j int) {
	p.list[i], p.list[j] = p.list[j], p.list[i]
	p.list[i].at, p.list[j].at = i, j
}

// Push implements heap.Interface.
func (p *pile) Push(x any) {
	t := x.(*thing)
	t.at = len(p.list)
	p.list = append(p.list, t)
}

// Pop implements heap.Interface.
func (p *pile) Pop() any {
	last := len(p.list) - 1
	t := p.list[last]
	p.list[last] = nil
	p.list = p.list[:last]
	return t
}
