package blob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/swarm"
)

// Limits of one Fetch.
const (
	MaxSources  = 6   // peers that give bytes at once
	MaxAsking   = 8   // peers asked at once what they have
	MaxOpen     = 256 // blobs wanted at once; the others wait
	MaxOpenings = 4   // proofs fetched at once
	maxEnding   = 4   // blobs brought to the disk at once

	progressEvery = 200 * time.Millisecond
	waitFactor    = 10
)

// ErrWrong is what a Sink says of bytes that do not belong to the blob.
var ErrWrong = errors.New("these bytes do not belong to the blob")

// ErrNobody is what every Missing is.
var ErrNobody = errors.New("no peer has it")

// Dialer is what fetching needs of the network.
type Dialer interface {
	Dial(ctx context.Context, peer, protocol string) (net.Conn, error)
}

// Sink is where what is fetched goes. It may be called from several goroutines at once.
type Sink interface {
	// Whole tells whether a blob is here, and synced.
	Whole(root piece.Root) (size int64, whole bool)
	// Put takes a blob of one piece; ErrWrong if it is another. It is whole after the next Flush.
	Put(root piece.Root, data []byte) error
	// Flush syncs what was Put.
	Flush() error
	// Begin makes room for a blob of more pieces, or goes on with it. ErrWrong: what is here
	// proves another size.
	Begin(ctx context.Context, b piece.Blob) (Incoming, error)
}

// Incoming is a blob that is being fetched.
type Incoming interface {
	Pieces() *piece.Bitmap          // those that are here
	Piece(i int, data []byte) error // ErrWrong if it is another
	Done() error                    // all are here
	Close()                         // may be gone on with later, if it is not done
}

// Want is a blob to fetch.
type Want struct {
	Root piece.Root
	Size int64 // -1: nobody has said
}

// Request says what to fetch.
type Request struct {
	// Peers are those who may have it; they are asked for again while the fetch goes on.
	Peers func() []string
	// Wants are the blobs, earlier ones first. It is asked for the next ones as others are done.
	Wants iter.Seq[Want]
	// Apart says that others fetch the same at this time: each begins elsewhere, so that they have
	// something for each other.
	Apart bool
	// Progress is called now and then, by one goroutine. Optional.
	Progress func(Report)
	// Came is called when a piece is kept, and can be read; by anybody. It must not wait.
	// Optional.
	Came func(root piece.Root, i int)
}

// Report says what came, and from whom.
type Report struct {
	Blobs int              // that are here, those that were here before included
	Bytes int64            // of pieces that came and were right
	From  map[string]int64 // the same by peer
	Bad   map[string]int   // pieces and proofs that were wrong
}

func (r Report) clone() Report {
	r.From, r.Bad = maps.Clone(r.From), maps.Clone(r.Bad)
	return r
}

// Missing says why blobs did not come.
type Missing struct {
	Roots  []piece.Root      // a few of them
	Count  int               // of those that were asked for at the end
	Absent []string          // peers that said they do not have them
	Failed map[string]string // those that could not be asked or did not give it, and why
	Wrong  []Wrong           // pieces of these blobs that came and were not right
}

// Wrong is a piece that was not right, or a proof: then Piece is -1.
type Wrong struct {
	Peer  string
	Root  piece.Root
	Piece int
}

const maxNamed = 8 // blobs, and wrong pieces, that an error names

func (m *Missing) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", m.Roots[0])
	if m.Count > 1 {
		fmt.Fprintf(&b, " and %d more", m.Count-1)
	}
	fmt.Fprintf(&b, ": %v that can be reached", ErrNobody)
	if len(m.Wrong) > 0 {
		fmt.Fprintf(&b, "; what came from %s was damaged", m.Wrong[0].Peer)
	}
	for i, name := range slices.Sorted(maps.Keys(m.Failed)) {
		if i == 4 {
			fmt.Fprintf(&b, "; and %d more", len(m.Failed)-i)
			break
		}
		fmt.Fprintf(&b, "; %s: %s", name, m.Failed[name])
	}
	return b.String()
}

// Is makes every Missing an ErrNobody.
func (*Missing) Is(err error) bool { return err == ErrNobody }

// Fetcher brings blobs here.
type Fetcher struct {
	Net  Dialer
	Self string // not asked
	Keep Sink
	// Patience is how long nothing may come, once something came; 0: a minute. Busy peers have ten
	// times as long.
	Patience time.Duration
	Log      *slog.Logger
}

// Fetch returns when all blobs are here, or with the first error that cannot be helped: Missing, or
// the Sink's. What came stays with the Sink.
func (fr *Fetcher) Fetch(ctx context.Context, req Request) (Report, error) {
	f := &fetch{
		Fetcher: *fr, req: req, swarm: swarm.New(rand.Uint64()), open: map[piece.Root]*wanted{},
		sources: map[string]*source{}, kick: wake.New(),
		report: Report{From: map[string]int64{}, Bad: map[string]int{}},
		asking: make(chan struct{}, MaxAsking), ending: make(chan struct{}, maxEnding),
	}
	if req.Apart {
		f.swarm.Apart()
	}
	f.Patience = cmp.Or(f.Patience, time.Minute)
	if f.Log == nil {
		f.Log = slog.New(slog.DiscardHandler)
	}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	next, stop := iter.Pull(req.Wants)
	defer stop()
	f.next = next
	err := f.run()
	f.cancel(context.Canceled)
	f.wg.Wait()
	for _, w := range f.open {
		w.close()
	}
	if err2 := f.flush(); err == nil {
		err = err2
	}
	if cause := ctx.Err(); cause != nil && err != nil {
		err = cause
	}
	return f.report, err
}

// fetch is one Fetch. Its lock is not held while anything is waited for.
type fetch struct {
	Fetcher
	req    Request
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	next   func() (Want, bool) // of run's goroutine
	kick   wake.Signal         // for run: something is done
	asking chan struct{}       // places to be asked
	ending chan struct{}       // places to sync

	mu      sync.Mutex
	swarm   *swarm.Swarm
	open    map[piece.Root]*wanted
	order   []*wanted // those that have to be opened
	opening int
	large   bool // a blob of many pieces may be among those that were wanted
	news    int  // pieces since those were asked what they have that do not have all
	sources map[string]*source
	pulling int // sources that are kept
	moved   time.Time
	report  Report
	wrong   []Wrong
	put     []piece.Root // not flushed yet
	flushes bool         // some are being flushed
}

// wanted is a blob on its way. The fetch's lock guards it, but for in, which does not change once
// it is set.
type wanted struct {
	Want
	opener *source  // shows what the blob is; nil: nobody, or it has
	passed *source  // an opener that stalled
	opened bool     // the swarm wants it
	size   int64    // then
	in     Incoming // nil: it has one piece
	users  int      // who keep pieces of it at the moment
	whole  bool     // all pieces are here
}

// fits tells whether what a source says of a blob can be.
func (w *wanted) fits(h claim) bool {
	return (w.Size < 0 || h.size == w.Size) && (!w.opened || h.size == w.size)
}

func (w *wanted) close() {
	if w.in != nil {
		w.in.Close()
	}
}

// keep checks and keeps a piece.
func (f *fetch) keep(w *wanted, i int, data []byte) error {
	if w.in == nil {
		return f.Keep.Put(w.Root, data)
	}
	return w.in.Piece(i, data)
}

// run is the fetch's own goroutine: it takes in what is wanted, starts sources, and sees when
// nothing goes on.
func (f *fetch) run() error {
	var told time.Time
	f.moved = time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for more := true; ; {
		var err error
		if more, err = f.feed(more); err != nil {
			return err
		}
		f.mu.Lock()
		left, report := len(f.open), f.report.clone()
		f.mu.Unlock()
		over := left == 0 && !more
		if now := time.Now(); f.req.Progress != nil && (over || now.Sub(told) >= progressEvery) {
			told = now
			f.req.Progress(report)
		}
		if over {
			return nil
		}
		f.flushSome(false)
		f.recruit()
		if err := f.stuck(); err != nil {
			return err
		}
		select {
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		case <-f.kick:
		case <-tick.C:
			f.askAgain()
			f.flushSome(true)
		}
	}
}

var empty = piece.Sum(nil)

// feed takes in wants while there is room. more: there may be others.
func (f *fetch) feed(more bool) (bool, error) {
	for more {
		f.mu.Lock()
		full := len(f.open) >= MaxOpen
		f.mu.Unlock()
		if full {
			return true, nil
		}
		var want Want
		if want, more = f.next(); !more {
			return false, nil
		}
		if err := f.take(want); err != nil {
			return false, err
		}
	}
	return false, nil
}

// take begins with one blob.
func (f *fetch) take(want Want) error {
	if want.Root == empty || want.Size == 0 {
		if want.Root != empty {
			return fmt.Errorf("%s is no blob of 0 bytes", want.Root)
		}
		if err := f.Keep.Put(empty, nil); err != nil {
			return err
		}
		f.mu.Lock()
		f.put = append(f.put, empty)
		f.mu.Unlock()
		f.done(nil)
		return nil
	}
	if size, whole := f.Keep.Whole(want.Root); whole {
		if want.Size >= 0 && size != want.Size {
			return fmt.Errorf("%s has %d bytes, not %d", want.Root, size, want.Size)
		}
		f.done(nil)
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[want.Root] != nil {
		return nil
	}
	w := &wanted{Want: want}
	f.large = f.large || want.Size < 0 || want.Size > piece.Size
	f.open[want.Root] = w
	if want.Size >= 0 && want.Size <= piece.Size {
		w.opened, w.size = true, w.Size
		f.swarm.Want(w.Root, w.Size, piece.NewBitmap(1), "")
	} else {
		f.order = append(f.order, w)
	}
	for _, s := range f.sources {
		s.ask(want.Root)
	}
	return nil
}

// done counts a blob that is here.
func (f *fetch) done(w *wanted) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.report.Blobs++
	f.moved = time.Now()
	if w != nil {
		if w.in == nil {
			f.put = append(f.put, w.Root)
		}
		delete(f.open, w.Root)
		for _, s := range f.sources {
			delete(s.holds, w.Root)
			delete(s.said, w.Root)
		}
	}
}

// end brings a blob to the disk whose pieces are all here.
func (f *fetch) end(w *wanted) {
	if w.in == nil {
		f.done(w)
		f.kick.Set()
		return
	}
	f.wg.Go(func() {
		select {
		case f.ending <- struct{}{}:
		case <-f.ctx.Done():
			return
		}
		defer func() { <-f.ending }()
		if err := w.in.Done(); err != nil {
			f.cancel(err)
			return
		}
		w.in.Close()
		f.done(w)
		f.kick.Set()
	})
}

// openerFor is a source that could show what a blob is. The lock is held.
func (f *fetch) openerFor(w *wanted, but *source) (best *source) {
	for _, s := range f.sources {
		if s != but && s.opens == nil && s.opensOne(w) && (best == nil || s.name < best.name) {
			best = s
		}
	}
	return best
}

// flushAt is how many small blobs are flushed before a second is over.
const flushAt = 1024

// flushSome has small blobs flushed beside what else goes on, so that they can be read.
func (f *fetch) flushSome(all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.put); f.flushes || n == 0 || n < flushAt && !all {
		return
	}
	f.flushes = true
	f.wg.Go(func() {
		if err := f.flush(); err != nil {
			f.cancel(err)
		}
		f.mu.Lock()
		f.flushes = false
		f.mu.Unlock()
	})
}

// flush makes small blobs whole.
func (f *fetch) flush() error {
	f.mu.Lock()
	put := f.put
	f.put = nil
	f.mu.Unlock()
	if len(put) == 0 {
		return nil
	}
	if err := f.Keep.Flush(); err != nil {
		return err
	}
	for _, root := range put {
		f.came(root, 0)
	}
	return nil
}

func (f *fetch) came(root piece.Root, i int) {
	if f.req.Came != nil {
		f.req.Came(root, i)
	}
}

// recruit starts sources for peers that have none.
func (f *fetch) recruit() {
	peers := slices.Clone(f.req.Peers())
	rand.Shuffle(len(peers), func(i, k int) { peers[i], peers[k] = peers[k], peers[i] })
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range peers {
		if f.sources[name] != nil || name == f.Self {
			continue
		}
		s := newSource(f, name)
		f.sources[name] = s
		f.wg.Go(s.run)
	}
	for name, s := range f.sources {
		s.gone = !slices.Contains(peers, name)
	}
}

// openerTime is how long an opener may be silent, if there is another.
const openerTime = 3 * time.Second

// askAgain has sources asked that may have more by now, and others in place of those that stall.
func (f *fetch) askAgain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.open {
		if s := w.opener; s != nil && time.Since(s.heard) > openerTime && f.openerFor(w, s) != nil {
			w.passed = s
			if s.opens != nil && s.opens.w == w {
				s.opens = nil
				f.opening--
			}
			if in := f.reopen(w); in != nil {
				f.wg.Go(in.Close)
			}
		}
	}
	for root, w := range f.open {
		for _, s := range f.sources {
			if h, ok := s.holds[root]; s.on && (!ok || !h.has.Full()) && !s.bad[root] {
				s.ask(w.Root)
			}
		}
	}
	for _, s := range f.sources {
		s.kick.Set() // what is late may be asked of it
	}
}

// stuck tells why the fetch cannot go on.
func (f *fetch) stuck() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.open) == 0 {
		return nil
	}
	still := time.Since(f.moved)
	patient := still < f.Patience
	m := &Missing{Count: len(f.open), Failed: map[string]string{}}
	for _, w := range f.open {
		if w.whole {
			return nil // it is being brought to the disk
		}
		if len(m.Roots) < maxNamed {
			m.Roots = append(m.Roots, w.Root)
		}
	}
	for _, wrong := range f.wrong {
		if f.open[wrong.Root] != nil {
			m.Wrong = append(m.Wrong, wrong)
		}
	}
	for name, s := range f.sources {
		switch {
		case s.useful():
			if patient {
				return nil
			}
			m.Failed[name] = "it sends nothing"
		case s.state == unasked:
			return nil
		case s.state == absent:
			m.Absent = append(m.Absent, name)
			continue
		case s.state == waits && still < waitFactor*f.Patience, patient && s.state == failed && f.report.Bytes > 0:
			return nil
		}
		m.Failed[name] = cmp.Or(m.Failed[name], s.why)
	}
	return m
}

// assign finds openers. The lock is held.
func (f *fetch) assign() {
	f.order = slices.DeleteFunc(f.order, func(w *wanted) bool { return w.opened || f.open[w.Root] != w })
	for _, w := range f.order {
		if f.opening >= MaxOpenings {
			return
		}
		if w.opener != nil {
			continue
		}
		best := f.openerFor(w, w.passed)
		if best == nil && w.passed != nil {
			best = f.openerFor(w, nil)
		}
		if best != nil {
			f.opening++
			w.opener = best
			best.opens = &opening{w: w, size: best.holds[w.Root].size}
			best.kick.Set()
		}
	}
}

// newsOf is into how many parts a blob is divided by asking others who fetch the same what they
// have by now.
const newsOf = 1024

// askFellows has those asked that have a part of a blob, as this peer itself, when some pieces of
// it have come. The lock is held.
func (f *fetch) askFellows(w *wanted) {
	if f.news++; w.in == nil || f.news < piece.Count(w.size)/newsOf {
		return
	}
	f.news = 0
	for _, s := range f.sources {
		if h, ok := s.holds[w.Root]; ok && !h.has.Full() {
			s.ask(w.Root)
		}
	}
}

// lied notes a piece or proof that was wrong. The lock is held.
func (f *fetch) lied(w Wrong) {
	f.report.Bad[w.Peer]++
	if f.wrong = append(f.wrong, w); len(f.wrong) > 2*maxNamed {
		f.wrong = slices.DeleteFunc(f.wrong, func(w Wrong) bool { return f.open[w.Root] == nil })
		f.wrong = f.wrong[:min(len(f.wrong), maxNamed)]
	}
}

// reopen is called when an opener has not shown what a blob is. What it began is returned, to be
// closed without the lock, which is held.
func (f *fetch) reopen(w *wanted) (begun Incoming) {
	f.swarm.Drop(w.Root)
	begun, w.in, w.opener, w.opened = w.in, nil, nil, false
	if f.open[w.Root] == w && !slices.Contains(f.order, w) {
		f.order = append(f.order, w)
	}
	f.assign()
	return begun
}

// want gives a blob to the swarm that s has given the proof of. The lock is held.
func (f *fetch) want(w *wanted, size int64, here *piece.Bitmap, s *source) {
	w.opened, w.size = true, size
	if here.Has(here.Len() - 1) {
		w.opener = nil
	}
	f.swarm.Want(w.Root, size, here, s.name)
	for _, o := range f.sources {
		if h, ok := o.holds[w.Root]; ok && o.on && w.fits(h) && !o.bad[w.Root] {
			f.swarm.Holds(o.name, w.Root, h.has)
		}
		o.kick.Set()
	}
}
