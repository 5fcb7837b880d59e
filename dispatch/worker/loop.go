package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/internal/mailbox"
	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/taskstate"
)

// Loop runs tasks for the coordinator: the shell of the worker's core. Run owns all of its
// goroutines.
type Loop struct {
	cfg     Config
	inc     taskstate.Incarnation // changes between lives; guarded by mu for those outside
	journal journal.Journal       // nil until replayed
	core    *Core                 // owned by the goroutine in own
	open    journal.Opener

	events    chan Event // from the session client
	reports   *mailbox.Box[taskstate.RunReport]
	staged    *mailbox.Box[StageReport]
	results   chan Event // from the writer and the publisher
	saves     chan *journal.Txn
	publishes chan [][]byte
	news      wake.Signal        // something about coordinators changed
	connected chan string        // peers that came into reach
	stop      chan struct{}      // closed by Stop
	detach    chan struct{}      // closed by Detach
	abort     chan struct{}      // closed by either when it has waited enough
	offers    chan session.Offer // newest only
	seen      chan Seen          // what others hold of this incarnation
	mutes     chan bool          // newest only
	muted     bool               // for the owner
	refrains  refrains
	refrained wake.Signal      // they changed
	ended     chan struct{}    // closed when Run returns
	anew      bool             // this incarnation took the place of one whose journal was lost
	adoptions int              // how often the runner was asked; for the owner
	replayed  chan struct{}    // closed when the journal has been read and the runner knows what it has to go on with
	stream    *stream          // the open stream; owned by own
	streams   chan streamEvent // streams coming up and going

	once  sync.Once
	local sync.WaitGroup // ends of pipes that Local serves

	adopting sync.WaitGroup // the runner looks for tasks of the life before
	adopted  chan []taskstate.Loss

	mu   sync.Mutex
	sick error

	abandoned bool // a write is stuck in the journal, which cannot be closed; written before Run's goroutines end
}

// NewLoop looks whether the journal is this peer's; a large one is read by Run. The caller calls
// Run once, or Close.
func NewLoop(cfg Config) (*Loop, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	head, why, err := claimJournal(&cfg)
	if err != nil {
		return nil, err
	}
	var open journal.Opener = func(ctx context.Context, owner journal.Owner) (journal.Journal, *journal.Image, error) {
		j, img, err := journal.Open(ctx, cfg.Dir, owner, cfg.Start.Number)
		if err != nil {
			return nil, nil, err // not j: a nil *File would be a journal that is not nil
		}
		if cfg.Stamped != nil && img.Start == cfg.Start.Number {
			cfg.Stamped()
		}
		return j, img, nil
	}
	if cfg.Journal != nil {
		open = cfg.Journal(open)
	}
	w := newLoopOn(cfg, head, open)
	if why != "" {
		w.renewed(why)
	}
	return w, nil
}

func newLoopOn(cfg Config, head journal.Head, open journal.Opener) *Loop {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	w := &Loop{
		cfg: cfg, open: open, replayed: make(chan struct{}), adopted: make(chan []taskstate.Loss, 1),
		seen: make(chan Seen, 1), mutes: make(chan bool, 1), news: wake.New(), offers: make(chan session.Offer, 1), refrained: wake.New(),
		connected: make(chan string, 16), abort: make(chan struct{}),
		stop: make(chan struct{}), detach: make(chan struct{}), ended: make(chan struct{}),
		reports: mailbox.New[taskstate.RunReport](), staged: mailbox.New[StageReport](),
	}
	w.begin(head, cfg.Offer)
	return w
}

// begin makes ready for a life of the incarnation whose journal begins like that.
func (w *Loop) begin(head journal.Head, offer session.Offer) {
	w.mu.Lock()
	w.inc = head.Owner.Incarnation
	w.mu.Unlock()
	w.events, w.results, w.streams = make(chan Event, 64), make(chan Event, 4), make(chan streamEvent)
	w.saves, w.publishes = make(chan *journal.Txn, 1), make(chan [][]byte, 1)
	w.journal, w.stream = nil, nil
	w.core = newReplayingCore(w.cfg.Self, w.inc, offer, head.State, time.Now())
	w.core.refrain, w.core.signing.mute = w.refrains.first(), w.muted
	w.core.started, w.core.outbox.gather = w.cfg.Start, gatherEnds
}

// renew begins another incarnation in place of one whose journal cannot be believed.
func (w *Loop) renew(lost *lostJournal) error {
	head, err := replaceJournal(w.cfg.Dir, w.cfg.Self, w.cfg.Start.Number, lost.fence)
	if err != nil {
		return err
	}
	before := w.inc
	w.begin(head, w.core.offer)
	w.core.replaces = before
	w.renewed(lost.why)
	return nil
}

func (w *Loop) renewed(why string) {
	w.anew = true
	w.cfg.Log.Error("the worker's journal is lost: it begins a new incarnation, and its tasks are settled by each job's rule", "why", why, "incarnation", w.inc)
	if w.cfg.Exhausted != nil {
		w.cfg.Exhausted(nil) // what the life before met may be over
	}
	if w.cfg.Renewed != nil {
		w.cfg.Renewed(w.inc, why)
	}
}

// Incarnation is the one whose batches this worker signs now.
func (w *Loop) Incarnation() taskstate.Incarnation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inc
}

// Mute has the worker sign nothing until it is called with false: somebody else may be signing in
// its name. What there is to say waits. Called by one goroutine; never blocks.
func (w *Loop) Mute(on bool) { replace(w.mutes, on) }

// Seen says that others hold a batch of this number that this peer signed in that incarnation;
// differs says that it is another than the one held here. If that shows that the journal is old, a
// new incarnation begins. Never blocks.
func (w *Loop) Seen(inc taskstate.Incarnation, number uint64, differs bool) {
	if inc != w.Incarnation() {
		return
	}
	if differs {
		number = OtherBatch
	}
	for {
		select {
		case w.seen <- Seen{inc, number}:
			return
		default:
		}
		select {
		case s := <-w.seen:
			if s.Incarnation == inc {
				number = max(number, s.Number)
			}
		default:
		}
	}
}

// Report is the sink for the runner. It never blocks and may be called from anywhere, also from
// within Runner.Start. What it keeps is bounded by the tasks that were started.
func (w *Loop) Report(r taskstate.RunReport) { w.reports.Put(r) }

// Staged is the sink for the Stager. It never blocks and may be called from anywhere.
func (w *Loop) Staged(r StageReport) { w.staged.Put(r) }

// News says that the answer of Coordinator may have changed: a backoff is cut short, a session with
// an older one is ended. Never blocks.
func (w *Loop) News() { w.news.Set() }

// Connected says that a connection to peer came up: if it is the coordinator, a backoff is cut
// short. Never blocks.
func (w *Loop) Connected(peer string) {
	select {
	case w.connected <- peer:
	default: // more than enough to look at
	}
}

// SetOffer changes what this peer gives to tasks.
func (w *Loop) SetOffer(o session.Offer) { replace(w.offers, o) }

// Health is nil, or why the worker cannot take on tasks now.
func (w *Loop) Health() error {
	select {
	case <-w.replayed:
	default:
		return ErrReplaying
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sick
}

// Close is for a worker whose Run was never called: it never will be. Otherwise it does nothing.
func (w *Loop) Close() error {
	w.once.Do(func() { close(w.ended) })
	return nil
}

// lastWait is how long an end waits for Run when it was told to give up: nothing it does then takes
// long, unless the runner does not return.
const lastWait = 2 * time.Second

// Stop ends Run gracefully: what runs is stopped as interrupted, its end journaled, published and –
// while ctx lasts – acknowledged. When ctx ends first, Run returns all the same, with what it was
// doing in its journal, and Stop says so; a runner that does not return is waited for lastWait. Run
// must have been called.
func (w *Loop) Stop(ctx context.Context) error { return w.finish(ctx, w.stop) }

// Detach ends Run so that the next start of this peer goes on where it ended: nothing is taken on
// or started any more, what runs is left to the runner, and what is known of it is published and –
// while ctx lasts – acknowledged. Otherwise it is as Stop.
func (w *Loop) Detach(ctx context.Context) error { return w.finish(ctx, w.detach) }

func (w *Loop) finish(ctx context.Context, how chan struct{}) error {
	w.closeOnce(how)
	select {
	case <-w.ended:
		return nil
	case <-ctx.Done():
		w.closeOnce(w.abort)
		last := time.NewTimer(lastWait)
		defer last.Stop()
		select {
		case <-w.ended:
		case <-last.C:
		}
		return fmt.Errorf("the worker did not end in time; what it was doing is in its journal: %w", ctx.Err())
	}
}

func (w *Loop) closeOnce(c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}

// replace puts a value into a channel of one, in place of one that is there.
func replace[T any](c chan T, v T) {
	for {
		select {
		case c <- v:
			return
		default:
		}
		select {
		case <-c:
		default:
		}
	}
}

// Refrain has the worker take nothing on and give back what it has not begun, until it is called
// with nil for the same reason. What runs goes on. The error is what others are told; see Coded.
// Never blocks.
func (w *Loop) Refrain(reason string, err error) {
	w.refrains.set(reason, err)
	w.refrained.Set()
}

// refrain is what the core is told: the first of the reasons.
func (w *Loop) refrain() Refrain { return Refrain{w.refrains.first()} }
