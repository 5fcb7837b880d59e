package digest

import (
	"cmp"
	"slices"
	"sync"
)

const (
	// DefaultLimit bounds a store's envelopes in bytes.
	DefaultLimit = 64 << 20

	authorShare     = 4 // of the limit one author has at most this part
	maxStreams      = 4096
	maxIncarnations = 8   // per author
	maxRanges       = 128 // wanted per stream and exchange
)

// Stream names what is numbered without gaps: one author in one life of its data folder.
type Stream struct {
	_           struct{} `cbor:",toarray"`
	Author      string
	Incarnation string
}

// sane tells whether an envelope may be of this stream.
func (s Stream) sane() bool {
	return s.Author != "" && len(s.Author) <= maxName && len(s.Incarnation) <= maxName
}

func (s Stream) compare(o Stream) int {
	return cmp.Or(cmp.Compare(s.Author, o.Author), cmp.Compare(s.Incarnation, o.Incarnation))
}

// Mark is how far a peer is with one stream.
type Mark struct {
	_          struct{} `cbor:",toarray"`
	Stream     Stream
	Floor      uint64 // up to here everything is settled and may be gone
	Contiguous uint64 // up to here nothing is missing
	Top        uint64 // the highest number with a signature seen
}

// Range is numbers From to To, both included.
type Range struct {
	_        struct{} `cbor:",toarray"`
	Stream   Stream
	From, To uint64
}

// Store holds envelopes and marks. It is pure but for its lock: no clock, no I/O. Safe for
// concurrent use.
type Store struct {
	mu      sync.Mutex
	limit   int
	share   int // of it for one author
	bytes   int
	authors map[string]int // bytes of each
	adds    uint64         // counts additions: age without a clock
	streams map[Stream]*stream
	current map[string]string // the incarnation of each author that counts
}

type stream struct {
	floor      uint64
	contiguous uint64     // ≥ floor
	top        uint64     // ≥ the number of every envelope added
	held       []Envelope // sorted by Number, without repetition, all but the newest above floor
	bytes      int
	used       uint64 // Store.adds when it was last added to
}

// NewStore makes a store of at most limit bytes; 0 means DefaultLimit.
func NewStore(limit int) *Store {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return &Store{limit: limit, share: max(limit/authorShare, 1<<20), authors: map[string]int{}, streams: map[Stream]*stream{}, current: map[string]string{}}
}

// Add keeps a verified envelope. fresh tells that it was not known: the caller then delivers it.
// An envelope that is fresh may still not be kept (see the package's word on a full store); it is
// then fresh again.
func (s *Store) Add(e Envelope) (fresh bool) {
	fresh, _ = s.add(e)
	return fresh
}

// add tells in addition whether a hole is open below the envelope.
func (s *Store) add(e Envelope) (fresh, gap bool) {
	if e.check() != nil {
		return false, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stream(Stream{Author: e.Author, Incarnation: e.Incarnation})
	s.adds++
	st.used = s.adds
	st.top = max(st.top, e.Number)
	i, have := st.find(e.Number)
	if have || e.Number <= st.contiguous {
		return false, st.contiguous < st.top
	}
	st.held = slices.Insert(st.held, i, e)
	st.bytes += e.size()
	s.count(e.Author, e.size())
	if st.held[0].Number <= st.floor { // it was the newest
		s.dropLowest(st, 1)
	}
	st.advance()
	gap = st.contiguous < e.Number
	for s.authors[e.Author] > s.share {
		s.evict(e.Author)
	}
	for s.bytes > s.limit {
		s.evict("")
	}
	return true, gap
}

// count notes that an author has so many bytes more.
func (s *Store) count(author string, n int) {
	s.bytes += n
	if s.authors[author] += n; s.authors[author] == 0 {
		delete(s.authors, author)
	}
}

func (s *Store) drop(k Stream) {
	if st := s.streams[k]; st != nil {
		s.count(k.Author, -st.bytes)
		delete(s.streams, k)
	}
}

func (st *stream) find(n uint64) (int, bool) {
	if l := len(st.held); l > 0 && st.held[l-1].Number < n { // the usual case
		return l, false
	}
	return slices.BinarySearchFunc(st.held, n, func(e Envelope, n uint64) int { return cmp.Compare(e.Number, n) })
}

// advance moves the mark over what is held.
func (st *stream) advance() {
	i, _ := st.find(st.contiguous + 1)
	for ; i < len(st.held) && st.held[i].Number == st.contiguous+1; i++ {
		st.contiguous++
	}
}

// evict drops the lowest envelope of the stream that holds the most bytes, of one author or ("") of
// all.
func (s *Store) evict(author string) {
	var largest *stream
	var name Stream
	for k, st := range s.streams {
		if author != "" && k.Author != author {
			continue
		}
		if largest == nil || st.bytes > largest.bytes || st.bytes == largest.bytes && k.compare(name) < 0 {
			largest, name = st, k
		}
	}
	if largest != nil && len(largest.held) > 0 {
		s.dropLowest(largest, 1)
	}
}

// cut forgets the n lowest envelopes.
func (s *Store) dropLowest(st *stream, n int) {
	for _, e := range st.held[:n] {
		st.bytes -= e.size()
		s.count(e.Author, -e.size())
	}
	clear(st.held[:n])
	st.held = st.held[n:]
	if len(st.held) == 0 {
		st.held = nil
	}
}

// Retire says that everything up to a number is settled: those envelopes go, the mark stays or
// rises. The newest stays (see Reached).
func (s *Store) Retire(author, incarnation string, upTo uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retire(s.stream(Stream{Author: author, Incarnation: incarnation}), min(upTo, maxNumber))
}

func (s *Store) retire(st *stream, upTo uint64) {
	if upTo <= st.floor {
		return
	}
	st.floor = upTo
	st.contiguous = max(st.contiguous, upTo)
	n, have := st.find(upTo)
	if have {
		n++
	}
	s.dropLowest(st, min(n, max(len(st.held)-1, 0)))
	st.advance()
}

// Forget drops everything of an author: it is no longer admitted.
func (s *Store) Forget(author string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.current, author)
	for k := range s.streams {
		if k.Author == author {
			s.drop(k)
		}
	}
}

// Held is the envelope of that number, if it is here.
func (s *Store) Held(author, incarnation string, number uint64) (Envelope, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[Stream{Author: author, Incarnation: incarnation}]
	if st == nil {
		return Envelope{}, false
	}
	i, have := st.find(number)
	if !have {
		return Envelope{}, false
	}
	return st.held[i], true
}

// Size is the bytes and the number of envelopes held.
func (s *Store) Size() (bytes, envelopes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		envelopes += len(st.held)
	}
	return s.bytes, envelopes
}
