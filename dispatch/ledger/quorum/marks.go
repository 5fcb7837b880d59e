package quorum

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger/quorum/mark"
	"github.com/coveyproject/covey/internal/atomicfile"
)

// seenMarks is what this peer can prove about how far the voters had acknowledged: their own words,
// signed. They travel with the greetings of raft's streams, before a vote can, with the questions
// among voters, and to followers and back. A voter whose folder was turned back, its own mark and
// all, hears of it from the first one that knows better; and nobody who lies can stop a voter,
// because what counts against it is its own signature.
type seenMarks struct {
	cfg    *Config
	place  *ownSeat
	folder folder

	mu     sync.Mutex
	book   mark.Book
	dirty  bool
	saved  time.Time
	signed mark.Signed // the newest own mark that was signed
}

// maxShown bounds the marks in one frame.
const maxShown = MaxVoters + 3

// load reads what was known at the last start. A book that cannot be read is an empty one:
// others have theirs.
func (m *seenMarks) load() {
	b, err := os.ReadFile(m.folder.path("marks"))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var book mark.Book
	if err == nil {
		book, err = mark.DecodeBook(b)
	}
	if err != nil {
		m.cfg.Log.Warn("what other voters had acknowledged is not known until they say it again", "err", err)
		return
	}
	m.book = book
}

// seenEvery is how often the book is written, if there was news.
const seenEvery = 5 * time.Second

// save writes the book if there was news, and it is time or the end.
func (m *seenMarks) save(end bool) {
	m.mu.Lock()
	dirty := m.dirty && (end || time.Since(m.saved) > seenEvery)
	if dirty {
		m.dirty, m.saved = false, time.Now()
	}
	b, err := m.book.Encode()
	m.mu.Unlock()
	if !dirty {
		return
	}
	if err == nil {
		err = atomicfile.Write(m.folder.path("marks"), b)
	}
	if err != nil {
		m.cfg.Log.Warn("cannot remember what other voters had acknowledged", "err", err)
	}
}

// own is the own mark as it is on disk, signed.
func (m *seenMarks) own(s *seat) (mark.Signed, bool) {
	if s == nil || m.cfg.Sign == nil || s.unsound.Load() != nil {
		return mark.Signed{}, false
	}
	now, ok := s.store.Acknowledged()
	if !ok {
		return mark.Signed{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.signed.Mark != now {
		signed, err := mark.Sign(now, m.cfg.Sign)
		if err != nil {
			return mark.Signed{}, false
		}
		m.signed = signed
	}
	return m.signed, true
}

// show is what this peer shows to others: its own mark, and what it saw of the voters of its
// ledger. Of its own seat that is the own mark alone: before the seat was open, others may have
// shown an older one, and with that it would look turned back.
func (m *seenMarks) show(s *seat) (out []mark.Signed) {
	own, ok := m.own(s)
	if ok {
		out = append(out, own)
	}
	g := m.generation()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.book.In(g) {
		if !ok || !x.Mark.Same(own.Mark) {
			out = append(out, x)
		}
	}
	return out[:min(len(out), maxShown)]
}

// learn takes what another peer shows of the voters of this peer's ledger. It returns the newest
// mark of the own seat that was shown, if that says more than the seat knows.
func (m *seenMarks) learn(shown []mark.Signed, voters []Voter) (own *mark.Mark) {
	if m.cfg.Verify == nil || len(shown) > maxShown {
		return nil
	}
	s, g := m.place.seat.Load(), m.generation()
	for _, x := range shown {
		mine := s != nil && x.Mark.Same(mark.Mark{Server: s.self.server(), Generation: s.generation})
		switch {
		case !mine && !m.wants(x.Mark, g, voters) || x.Check(m.cfg.Verify) != nil:
		case mine:
			if known, ok := s.store.Acknowledged(); ok && known.Behind(x.Mark) {
				own = &x.Mark
			}
		default:
			m.mu.Lock()
			news := m.book.Add(x)
			m.dirty = m.dirty || news
			m.mu.Unlock()
		}
	}
	return own
}

// wants tells whether a mark is of one of the voters, and news. A follower that knows no voters yet
// wants none.
func (m *seenMarks) wants(x mark.Mark, generation uint64, voters []Voter) bool {
	if x.Generation != generation {
		return false
	}
	m.mu.Lock()
	known, ok := m.book.Of(x.Server, x.Generation)
	m.mu.Unlock()
	if ok && !known.Mark.Behind(x) {
		return false
	}
	return slices.ContainsFunc(voters, func(v Voter) bool { return v.server() == x.Server })
}

// turnedBack tells of a server that greets with a mark lower than what is known of it here.
func (m *seenMarks) turnedBack(server string, generation uint64, shown []mark.Signed) bool {
	m.mu.Lock()
	known, ok := m.book.Of(server, generation)
	m.mu.Unlock()
	return ok && slices.ContainsFunc(shown, func(x mark.Signed) bool { return x.Mark.Behind(known.Mark) })
}

// acknowledged is the newest mark that was seen of a server, an empty one if none was.
func (m *seenMarks) acknowledged(of mark.Mark) mark.Mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, _ := m.book.Of(of.Server, of.Generation)
	return known.Mark
}

// attest keeps the last mark of a seat of this peer's that is lost among those that are shown.
func (m *seenMarks) attest(last mark.Mark) {
	if last.Server == "" || m.cfg.Sign == nil {
		return
	}
	signed, err := mark.Sign(last, m.cfg.Sign)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dirty = m.book.Add(signed) || m.dirty
}

// covers tells whether a copy has all that a voter had decided when it acknowledged what it is
// known to have acknowledged; false where nothing is known of it. A voter that acknowledged as much
// in the same term, or a later one, has it.
func (m *seenMarks) covers(c Copy, l LostSeat) bool {
	lost := m.acknowledged(mark.Mark{Server: l.Server, Generation: l.Generation})
	if l.Generation != c.Generation || lost.Index == 0 || lost.Index < l.Held {
		return false
	}
	has := mark.Mark{Term: c.Epoch.Term, Index: c.Index}
	if s := m.place.seat.Load(); s != nil && s.self.server() == c.Seat {
		if own, ok := s.store.Acknowledged(); ok {
			has = own
		}
	} else if known := m.acknowledged(mark.Mark{Server: c.Seat, Generation: c.Generation}); known.Index > 0 {
		has = known
	}
	return lost.Term <= has.Term && lost.Index <= has.Index
}

// generation is that of the marks which count here: of this peer's ledger, or while it knows none,
// because its disk lost it, the newest of which there are marks.
func (m *seenMarks) generation() uint64 {
	g := m.place.generation()
	m.mu.Lock()
	defer m.mu.Unlock()
	if g == 0 {
		g = m.book.Newest()
	}
	return g
}

// fill adds to what voters lost how far they had acknowledged, where others know it better.
func (m *seenMarks) fill(lost []LostSeat) []LostSeat {
	for i := range lost {
		known := m.acknowledged(mark.Mark{Server: lost[i].Server, Generation: lost[i].Generation})
		if known.Index > lost[i].Held {
			lost[i].Held = known.Index
		}
	}
	return lost
}

// tellEvery is the least time between two rounds in which a voter tells the others how far it has
// acknowledged.
const tellEvery = 5 * time.Second

func (m *seenMarks) highest(generation uint64) (index uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.book.In(generation) {
		index = max(index, x.Mark.Index)
	}
	return index
}
