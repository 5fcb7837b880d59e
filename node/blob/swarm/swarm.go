package swarm

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/coveyproject/covey/node/blob/piece"
)

const (
	// Strikes end a peer.
	Strikes = 3
	// MaxBlocks is how many may be under way from one peer, however small they are.
	MaxBlocks = 256
	// Late is how old a question must be before its piece is asked of a second peer.
	Late = 2 * time.Second
	// Stalled is how old a question must be before nothing is left to the peer it was asked of.
	Stalled = time.Second
)

// Piece is one of a blob's pieces.
type Piece struct {
	Root  piece.Root
	Index int
}

// Block is a part of a piece, to be asked for.
type Block struct {
	Piece
	Off int64 // in the blob
	N   int
}

// Outcome says what a block that arrived is.
type Outcome int

const (
	Part  Outcome = iota // more of its piece is to come
	Whole                // the last of its piece, which is to be checked now
	Stale                // of a piece that is not wanted from that peer any more
)

// Swarm is the state. It is not for concurrent use. Of peers and blobs it does not know, nothing
// happens.
type Swarm struct {
	seed  uint64
	dice  *rand.Rand
	apart bool
	blobs map[piece.Root]*blob
	open  []*blob // those that may have pieces nobody is asked for, in the order they were wanted
	count int     // blobs that were wanted so far
	peers map[string]*peer
	tasks int // pieces that are being asked for
	free  int // pieces that nobody is asked for
}

// blob is one that is wanted.
type blob struct {
	root  piece.Root
	size  int64
	done  *piece.Bitmap
	taken *piece.Bitmap // done, or being asked for
	tasks map[int][]*task
	open  bool   // it is in the list
	first int    // where to begin
	order int    // the how manieth it is
	only  string // until its last piece is here, that is asked for, of this peer
}

// task is a piece that is asked of one peer.
type task struct {
	blob  *blob
	index int
	peer  *peer
	since time.Time
	asked int // bytes
	got   int
	over  bool // whatever comes of it is not wanted
}

// peer is one that can be asked.
type peer struct {
	name    string
	window  window
	under   int     // bytes under way
	queue   []asked // what is under way, oldest first
	current *task   // of which not everything was asked for
	tasks   map[*task]struct{}
	has     map[piece.Root]*piece.Bitmap
	next    map[piece.Root]int  // where to look for the next piece; not there: nothing was asked of it
	fellow  map[piece.Root]bool // it had only a part when it was first heard of
	strikes int
	barred  map[Piece]bool // what it sent wrong
}

// asked is a block under way.
type asked struct {
	Block
	task *task
	mark mark
}

// New makes a swarm that knows nothing. Fetchers with different seeds begin at different pieces.
func New(seed uint64) *Swarm {
	return &Swarm{seed: seed, dice: rand.New(rand.NewPCG(seed, 0)), blobs: map[piece.Root]*blob{}, peers: map[string]*peer{}}
}

// Apart has it begin at a place of its own also where it knows of one peer only: others fetch the
// same at this time, and will have something for each other.
func (s *Swarm) Apart() { s.apart = true }

// Want adds a blob; done, which the swarm keeps, is what of it is here. With a name, the last piece
// is asked for first, of that peer only: it has to show that the blob is as it said.
func (s *Swarm) Want(root piece.Root, size int64, done *piece.Bitmap, only string) {
	if s.blobs[root] != nil || done.Full() {
		return
	}
	b := &blob{root: root, size: size, done: done, taken: piece.NewBitmap(done.Len()), tasks: map[int][]*task{}, order: s.count}
	s.count++
	for i := range done.Len() {
		if done.Has(i) {
			b.taken.Set(i)
		}
	}
	first, _ := bits.Mul64(s.seed^binary.LittleEndian.Uint64(root[:]), uint64(done.Len()))
	b.first = int(first)
	if !done.Has(done.Len() - 1) {
		b.only = only
	}
	s.blobs[root] = b
	s.free += done.Len() - done.Have()
	s.reopen(b)
}

// Wanted is how many blobs are not here yet.
func (s *Swarm) Wanted() int { return len(s.blobs) }

// Drop forgets a blob. What is under way of it will be Stale.
func (s *Swarm) Drop(root piece.Root) {
	b := s.blobs[root]
	if b == nil {
		return
	}
	for _, list := range b.tasks {
		for _, t := range list {
			s.end(t)
		}
	}
	s.free -= b.taken.Len() - b.taken.Have()
	b.taken = b.done // the list is cleaned when it is next looked through
	s.forget(root)
}

func (s *Swarm) forget(root piece.Root) {
	delete(s.blobs, root)
	for _, p := range s.peers {
		delete(p.has, root)
		delete(p.next, root)
		delete(p.fellow, root)
	}
}

// Join adds a peer that can be asked; way is how long a short question and its answer took, 0 if
// that is not known. A peer that is there already is not changed.
func (s *Swarm) Join(name string, way time.Duration, now time.Time) {
	if s.peers[name] == nil {
		s.peers[name] = &peer{name: name, window: newWindow(way, now), tasks: map[*task]struct{}{}, has: map[piece.Root]*piece.Bitmap{}, next: map[piece.Root]int{}, fellow: map[piece.Root]bool{}, barred: map[Piece]bool{}}
	}
}

// Leave takes a peer away: nothing that is under way from it will come.
func (s *Swarm) Leave(name string) {
	p := s.peers[name]
	if p == nil {
		return
	}
	delete(s.peers, name)
	for t := range p.tasks {
		s.end(t)
	}
}

// Holds says which pieces of a blob a peer has now; nil: none.
func (s *Swarm) Holds(name string, root piece.Root, has *piece.Bitmap) {
	p, b := s.peers[name], s.blobs[root]
	switch {
	case p == nil:
	case b == nil || has == nil || has.Len() != b.done.Len():
		delete(p.has, root)
	default:
		p.has[root] = has
		p.fellow[root] = p.fellow[root] || !has.Full()
	}
}

// Useful tells whether a peer has a piece that is not here yet and that it may be asked for.
func (s *Swarm) Useful(name string) bool {
	p := s.peers[name]
	if p == nil || p.strikes >= Strikes {
		return false
	}
	for root, has := range p.has {
		b := s.blobs[root]
		for i := b.done.Missing(0); i >= 0; i = b.done.Missing(i + 1) {
			if has.Has(i) && !p.barred[Piece{root, i}] {
				return true
			}
		}
	}
	return false
}

// Window is how many bytes may be under way from a peer.
func (s *Swarm) Window(name string) int {
	if p := s.peers[name]; p != nil {
		return p.window.size
	}
	return 0
}

// Under is how many are.
func (s *Swarm) Under(name string) int {
	if p := s.peers[name]; p != nil {
		return p.under
	}
	return 0
}

// Next is what to ask of a peer now. Where there is room in its window and nothing to ask, there
// may be after Late.
func (s *Swarm) Next(name string, now time.Time) (Block, bool) {
	p := s.peers[name]
	if p == nil || len(p.queue) >= MaxBlocks {
		return Block{}, false
	}
	if p.under >= p.window.size {
		return Block{}, false
	}
	if p.current == nil {
		p.current = s.pick(p, now)
	}
	t := p.current
	if t == nil {
		return Block{}, false
	}
	off, whole := piece.Span(t.blob.size, t.index)
	n := min(p.window.block(), whole-t.asked)
	block := Block{Piece{t.blob.root, t.index}, off + int64(t.asked), n}
	p.queue = append(p.queue, asked{block, t, p.window.mark(now)})
	p.under += n
	if t.asked += n; t.asked == whole {
		p.current = nil
	}
	return block, true
}

// Arrived is called when the oldest block asked of a peer came. It is false if none was asked for.
func (s *Swarm) Arrived(name string, now time.Time) (Block, Outcome, bool) {
	p := s.peers[name]
	a, ok := p.pop()
	if !ok {
		return Block{}, Stale, false
	}
	p.window.arrived(a.N, a.mark, now)
	t := a.task
	t.got += a.N
	_, whole := piece.Span(t.blob.size, t.index)
	switch {
	case t.over:
		return a.Block, Stale, true
	case t.got == whole:
		return a.Block, Whole, true
	}
	return a.Block, Part, true
}

// Oldest is the block that comes next from a peer.
func (s *Swarm) Oldest(name string) (Block, bool) {
	p := s.peers[name]
	if p == nil || len(p.queue) == 0 {
		return Block{}, false
	}
	return p.queue[0].Block, true
}

// Refused is called when a peer says that the oldest block asked of it will not come. It is not
// asked for that blob again, unless it says once more that it has it.
func (s *Swarm) Refused(name string) {
	p := s.peers[name]
	if a, ok := p.pop(); ok {
		s.end(a.task)
		delete(p.has, a.Root)
	}
}

// Checked says whether a piece that was Whole from a peer was right. complete: it was the blob's
// last, which is wanted no more. banned: the peer is asked for nothing any more.
func (s *Swarm) Checked(name string, at Piece, right bool) (complete, banned bool) {
	p, b := s.peers[name], s.blobs[at.Root]
	if p != nil && !right {
		p.strikes++
		p.barred[at] = true
		banned = p.strikes >= Strikes
	}
	if b == nil || at.Index < 0 || at.Index >= b.done.Len() {
		return false, banned
	}
	if !right {
		if i := slices.IndexFunc(b.tasks[at.Index], func(t *task) bool { return t.peer == p }); i >= 0 {
			s.end(b.tasks[at.Index][i])
		}
		return false, banned
	}
	if b.done.Has(at.Index) {
		return false, banned
	}
	if !b.taken.Has(at.Index) {
		b.taken.Set(at.Index) // its peer left meanwhile
		s.free--
	}
	b.done.Set(at.Index)
	if at.Index == b.done.Len()-1 {
		b.only = ""
	}
	for _, t := range b.tasks[at.Index] {
		s.end(t)
	}
	if b.done.Full() {
		s.forget(at.Root)
		return true, banned
	}
	return false, banned
}

// end is the end of a task, whatever came of it.
func (s *Swarm) end(t *task) {
	if t.over {
		return
	}
	t.over = true
	s.tasks--
	delete(t.peer.tasks, t)
	if t.peer.current == t {
		t.peer.current = nil
	}
	b := t.blob
	rest := slices.DeleteFunc(slices.Clone(b.tasks[t.index]), func(o *task) bool { return o == t })
	if len(rest) > 0 {
		b.tasks[t.index] = rest
		return
	}
	delete(b.tasks, t.index)
	if !b.done.Has(t.index) {
		b.taken.Clear(t.index)
		s.free++
		s.reopen(b)
	}
}

func (s *Swarm) reopen(b *blob) {
	if !b.open {
		b.open = true
		i, _ := slices.BinarySearchFunc(s.open, b, func(x, y *blob) int { return cmp.Compare(x.order, y.order) })
		s.open = slices.Insert(s.open, i, b)
	}
}

// pick begins with a piece: one that nobody is asked for, or one that is late.
func (s *Swarm) pick(p *peer, now time.Time) *task {
	if p.strikes >= Strikes {
		return nil
	}
	if len(s.peers) > 1 && len(p.tasks) > 1+(s.tasks+s.free)/(2*len(s.peers)) {
		return nil // what little is left is for the others too
	}
	for k := 0; k < len(s.open); k++ {
		b := s.open[k]
		if b.taken.Full() || s.blobs[b.root] != b {
			b.open = false
			s.open = append(s.open[:k], s.open[k+1:]...)
			k--
			continue
		}
		if i := s.unasked(p, b, now); i >= 0 {
			b.taken.Set(i)
			s.free--
			return s.begin(p, b, i, now)
		}
	}
	if s.free > 0 && len(p.queue) > 0 {
		return nil
	}
	if late := s.late(p, now); late != nil {
		return s.begin(p, late.blob, late.index, now)
	}
	return nil
}

// late is the oldest question that a peer could answer in place of the one that was asked.
func (s *Swarm) late(p *peer, now time.Time) (late *task) {
	for root := range p.has {
		b := s.blobs[root]
		if b.only != "" {
			continue
		}
		for i, list := range b.tasks {
			t := list[0]
			if len(list) == 1 && t.peer != p && now.Sub(t.since) >= Late && p.may(b, i) && (late == nil || t.before(late)) {
				late = t
			}
		}
	}
	return late
}

// before orders questions by their age; what is equally old, by what was asked for.
func (t *task) before(o *task) bool {
	if !t.since.Equal(o.since) {
		return t.since.Before(o.since)
	}
	if c := bytes.Compare(t.blob.root[:], o.blob.root[:]); c != 0 {
		return c < 0
	}
	return t.index < o.index
}

func (s *Swarm) begin(p *peer, b *blob, i int, now time.Time) *task {
	t := &task{blob: b, index: i, peer: p, since: now}
	b.tasks[i] = append(b.tasks[i], t)
	s.tasks++
	p.tasks[t] = struct{}{}
	return t
}

// unasked is a piece of a blob that a peer has and nobody is asked for; -1: none. Alone, a peer
// reads its disk from front to back. Where others fetch the same, what few of them have goes first:
// it is what they want from here. What they have is left to them by whoever had all of it from the
// start, as long as they give it about as fast: it has others to give to.
func (s *Swarm) unasked(p *peer, b *blob, now time.Time) int {
	if p.has[b.root] == nil {
		return -1
	}
	if last := b.done.Len() - 1; b.only != "" {
		if b.only == p.name && !b.taken.Has(last) && p.may(b, last) {
			return last
		}
		return -1
	}
	from, begun := p.next[b.root]
	switch {
	case len(s.peers) == 1 && !s.apart:
		from = 0
	case !begun:
		from = b.first
	}
	fellows, fast := s.fellows(p, b, now)
	i, met := p.rarest(b, from, fellows)
	for k := from - beside; begun && k < from; k++ {
		met = met || count(fellows, b, k) > 0
	}
	if met {
		// Going on behind or beside a fellow would be to fetch what it fetches, as long as news of
		// that are late.
		if k, _ := p.rarest(b, s.dice.IntN(b.done.Len()), fellows); count(fellows, b, k) <= count(fellows, b, i) {
			i = k
		}
	}
	if i < 0 || fast && !p.fellow[b.root] && count(fellows, b, i) > 0 {
		return -1
	}
	p.next[b.root] = i + 1
	return i
}

// fellows are the other peers that fetch a blob as this one does, or did, but for those that stall.
// fast: together they give at least half as much as p does.
func (s *Swarm) fellows(p *peer, b *blob, now time.Time) (out []*peer, fast bool) {
	rate := 0.0
	for _, o := range s.peers {
		if o == p || !o.fellow[b.root] || o.has[b.root] == nil || len(o.queue) > 0 && now.Sub(o.queue[0].mark.at) > Stalled {
			continue
		}
		out = append(out, o)
		fast = fast || o.window.got == 0 // nobody knows yet
		rate += o.window.mean()
	}
	return out, len(out) > 0 && (fast || rate >= p.window.mean()/2)
}

// count is how many of those have a piece.
func count(of []*peer, b *blob, i int) (n int) {
	for _, o := range of {
		if o.may(b, i) {
			n++
		}
	}
	return n
}

// beside is how many pieces before the next one tell, by being with a fellow, that it goes the same
// way.
const beside = 4

// maxLook is how many pieces are looked at to find one that few have.
const maxLook = 1024

// rarest is the next piece, counted from one on, that a peer can be asked for and fewest fellows
// have, of those that are looked at; -1: none. met: others were passed because more have them.
func (p *peer) rarest(b *blob, from int, fellows []*peer) (best int, met bool) {
	best, least, looked := -1, len(fellows)+1, 0
	for _, part := range [2][2]int{{from, b.taken.Len()}, {0, from}} {
		for i := b.taken.Missing(part[0]); i >= 0 && i < part[1]; i = b.taken.Missing(i + 1) {
			if !p.may(b, i) {
				continue
			}
			if n := count(fellows, b, i); n < least {
				best, least, met = i, n, best >= 0 || met
			}
			if looked++; least == 0 || looked >= maxLook {
				return best, met
			}
		}
	}
	return best, met
}

// may tells whether a peer can be asked for a piece.
func (p *peer) may(b *blob, i int) bool {
	return p.has[b.root].Has(i) && (p.strikes == 0 || !p.barred[Piece{b.root, i}])
}

// pop takes the oldest block under way.
func (p *peer) pop() (asked, bool) {
	if p == nil || len(p.queue) == 0 {
		return asked{}, false
	}
	a := p.queue[0]
	p.queue = p.queue[1:]
	p.under -= a.N
	return a, true
}
