package blob

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/swarm"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/wire"
)

const (
	firstTime   = 10 * time.Second // until a peer's first answer
	LifeTimeout = 20 * time.Second // without a byte while something is asked for
	lookEvery   = time.Second      // how often a silent stream is looked at
	askTime     = 5 * time.Second  // until a peer that has nothing is asked again
	askSoon     = askTime / 50     // the first time, if it may be fetching the same
	retryFirst  = time.Second      // until one that failed is, the first time
	retryMost   = 15 * time.Second
	proofChunk  = 64 << 10 / valueSize // values asked for at once
	proofAhead  = 2                    // such questions under way
)

// state is how the last try to ask a peer ended, or how it goes.
type state int

const (
	unasked state = iota
	absent        // it answered, and has nothing that is missing
	waits         // it is busy, or there are enough
	failed        // it could not be asked, or broke off
	banned        // it lied
)

// source is one peer in a fetch. What it may be asked for is guarded by the fetch's lock; the rest
// belongs to its reading goroutine.
type source struct {
	f    *fetch
	name string
	kick wake.Signal // for the writing goroutine

	gone    bool // it is no peer any more
	on      bool // it has answered on the stream that stands
	kept    bool // it counts among those that pull
	state   state
	why     string
	strikes int // proofs and pieces that were wrong, on all streams
	holds   map[piece.Root]claim
	said    map[piece.Root]bool // it has said whether it has these
	bad     map[piece.Root]bool // it lied about these
	todo    []piece.Root        // to be asked about
	wrong   []swarm.Piece       // to be complained of
	opens   *opening
	pending []pending // questions under way, oldest first
	heard   time.Time // the last answer, or the first question after it

	buf []byte // a piece
}

// claim is what a source says it has of a blob.
type claim struct {
	size int64
	has  *piece.Bitmap
}

// opening is a blob whose proof a source gives.
type opening struct {
	w     *wanted
	size  int64
	asked int
	under int // questions
	proof piece.Proof
}

// pending is a question under way; one field is set, or none for a complaint.
type pending struct {
	roots  []piece.Root
	opens  *opening
	values int
	block  bool
	at     time.Time
}

func newSource(f *fetch, name string) *source {
	return &source{f: f, name: name, kick: wake.New(), holds: map[piece.Root]claim{}, said: map[piece.Root]bool{}, bad: map[piece.Root]bool{}}
}

// ask has a blob asked about. The lock is held, as in all that follow up to run.
func (s *source) ask(root piece.Root) {
	if !s.on {
		return // the first question asks about all
	}
	for _, r := range s.todo {
		if r == root {
			return
		}
	}
	for _, p := range s.pending {
		for _, r := range p.roots {
			if r == root {
				return
			}
		}
	}
	s.todo = append(s.todo, root)
	s.kick.Set()
}

// opensOne tells whether a source could show what a blob is.
func (s *source) opensOne(w *wanted) bool {
	h, ok := s.holds[w.Root]
	return ok && s.on && w.fits(h) && !s.bad[w.Root] && h.has.Has(h.has.Len()-1)
}

// useful tells whether something is to be had from a source.
func (s *source) useful() bool {
	if !s.on {
		return false
	}
	if s.opens != nil || s.f.swarm.Useful(s.name) {
		return true
	}
	for root, w := range s.f.open {
		if !s.said[root] || !w.opened && s.opensOne(w) {
			return true
		}
	}
	return false
}

// next is the next question.
func (s *source) next(now time.Time) (q question, ok bool) {
	p := pending{at: now}
	switch o := s.opens; {
	case len(s.wrong) > 0:
		at := s.wrong[0]
		s.wrong = s.wrong[1:]
		q.Bad = spanOf(at.Root, int64(at.Index), 1)
	case len(s.todo) > 0:
		n := min(len(s.todo), MaxRoots)
		p.roots, s.todo = s.todo[:n:n], s.todo[n:]
		for _, r := range p.roots {
			q.Have = append(q.Have, r[:])
		}
	case o != nil && o.under < proofAhead && o.asked < piece.Entries(o.size):
		p.opens, p.values = o, min(proofChunk, piece.Entries(o.size)-o.asked)
		q.Proof = spanOf(o.w.Root, int64(o.asked), int64(p.values))
		o.asked += p.values
		o.under++
	case s.on:
		b, any := s.f.swarm.Next(s.name, now)
		if !any {
			return q, false
		}
		p.block = true
		q.Get = spanOf(b.Root, b.Off, int64(b.N))
	default:
		return q, false
	}
	if len(s.pending) == 0 {
		s.heard = now
	}
	s.pending = append(s.pending, p)
	return q, true
}

// left is the end of a stream. What it began and has not shown is returned, to be closed without
// the lock.
func (s *source) left(err error) (begun []Incoming) {
	f := s.f
	f.swarm.Leave(s.name)
	if s.kept {
		f.pulling--
	}
	s.on, s.kept, s.todo, s.pending, s.wrong = false, false, nil, nil, nil
	clear(s.holds)
	clear(s.said)
	s.note(err)
	if s.opens != nil {
		s.opens = nil
		f.opening--
	}
	for _, w := range f.open {
		if w.opener == s {
			begun = append(begun, f.reopen(w))
		}
	}
	f.assign()
	return begun
}

var (
	errNothing = errors.New("it does not have it")
	errEnough  = errors.New("there are enough others")
	errLies    = errors.New("it sends wrong bytes")
	errSilent  = errors.New("it sends nothing")
)

// note remembers how a try ended.
func (s *source) note(err error) {
	s.why = "it broke off"
	if p2p.Refused(err) {
		s.why = "it does not run where it was"
	} else if err != nil {
		s.why = p2p.Why(err)
	}
	var told *Error
	switch {
	case s.state == banned || errors.Is(err, errLies):
		s.state, s.why = banned, errLies.Error()
	case errors.Is(err, errNothing):
		s.state = absent
	case errors.Is(err, errEnough), errors.As(err, &told) && told.Code == CodeBusy:
		s.state = waits
	default:
		s.state = failed
	}
}

// run asks a peer, again and again, until the fetch is over or it has lied too often.
func (s *source) run() {
	f, wait, soon := s.f, retryFirst, askSoon
	for {
		select {
		case f.asking <- struct{}{}:
		case <-f.ctx.Done():
			return
		}
		since := time.Now()
		err := s.session()
		if f.ctx.Err() != nil {
			return
		}
		f.mu.Lock()
		begun := s.left(err)
		state, large := s.state, f.large
		f.mu.Unlock()
		for _, in := range begun {
			if in != nil {
				in.Close()
			}
		}
		f.kick.Set()
		f.Log.Debug("a source of files is left", "peer", s.name, "error", err)
		switch {
		case state == banned:
			return
		case state == absent && f.req.Apart && large && soon < askTime:
			wait, soon = soon, 2*soon
		case state == absent || errors.Is(err, errEnough):
			wait = askTime
		case time.Since(since) > retryMost:
			wait = retryFirst
		}
		for gone := true; gone; {
			if pause.For(f.ctx, wait) != nil {
				return
			}
			f.mu.Lock()
			gone = s.gone
			f.mu.Unlock()
		}
		wait = min(2*wait, retryMost)
	}
}

// session is one stream, from dialling to its end. It gives back the place to ask when the first
// answer is there, or at the end.
func (s *source) session() (err error) {
	f, asks := s.f, true
	answered := func() {
		if asks {
			asks = false
			<-f.asking
		}
	}
	defer answered()
	c, err := f.Net.Dial(f.ctx, s.name, Protocol)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	f.mu.Lock()
	for root := range f.open {
		s.todo = append(s.todo, root)
	}
	nothing := len(s.todo) == 0
	f.mu.Unlock()
	if nothing {
		return errNothing
	}
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		s.write(ctx, c)
	}()
	defer func() { cancel(); _ = c.Close(); <-wrote }()
	return s.read(c, answered)
}

// write sends questions until the stream ends.
func (s *source) write(ctx context.Context, c net.Conn) {
	out := wire.NewWriter(c, maxQuestion)
	for ctx.Err() == nil {
		s.f.mu.Lock()
		q, ok := s.next(time.Now())
		s.f.mu.Unlock()
		_ = c.SetWriteDeadline(time.Now().Add(limit.WriteTimeout))
		if !ok {
			if out.Flush() != nil {
				break
			}
			select {
			case <-s.kick:
			case <-ctx.Done():
			}
			continue
		}
		if out.Write(q) != nil {
			break
		}
	}
	_ = c.Close()
}

// read takes answers until the stream ends.
func (s *source) read(c net.Conn, answered func()) error {
	raw := bufio.NewReaderSize(c, 64<<10)
	in := wire.NewReader(raw, maxAnswer) // on raw itself, which has room enough
	for {
		_ = c.SetReadDeadline(time.Now().Add(lookEvery))
		var a answer
		_, err := raw.Peek(1) // a frame that was broken off could not be taken up again
		if errors.Is(err, os.ErrDeadlineExceeded) && s.lives() {
			continue
		}
		if err == nil {
			_ = c.SetReadDeadline(time.Now().Add(LifeTimeout))
			err = in.Read(&a)
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errSilent
		case err != nil:
			if errors.Is(err, io.EOF) {
				err = errors.New("it closed the stream")
			}
			return err
		}
		p, ok := s.pop()
		if !ok {
			return cmp.Or[error](asError(a.Error), errLies)
		}
		_ = c.SetReadDeadline(time.Now().Add(LifeTimeout))
		if err := s.take(p, &a, raw); err != nil {
			return err
		}
		if p.roots != nil {
			answered()
			if err := s.settle(); err != nil {
				return err
			}
		}
		s.kick.Set()
	}
}

func asError(e *Error) error {
	if e == nil {
		return nil
	}
	return e
}

// lives tells whether a silent stream may still bring something.
func (s *source) lives() bool {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	most := LifeTimeout
	if !s.on {
		most = firstTime
	}
	return len(s.pending) == 0 || time.Since(s.heard) < most
}

func (s *source) pop() (p pending, ok bool) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if len(s.pending) == 0 {
		return p, false
	}
	p, s.pending, s.heard = s.pending[0], s.pending[1:], time.Now()
	return p, true
}

// settle keeps a source that has something, if there is a place, and leaves another.
func (s *source) settle() error {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !s.useful() && !(s.kept && f.pulling < MaxSources):
		return errNothing
	case s.kept:
	case f.pulling >= MaxSources:
		return errEnough
	default:
		s.kept = true
		f.pulling++
	}
	return nil
}

// take is one answer to one question.
func (s *source) take(p pending, a *answer, raw io.Reader) error {
	switch {
	case a.Error != nil && a.Error.Code != CodeAbsent:
		return a.Error
	case p.roots != nil:
		if len(a.Held) != len(p.roots) || a.Raw != 0 || a.Error != nil {
			return errLies
		}
		s.held(p.roots, a.Held, time.Since(p.at))
	case p.opens != nil:
		return s.values(p, a, raw)
	case p.block:
		return s.block(a, raw)
	case a.Raw != 0:
		return errLies
	}
	return nil
}

// held takes in what a source has.
func (s *source) held(roots []piece.Root, list []held, took time.Duration) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if !s.on {
		s.on = true
		s.state = absent
		f.swarm.Join(s.name, took, time.Now())
	}
	for i, root := range roots {
		w := f.open[root]
		if w != nil {
			s.said[root] = true
		}
		size, has := list[i].pieces()
		if w == nil || has == nil || !w.fits(claim{size, has}) || s.bad[root] {
			delete(s.holds, root)
			f.swarm.Holds(s.name, root, nil)
			continue
		}
		s.holds[root] = claim{size, has}
		if w.opened {
			f.swarm.Holds(s.name, root, has)
		}
	}
	f.assign()
	s.openSmall()
}

// openSmall begins with blobs of one piece, which need no proof.
func (s *source) openSmall() {
	for s.opens != nil && s.opens.size <= piece.Size {
		o := s.opens
		s.opens = nil
		s.f.opening--
		s.f.want(o.w, o.size, piece.NewBitmap(1), s)
		s.f.assign()
	}
}

// values is a part of a proof.
func (s *source) values(p pending, a *answer, raw io.Reader) error {
	o := p.opens
	if a.Error == nil && a.Raw != int64(p.values)*valueSize {
		return errLies
	}
	b := make([]byte, a.Raw)
	if _, err := io.ReadFull(raw, b); err != nil {
		return err
	}
	s.f.mu.Lock()
	stale := s.opens != o
	o.under--
	s.f.mu.Unlock()
	switch {
	case stale:
		return nil
	case a.Error != nil:
		return s.unopened(o, nil)
	}
	for ; len(b) > 0; b = b[valueSize:] {
		o.proof = append(o.proof, [valueSize]byte(b))
	}
	if len(o.proof) < piece.Entries(o.size) {
		return nil
	}
	blob, err := piece.Open(o.w.Root, o.size, o.proof)
	if err != nil {
		return s.unopened(o, err)
	}
	in, err := s.f.Keep.Begin(s.f.ctx, blob)
	if errors.Is(err, ErrWrong) {
		return s.unopened(o, err)
	} else if err != nil {
		s.f.cancel(err)
		return err
	}
	s.f.mu.Lock()
	s.opens = nil
	s.f.opening--
	o.w.in = in
	here := in.Pieces()
	whole := here.Full()
	if whole {
		o.w.opened, o.w.whole, o.w.opener = true, true, nil
	} else {
		s.f.want(o.w, o.size, here, s)
	}
	s.f.assign()
	s.openSmall()
	s.f.mu.Unlock()
	if whole {
		s.f.end(o.w)
	}
	return nil
}

// unopened is called when a source has not given the proof of a blob, or a wrong one.
func (s *source) unopened(o *opening, wrong error) error {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	s.opens = nil
	f.opening--
	s.bad[o.w.Root] = true
	delete(s.holds, o.w.Root)
	f.reopen(o.w)
	if wrong == nil {
		return nil
	}
	f.lied(Wrong{s.name, o.w.Root, -1})
	if s.strikes++; s.strikes >= swarm.Strikes {
		return errLies
	}
	return nil
}

// block is a part of a piece; if it is the last, the piece is checked and kept.
func (s *source) block(a *answer, raw io.Reader) error {
	f := s.f
	f.mu.Lock()
	b, ok := f.swarm.Oldest(s.name)
	f.mu.Unlock()
	if !ok || a.Error == nil && a.Raw != int64(b.N) {
		return errLies
	}
	if a.Error != nil {
		return s.refused(b.Root)
	}
	off, _ := piece.Span(1<<62, b.Index)
	if s.buf == nil {
		s.buf = make([]byte, piece.Size)
	}
	if _, err := io.ReadFull(raw, s.buf[b.Off-off:][:b.N]); err != nil {
		return err
	}
	f.mu.Lock()
	b, out, _ := f.swarm.Arrived(s.name, time.Now())
	w := f.open[b.Root]
	if out != swarm.Whole || w == nil {
		f.mu.Unlock()
		return nil
	}
	w.users++
	f.mu.Unlock()
	_, n := piece.Span(w.size, b.Index)
	return s.checked(w, b.Piece, n, f.keep(w, b.Index, s.buf[:n]))
}

// refused is called when a source does not have a block that it said it has.
func (s *source) refused(root piece.Root) error {
	f := s.f
	f.mu.Lock()
	f.swarm.Refused(s.name)
	delete(s.holds, root)
	var begun Incoming
	if w := f.open[root]; w != nil && w.opener == s {
		s.bad[root] = true
		begun = f.reopen(w)
	}
	f.mu.Unlock()
	if begun != nil {
		begun.Close()
	}
	return nil
}

// checked is called with what keeping a piece came to.
func (s *source) checked(w *wanted, at swarm.Piece, n int, err error) error {
	f := s.f
	if err != nil && !errors.Is(err, ErrWrong) {
		f.cancel(err)
		return err
	}
	if err == nil && w.in != nil {
		f.came(w.Root, at.Index)
	}
	f.mu.Lock()
	complete, _ := f.swarm.Checked(s.name, at, err == nil)
	var begun Incoming
	if err == nil {
		f.moved = time.Now()
		f.report.Bytes += int64(n)
		f.report.From[s.name] += int64(n)
		f.askFellows(w)
		if w.opener == s {
			w.opener = nil // it has shown the end
			s.wakeAll()
		}
	} else {
		s.strikes++
		f.lied(Wrong{s.name, at.Root, at.Index})
		s.wrong = append(s.wrong, at)
		s.wakeAll()
		if w.opener == s {
			s.bad[w.Root] = true
			delete(s.holds, w.Root)
			begun = f.reopen(w)
		}
	}
	w.users--
	w.whole = w.whole || complete
	end := w.whole && w.users == 0
	lies := s.strikes >= swarm.Strikes
	f.mu.Unlock()
	if begun != nil {
		begun.Close()
	}
	if end {
		f.end(w)
	}
	if lies {
		return errLies
	}
	return nil
}

// wakeAll has all sources look for something to ask. The lock is held.
func (s *source) wakeAll() {
	for _, o := range s.f.sources {
		o.kick.Set()
	}
}
