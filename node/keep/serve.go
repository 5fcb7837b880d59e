package keep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/node/blob"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/p2p/wire"
)

// Bounds of a server.
const (
	MaxFetching   = 8        // fetches of what is small at once
	MaxLarge      = 2        // and of what is large
	MaxTogether   = 64       // requests that are fetched together
	togetherBytes = 64 << 20 // what they come to; one that alone is more is large, and fetched by itself
	togetherFiles = 1 << 14
	keepFor       = time.Hour
)

// goingEvery is how often a peer is told how far it is.
const goingEvery = time.Second

// ServerConfig is what a server rests on.
type ServerConfig struct {
	Self     string
	Net      blob.Dialer
	Store    *store.Store
	Stores   bool                   // its owner gives room to others
	Admitted func(peer string) bool // tells whether a peer is a member; nil: everybody is
	Now      func() time.Time       // nil: time.Now
	Printed  PrintedKeeper          // keeps what tasks of others printed; nil: that is refused
	Log      *slog.Logger           // optional
}

// Server keeps copies for other peers.
type Server struct {
	*limit.Readers
	cfg    ServerConfig
	places map[bool]chan struct{} // fetches that may be under way: of what is large, and of what is not

	mu    sync.Mutex
	lanes map[laneOf]*lane
	all   sync.WaitGroup // of goroutines
}

// Close answers nobody any more, and ends what is under way.
func (s *Server) Close() {
	s.Readers.Close()
	s.all.Wait()
}

// laneOf tells lanes apart: what is large must not hold up what is small.
type laneOf struct {
	peer  string
	large bool
}

// lane is what one peer asks for, one fetch after the other. There is one as long as something
// waits in it.
type lane struct {
	waiting []*wanted
	came    int64 // bytes, in all
}

// wanted is a request that is not answered yet.
type wanted struct {
	Request
	ctx    context.Context // ends when nobody waits for the answer any more
	before int64           // bytes that had come in its lane when it was asked
	answer chan error
}

// Serve answers Protocol on n until Close. What it keeps is pinned for an hour, under PinName: who
// knows how long it is needed has it stay.
func Serve(n limit.Net, cfg ServerConfig) *Server {
	if cfg.Admitted == nil {
		cfg.Admitted = func(string) bool { return true }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, lanes: map[laneOf]*lane{}, places: map[bool]chan struct{}{
		false: make(chan struct{}, MaxFetching), true: make(chan struct{}, MaxLarge),
	}}
	s.Readers = limit.Serve(n, Protocol, s.handle)
	return s
}

func (s *Server) handle(ctx context.Context, peer string, c net.Conn, busy bool) {
	if !s.cfg.Admitted(peer) {
		return // not a word
	}
	_ = c.SetReadDeadline(time.Now().Add(limit.RequestTimeout))
	var f request
	if err := wire.NewReader(c, maxRequest).Read(&f); err != nil {
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	out := wire.NewWriter(c, maxFrame)
	say := func(a answer) error {
		_ = c.SetWriteDeadline(time.Now().Add(limit.WriteTimeout))
		return out.Send(a)
	}
	if f.Sole || len(f.Printed) > 0 {
		s.printed(ctx, peer, c, &f, busy, say)
		return
	}
	r, err := f.parse()
	if err == nil {
		err = s.answer(ctx, peer, c, r, busy, func(came int64) error { return say(answer{Going: &going{came}}) })
	}
	if err == nil {
		_ = say(answer{Kept: true})
		return
	}
	no := s.refusal(err)
	if no.Code == CodeFailed {
		s.cfg.Log.Debug("what a peer asked for could not be kept", "peer", peer, "task", r.Task, "err", err)
	}
	_ = say(answer{Refused: no})
}

// refusal says to a peer what is wrong.
func (s *Server) refusal(err error) *Refused {
	var no *Refused
	var full *store.NoRoom
	switch {
	case errors.As(err, &no):
		return no
	case errors.As(err, &full):
		return &Refused{CodeFull, full.Error()}
	case errors.Is(err, errRequest):
		return &Refused{CodeFailed, errRequest.Error()}
	case errors.Is(err, blob.ErrNobody):
		return &Refused{CodeFailed, "it could not fetch all of it"}
	case errors.Is(err, tree.ErrRefused):
		return &Refused{CodeFailed, "the list of its files is none"}
	}
	return &Refused{CodeFailed, "it could not store it"}
}

// answer returns when the request is kept, or why it is not. going is called while it takes time.
func (s *Server) answer(ctx context.Context, peer string, c net.Conn, r Request, busy bool, going func(came int64) error) error {
	switch {
	case s.has(r) && (!r.Read || s.right(r, going)):
		return nil
	case !s.cfg.Stores:
		return &Refused{Code: CodeNone}
	case busy:
		return &Refused{Code: CodeBusy}
	}
	ctx, cancel := s.while(ctx, c)
	defer cancel()
	w := &wanted{Request: r, ctx: ctx, answer: make(chan error, 1)}
	l := s.enter(peer, w)
	t := time.NewTicker(goingEvery)
	defer t.Stop()
	for told := int64(0); ; {
		select {
		case err := <-w.answer:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		s.mu.Lock()
		came := l.came - w.before
		s.mu.Unlock()
		if came > told {
			told = came
			if err := going(came); err != nil {
				return err
			}
		}
	}
}

// while is a context that ends with the stream, on which nothing more comes.
func (s *Server) while(ctx context.Context, c net.Conn) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	s.all.Go(func() {
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 1))
		cancel()
	})
	return ctx, cancel
}

// has tells whether all of it is here and pinned.
func (s *Server) has(r Request) bool {
	p, ok := s.cfg.Store.PinNamed(PinName(r.Task))
	if !ok {
		return false
	}
	named := map[piece.Root]bool{}
	for _, root := range p.Roots {
		if !s.cfg.Store.Have(root).Whole {
			return false
		}
		named[root] = true
	}
	for _, root := range r.trees() {
		if !named[root] {
			return false
		}
	}
	return true
}

// right reads all that is here of a request, and tells whether it is what it should be. What has
// rotted is not here any more then. As few are read at once as are fetched.
func (s *Server) right(r Request, going func(came int64) error) bool {
	place := s.places[r.large()]
	place <- struct{}{}
	defer func() { <-place }()
	p, _ := s.cfg.Store.PinNamed(PinName(r.Task))
	out := &progress{tell: going, told: time.Now()}
	for _, root := range p.Roots {
		f, err := s.cfg.Store.Reader(root)
		if err != nil {
			return false
		}
		_, err = io.Copy(out, io.NewSectionReader(f, 0, f.Size()))
		_ = f.Close()
		if err != nil {
			return false
		}
	}
	return true
}

// progress tells now and then how much was written to it.
type progress struct {
	tell func(bytes int64) error
	n    int64
	told time.Time
}

// Write implements io.Writer.
func (p *progress) Write(b []byte) (int, error) {
	p.n += int64(len(b))
	if time.Since(p.told) < goingEvery {
		return len(b), nil
	}
	p.told = time.Now()
	return len(b), p.tell(p.n)
}

// large tells whether something is fetched and read by itself.
func (r *Request) large() bool {
	return r.Saved.Bytes > togetherBytes || r.Saved.Files > togetherFiles
}

// enter puts a request into its lane.
func (s *Server) enter(peer string, w *wanted) *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := laneOf{peer, w.large()}
	l := s.lanes[of]
	if l == nil {
		l = &lane{}
		s.lanes[of] = l
		s.all.Go(func() { s.run(of, l) })
	}
	w.before = l.came
	l.waiting = append(l.waiting, w)
	return l
}

// run answers what waits in a lane, until nothing does.
func (s *Server) run(of laneOf, l *lane) {
	for {
		s.places[of.large] <- struct{}{}
		some := s.next(of, l)
		if len(some) > 0 {
			s.keep(of.peer, l, some)
		}
		<-s.places[of.large]
		if len(some) == 0 {
			return
		}
	}
}

// next takes what is fetched together; nothing: the lane is over.
func (s *Server) next(of laneOf, l *lane) (some []*wanted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum, files := int64(0), 0
	for len(l.waiting) > 0 && len(some) < MaxTogether {
		w := l.waiting[0]
		sum, files = sum+w.Saved.Bytes, files+w.Saved.Files
		if len(some) > 0 && (sum > togetherBytes || files > togetherFiles) {
			break
		}
		l.waiting = l.waiting[1:]
		if w.ctx.Err() == nil {
			some = append(some, w)
		}
	}
	if len(some) == 0 {
		delete(s.lanes, of)
	}
	return some
}

// keep keeps some together, or each by itself if that does not work.
func (s *Server) keep(peer string, l *lane, some []*wanted) {
	err := s.keepAll(peer, l, some)
	for _, w := range some {
		if err != nil && len(some) > 1 {
			w.answer <- s.keepAll(peer, l, []*wanted{w})
		} else {
			w.answer <- err
		}
	}
}

func (s *Server) keepAll(peer string, l *lane, some []*wanted) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var left atomic.Int64 // who wait for it: with the last one, ctx ends
	left.Add(int64(len(some)))
	var lists, folders []tree.Ref
	holders := []string{peer}
	for _, w := range some {
		defer context.AfterFunc(w.ctx, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		})()
		for _, root := range w.trees() {
			lists, folders = append(lists, tree.Ref{Root: root}), append(folders, tree.Ref{Root: root, Dir: true})
		}
		for _, h := range w.Holders {
			if s.cfg.Admitted(h) {
				holders = append(holders, h)
			}
		}
	}
	bring := s.bringer(ctx, l, holders)
	trees, err := bring(lists)
	if err != nil {
		return err
	}
	defer trees.Close()
	for _, w := range some {
		if err := s.check(w.Request); err != nil { // before the files are here, and in a few words of memory
			return err
		}
	}
	b, err := bring(folders)
	if err != nil {
		return err
	}
	defer b.Close()
	pins := make([]store.Pin, 0, len(some))
	for _, w := range some {
		p, err := s.pin(w.Request)
		if err != nil {
			return err
		}
		pins = append(pins, p)
	}
	return s.cfg.Store.PinAll(pins...)
}

// bringer brings files here, and counts what comes in a lane.
func (s *Server) bringer(ctx context.Context, l *lane, holders []string) func([]tree.Ref) (*blob.Brought, error) {
	last := int64(0) // of the fetch that is under way: there are several
	req := blob.Request{
		Peers: func() []string { return holders },
		Progress: func(r blob.Report) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if r.Bytes < last {
				last = 0
			}
			l.came, last = l.came+r.Bytes-last, r.Bytes
		},
	}
	return func(refs []tree.Ref) (*blob.Brought, error) {
		return blob.Bring(ctx, s.cfg.Store, false, blob.Fetcher{Net: s.cfg.Net, Self: s.cfg.Self, Log: s.cfg.Log}, req, refs...)
	}
}

// check holds what a request says against the lists of its files, which are here.
func (s *Server) check(r Request) error {
	for i, root := range []piece.Root{r.Saved.Root, r.Saved.Logs} {
		var totals tree.Totals
		if root.IsZero() {
			continue
		}
		for _, err := range blob.Entries(s.cfg.Store, root, &totals) {
			if err != nil {
				return err
			}
		}
		if logs := i == 1; !logs && (totals.Bytes != r.Saved.Bytes || totals.Files != r.Saved.Files) || logs && totals.Entries() > 2 {
			return &Refused{CodeFailed, fmt.Sprintf("it was said to be %d bytes in %d files, and is %d in %d", r.Saved.Bytes, r.Saved.Files, totals.Bytes, totals.Files)}
		}
	}
	return nil
}

// pin is what holds what is here of a request.
func (s *Server) pin(r Request) (store.Pin, error) {
	roots, err := Roots(s.cfg.Store, r.Saved.Root, r.Saved.Logs)
	if err != nil {
		return store.Pin{}, err
	}
	p := store.Pin{Name: PinName(r.Task), Why: "left by " + r.Task.String(), Roots: roots, Until: s.cfg.Now().Add(keepFor)}
	if was, ok := s.cfg.Store.PinNamed(p.Name); ok && (was.Until.IsZero() || was.Until.After(p.Until)) { // nothing shortens what was promised
		p.Until = was.Until
	}
	return p, nil
}

// Roots is all that trees which are in a store consist of, themselves included; a zero one is
// empty.
func Roots(s *store.Store, trees ...piece.Root) (roots []piece.Root, err error) {
	for _, root := range trees {
		if root.IsZero() {
			continue
		}
		roots = append(roots, root)
		for e, err := range blob.Entries(s, root, new(tree.Totals)) {
			if err != nil {
				return nil, err
			}
			if e.Kind == tree.File {
				roots = append(roots, e.Root)
			}
		}
	}
	return roots, nil
}
