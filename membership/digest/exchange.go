package digest

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Protocol is spoken between admitted peers.
const Protocol = "/covey/digest/1"

const (
	exchangeEvery = 10 * time.Second       // with a random peer, ± a fifth
	gapDelay      = 100 * time.Millisecond // what is missing may just be a little late
	gapEvery      = time.Second            // a hole nobody can fill is not asked for more often, the timer aside
	frameDeadline = 5 * time.Second
	parcelBytes   = 256 << 10 // of envelopes in one frame
	turnBytes     = 8 << 20   // of envelopes in one turn
	maxWants      = 4096      // ranges in one turn
	outbound      = 4         // exchanges started here at the same time
	inbound       = 8         // exchanges served at the same time; above it streams are closed
	inboundEach   = 2         // of them for one peer, so that one that dawdles does not keep the others out
	maxRounds     = 64        // turns with one peer in a row while there is more
	servedPace    = 2         // exchanges a second that are served for one peer, after servedBurst
	servedBurst   = 2 * maxRounds
)

// Net is the part of p2p.Net that is needed.
type Net interface {
	Self() string
	Dial(ctx context.Context, peer, protocol string) (net.Conn, error)
	Handle(protocol string, h func(peer string, c net.Conn))
}

// Config is what an Exchange is made of.
type Config struct {
	Net     Net                                       // required
	Store   *Store                                    // required
	Verify  func(peer string, data, sig []byte) error // p2p.Verify; required
	Deliver func(Envelope)                            // gets every fresh envelope that was pulled, from several goroutines; required
	Accept  func(author string) bool                  // whose envelopes are wanted (admitted peers); nil: everybody's
	Peers   func() []string                           // other peers that are alive; required
	Log     *slog.Logger                              // nil: silent
}

// Exchange keeps a Store level with the other peers'. Make it with New, give it life with Run.
type Exchange struct {
	cfg   Config
	meet  chan string // peers to exchange with now
	gaps  chan string // authors with a hole
	work  sync.WaitGroup
	paces paces

	mu      sync.Mutex
	ctx     context.Context // of Run; nil before and after
	busy    map[string]bool // exchanges under way, by peer; true: again
	serving int
	served  map[string]int // of them, by peer
	recent  map[string]*rate.Limiter
}

// New makes an Exchange that is not alive yet.
func New(cfg Config) *Exchange {
	if cfg.Accept == nil {
		cfg.Accept = func(string) bool { return true }
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Exchange{cfg: cfg, meet: make(chan string, 64), gaps: make(chan string, 1), busy: map[string]bool{}, served: map[string]int{}, recent: map[string]*rate.Limiter{}}
}

// Offer adds an envelope that came another way (gossip, a session, this peer's own) and whose
// signature was checked. fresh tells the caller to use it; Deliver is not called. A gap below it
// brings an exchange soon. It never blocks.
func (x *Exchange) Offer(e Envelope) (fresh bool) {
	fresh, gap := x.cfg.Store.add(e)
	if fresh {
		x.charge(e)
	}
	if gap {
		select {
		case x.gaps <- e.Author:
		default:
		}
	}
	return fresh
}

// Meet asks for an exchange with a peer now: it joined, or a connection to it came back. It never
// blocks; when very many come at once, some wait for the timer.
func (x *Exchange) Meet(peer string) {
	select {
	case x.meet <- peer:
	default:
	}
}

// Run serves and starts exchanges until ctx ends. It is called once.
func (x *Exchange) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x.mu.Lock()
	x.ctx = ctx
	x.mu.Unlock()
	x.cfg.Net.Handle(Protocol, x.serve)
	slots := make(chan struct{}, outbound)
	tick := time.NewTimer(x.pace())
	defer tick.Stop()
	var gapTimer <-chan time.Time
	var author string
	gaps := x.gaps
	for {
		select {
		case <-ctx.Done():
			x.cfg.Net.Handle(Protocol, nil)
			x.mu.Lock()
			x.ctx = nil
			x.mu.Unlock()
			x.work.Wait()
			return nil
		case peer := <-x.meet:
			x.start(ctx, slots, peer)
		case <-tick.C:
			x.start(ctx, slots, x.pick(""))
			tick.Reset(x.pace())
		case author = <-gaps:
			gaps, gapTimer = nil, time.After(gapDelay)
		case <-gapTimer:
			if author != "" {
				x.start(ctx, slots, x.pick(author))
				author, gapTimer = "", time.After(gapEvery)
			} else {
				gaps, gapTimer = x.gaps, nil
			}
		}
	}
}

func (x *Exchange) pace() time.Duration { return exchangeEvery*4/5 + rand.N(exchangeEvery*2/5) }

// pick chooses the wanted peer if it is alive, else anyone.
func (x *Exchange) pick(wanted string) string {
	peers := x.cfg.Peers()
	if len(peers) == 0 || slices.Contains(peers, wanted) {
		return wanted
	}
	return peers[rand.N(len(peers))]
}

// start runs one exchange in its own goroutine; one with the same peer that is under way is
// followed by another.
func (x *Exchange) start(ctx context.Context, slots chan struct{}, peer string) {
	if peer == "" || peer == x.cfg.Net.Self() {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, busy := x.busy[peer]; busy {
		x.busy[peer] = true
		return
	}
	if len(x.busy) >= maxStreams {
		return
	}
	x.busy[peer] = false
	x.work.Go(func() {
		for again := true; again; {
			select {
			case slots <- struct{}{}:
				if err := x.With(ctx, peer); err != nil && ctx.Err() == nil {
					x.cfg.Log.Debug("no exchange of statuses", "peer", peer, "err", err)
				}
				<-slots
			case <-ctx.Done():
			}
			x.mu.Lock()
			if again = x.busy[peer] && ctx.Err() == nil; again {
				x.busy[peer] = false
			} else {
				delete(x.busy, peer)
			}
			x.mu.Unlock()
		}
	})
}

// With exchanges with one peer until neither has more for the other. Run need not be running here,
// but there.
func (x *Exchange) With(ctx context.Context, peer string) error {
	for range maxRounds {
		more, err := x.round(ctx, peer)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func (x *Exchange) round(ctx context.Context, peer string) (more bool, err error) {
	c, err := x.cfg.Net.Dial(ctx, peer, Protocol)
	if err != nil {
		return false, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	t := newTalk(x, peer, c)
	if err := t.sendMarks(); err != nil {
		return false, err
	}
	theirs, err := t.readMarks()
	if err != nil {
		return false, err
	}
	got, err := t.ask(theirs)
	if err != nil {
		return false, err
	}
	gave, err := t.answer()
	return got || gave, err
}

// notTooOften tells whether a peer may begin another exchange. The lock is held.
func (x *Exchange) notTooOften(peer string) bool {
	l := x.recent[peer]
	if l == nil {
		if len(x.recent) >= maxPaces {
			clear(x.recent)
		}
		l = rate.NewLimiter(servedPace, servedBurst)
		x.recent[peer] = l
	}
	return l.Allow()
}

func (x *Exchange) serve(peer string, c net.Conn) {
	defer c.Close()
	x.mu.Lock()
	ctx := x.ctx
	if ctx == nil || x.serving >= inbound || x.served[peer] >= inboundEach || !x.notTooOften(peer) {
		x.mu.Unlock()
		return
	}
	x.serving++
	x.served[peer]++
	x.work.Add(1)
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		x.serving--
		if x.served[peer]--; x.served[peer] == 0 {
			delete(x.served, peer)
		}
		x.mu.Unlock()
		x.work.Done()
	}()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := newTalk(x, peer, c).serve(); err != nil && ctx.Err() == nil {
		x.cfg.Log.Debug("exchange of statuses broke", "peer", peer, "err", err)
	}
}
