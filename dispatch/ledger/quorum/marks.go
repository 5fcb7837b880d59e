package quorum

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"covey/dispatch/ledger/quorum/mark"
	"covey/dispatch/ledger/quorum/store"
	"covey/taskstate"
)

// seen is what this peer can prove about how far the voters had acknowledged: their own words,
// signed. They travel with the greetings of raft's streams, before a vote can, with the questions
// among voters, and to followers and back. A voter whose folder was turned back, its own mark and
// all, hears of it from the first one that knows better; and nobody who lies can stop a voter,
// because what counts against it is its own signature.
type seen struct {
	mu     sync.Mutex
	book   mark.Book
	dirty  bool
	saved  time.Time
	signed mark.Signed // the newest own mark that was signed
}

// maxShown bounds the marks in one frame.
const maxShown = MaxVoters + 3

func (n *Node) bookPath() string { return filepath.Join(n.cfg.Dir, "marks") }

// loadSeen reads what was known at the last start. A book that cannot be read is an empty one:
// others have theirs.
func (n *Node) loadSeen() {
	b, err := os.ReadFile(n.bookPath())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var book mark.Book
	if err == nil {
		book, err = mark.DecodeBook(b)
	}
	if err != nil {
		n.cfg.Log.Warn("what other voters had acknowledged is not known until they say it again", "err", err)
		return
	}
	n.seen.book = book
}

// seenEvery is how often the book is written, if there was news.
const seenEvery = 5 * time.Second

// saveSeen writes the book if there was news, and it is time or the end.
func (n *Node) saveSeen(end bool) {
	n.seen.mu.Lock()
	dirty := n.seen.dirty && (end || time.Since(n.seen.saved) > seenEvery)
	if dirty {
		n.seen.dirty, n.seen.saved = false, time.Now()
	}
	b, err := n.seen.book.Encode()
	n.seen.mu.Unlock()
	if !dirty {
		return
	}
	if err == nil {
		err = writeFile(n.bookPath(), b)
	}
	if err != nil {
		n.cfg.Log.Warn("cannot remember what other voters had acknowledged", "err", err)
	}
}

// ownMark is the own mark as it is on disk, signed.
func (n *Node) ownMark(s *seat) (mark.Signed, bool) {
	if s == nil || n.cfg.Sign == nil || s.unsound.Load() != nil {
		return mark.Signed{}, false
	}
	m, ok := s.store.Acknowledged()
	if !ok {
		return mark.Signed{}, false
	}
	n.seen.mu.Lock()
	defer n.seen.mu.Unlock()
	if n.seen.signed.Mark != m {
		signed, err := mark.Sign(m, n.cfg.Sign)
		if err != nil {
			return mark.Signed{}, false
		}
		n.seen.signed = signed
	}
	return n.seen.signed, true
}

// showMarks is what this peer shows to others: its own mark, and what it saw of the voters of its
// ledger.
func (n *Node) showMarks(s *seat) (out []mark.Signed) {
	if own, ok := n.ownMark(s); ok {
		out = append(out, own)
	}
	g := n.Generation()
	n.seen.mu.Lock()
	defer n.seen.mu.Unlock()
	out = append(out, n.seen.book.In(g)...)
	return out[:min(len(out), maxShown)]
}

// learnMarks takes what another peer shows. A mark of this peer's own seat that is higher than its
// own says that its folder was turned back.
func (n *Node) learnMarks(from taskstate.PeerID, shown []mark.Signed) {
	if n.cfg.Verify == nil || len(shown) > maxShown {
		return
	}
	s, g := n.currentSeat(), n.Generation()
	for _, m := range shown {
		own := s != nil && m.Mark.Same(mark.Mark{Server: s.self.server(), Generation: s.generation})
		if !own && !n.wantsMark(m.Mark, g) || m.Check(n.cfg.Verify) != nil {
			continue
		}
		if own {
			n.compareOwn(s, from, m.Mark)
			continue
		}
		n.seen.mu.Lock()
		news := n.seen.book.Add(m)
		n.seen.dirty = n.seen.dirty || news
		n.seen.mu.Unlock()
	}
}

// wantsMark tells whether a mark is of a voter of this peer's ledger, and news. A follower that
// knows no voters yet wants none.
func (n *Node) wantsMark(m mark.Mark, generation uint64) bool {
	if m.Generation != generation {
		return false
	}
	n.seen.mu.Lock()
	known, ok := n.seen.book.Of(m.Server, m.Generation)
	n.seen.mu.Unlock()
	if ok && !known.Mark.Behind(m) {
		return false
	}
	for _, v := range n.Voters() {
		if v.server() == m.Server {
			return true
		}
	}
	return false
}

// compareOwn gives the seat up if it had acknowledged more than its folder knows.
func (n *Node) compareOwn(s *seat, from taskstate.PeerID, shown mark.Mark) {
	m, ok := s.store.Acknowledged()
	if !ok || !m.Behind(shown) {
		return
	}
	n.seatUnsound(s, &store.Unsound{Held: shown.Index, Left: m.Index, Why: fmt.Errorf(
		"%s shows, signed by this peer itself, that it had acknowledged entry %d in term %d and voted in term %d; its folder knows of entry %d, term %d and term %d, and was turned back",
		from, shown.Index, shown.Term, shown.Voted, m.Index, m.Term, m.Voted)})
}

// turnedBack tells of a server that greets with a mark lower than what is known of it here.
func (n *Node) turnedBack(server string, generation uint64, shown []mark.Signed) bool {
	n.seen.mu.Lock()
	known, ok := n.seen.book.Of(server, generation)
	n.seen.mu.Unlock()
	if !ok {
		return false
	}
	for _, m := range shown {
		if m.Mark.Behind(known.Mark) {
			return true
		}
	}
	return false
}

// tellEvery is the least time between two rounds in which a voter tells the others how far it has
// acknowledged.
const tellEvery = 5 * time.Second

// runTell tells the other voters how far this one has acknowledged, if it moved, until ctx ends:
// what raft's streams began with is old when they have lasted.
func (n *Node) runTell(ctx context.Context) {
	var told mark.Mark
	for {
		moved := n.moved.wait()
		if own, ok := n.ownMark(n.currentSeat()); ok && own.Mark != told {
			told = own.Mark
			n.tellMarks(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-moved:
			sleep(ctx, tellEvery)
		}
	}
}

func (n *Node) tellMarks(ctx context.Context) {
	var wg sync.WaitGroup
	for _, v := range n.Voters() {
		if v.Peer != n.cfg.Self {
			wg.Go(func() { _, _ = n.callVoter(ctx, v.Peer, voterAsk{}, voterTimeout) }) // who is away hears it when it greets
		}
	}
	wg.Wait()
}

// Marked is the highest entry that any voter of a generation is known here to have acknowledged, 0
// if nothing is.
func (n *Node) Marked(generation uint64) (index uint64) {
	n.seen.mu.Lock()
	defer n.seen.mu.Unlock()
	for _, m := range n.seen.book.In(generation) {
		index = max(index, m.Mark.Index)
	}
	return index
}

// ahead tells whether a follower has more than this leader's log: entries that were decided and
// that the voters lost.
func (f *feeder) ahead(h followHello) bool {
	s := f.seat
	return h.Generation == s.generation && s.raft.State() == raft.Leader && f.n.lead.Load() != nil && h.Index > s.raft.LastIndex()
}
