package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

const (
	entryBytes    = 512 << 10 // concurrent proposals share an entry up to here
	maxEntryBytes = 8 << 20   // one proposal may be larger than that, up to here
	queueLen      = 1024      // proposals that wait; more wait outside
	inFlight      = 3         // entries under way at once
)

// ErrTooLarge refuses a proposal that no entry can hold: hand in less at once.
var ErrTooLarge = fmt.Errorf("more than %d MiB of decisions at once", maxEntryBytes>>20)

// ErrOutcomeUnknown says that leadership was lost while a proposal was under way: it may or may not
// be decided. Ask the next coordinator, or propose again what is harmless to repeat.
var ErrOutcomeUnknown = errors.New("the coordinator changed while this was being decided; ask again")

// leading is a term of this peer's own: established, not over.
type leading struct {
	epoch taskstate.Epoch
	seat  *seat
	queue chan *proposal
	over  chan struct{} // closed when everything queued has been answered

	stamps ledger.Stamps // of the loop that proposes
	keeper *timekeeper
}

// proposal is one call of Propose: its commands, encoded by the caller, and where its answer goes.
type proposal struct {
	commands []cbor.RawMessage
	bytes    int
	done     chan decided // of one
}

// propose hands a proposal to the term that lasts, and waits for the answer.
func (t *terms) propose(ctx context.Context, commands []ledger.Command) (uint64, []ledger.Result, error) {
	l := t.lead.Load()
	if l == nil {
		return 0, nil, t.notCoordinator()
	}
	if err := t.place.speaks(commands); err != nil {
		return 0, nil, err
	}
	p, err := newProposal(commands)
	if err != nil {
		return 0, nil, err
	}
	began := time.Now()
	select {
	case l.queue <- p:
	case <-l.over:
		return 0, nil, t.notCoordinator()
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
	select {
	case d := <-p.done:
		if d.err == nil && t.cfg.Committed != nil {
			t.cfg.Committed(time.Since(began))
		}
		return d.index, d.results, d.err
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	case <-l.over:
	}
	select {
	case d := <-p.done:
		return d.index, d.results, d.err
	default:
		return 0, nil, t.notCoordinator() // it came into the queue after the last look: nobody took it
	}
}

func (t *terms) notCoordinator() error {
	hint, _, _ := t.dir.coordinator()
	if hint == t.cfg.Self {
		hint = ""
	}
	return ledger.ErrNotCoordinator{Hint: hint}
}

func newProposal(commands []ledger.Command) (*proposal, error) {
	p := &proposal{commands: make([]cbor.RawMessage, len(commands)), done: make(chan decided, 1)}
	for i := range commands {
		b, err := wire.Marshal(commands[i])
		if err != nil {
			return nil, fmt.Errorf("encode a decision: %w", err)
		}
		p.commands[i] = b
		p.bytes += len(b)
	}
	if p.bytes > maxEntryBytes {
		return nil, ErrTooLarge
	}
	return p, nil
}

// batch is an entry under way and the proposals in it.
type batch struct {
	seat   *seat
	future raft.ApplyFuture // nil if err
	err    error
	parts  []*proposal
}

// runProposals makes entries of proposals until ctx ends. Whatever gathers while inFlight entries
// are under way goes into the next.
func (l *leading) runProposals(ctx context.Context, t *terms) {
	under := make(chan batch, inFlight)
	slots := make(chan struct{}, inFlight)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for b := range under {
			b.answer(t)
			<-slots
		}
	}()
	var held *proposal // taken from the queue, did not fit into the last entry
	for ctx.Err() == nil {
		if held == nil {
			select {
			case held = <-l.queue:
			case <-ctx.Done():
				continue
			}
		}
		select { // the slot first, then the gathering: what arrives meanwhile shares the entry
		case slots <- struct{}{}:
			var b batch
			b, held = l.propose(t.cfg, held)
			under <- b
		case <-ctx.Done():
		}
	}
	close(under)
	<-done
	l.refuse(t.notCoordinator(), held)
}

// propose hands raft an entry of first and what waits behind it. It returns the proposal that was
// too much, if any.
func (l *leading) propose(cfg *Config, first *proposal) (b batch, held *proposal) {
	b.parts = []*proposal{first}
	commands, size := first.commands, first.bytes
gather:
	for size < entryBytes {
		select {
		case p := <-l.queue:
			if size+p.bytes > entryBytes {
				held = p
				break gather
			}
			b.parts = append(b.parts, p)
			commands, size = append(commands, p.commands...), size+p.bytes
		default:
			break gather
		}
	}
	data, err := wire.Marshal(ledger.EncodedEntry{Epoch: l.epoch, Stamp: l.keeper.stamp(&l.stamps), By: cfg.Self, Commands: commands})
	if err != nil {
		b.err = fmt.Errorf("encode a ledger entry: %w", err)
		return b, held
	}
	if !l.seat.asks.begin() {
		b.err = raft.ErrNotLeader
		return b, held
	}
	b.seat, b.future = l.seat, l.seat.raft.Apply(data, 0)
	return b, held
}

// answer waits for the entry and tells every caller its part.
func (b batch) answer(t *terms) {
	var d decided
	err := b.err
	if b.future != nil {
		err = b.seat.answer(b.future)
		b.seat.asks.end()
	}
	if err != nil {
		d.err = t.raftError(err)
	} else if x, ok := b.future.Response().(decided); ok {
		d = x
	}
	rest := d.results
	for _, p := range b.parts {
		mine := decided{index: d.index, err: d.err}
		if k := len(p.commands); d.err == nil {
			if k > len(rest) {
				mine.err = ErrOutcomeUnknown // decided, but its results went elsewhere: the replica had the entry already
			} else {
				mine.results, rest = rest[:k:k], rest[k:]
			}
		}
		p.done <- mine
	}
}

// raftError tells apart what was certainly not decided and what may have been.
func (t *terms) raftError(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrEnqueueTimeout):
		return t.notCoordinator()
	case errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrRaftShutdown), errors.Is(err, raft.ErrAbortedByRestore):
		return ErrOutcomeUnknown
	}
	return fmt.Errorf("the ledger could not be written: %w", err)
}

// refuse answers everything that was never handed to raft, then closes the term.
func (l *leading) refuse(err error, held *proposal) {
	defer close(l.over)
	if held != nil {
		held.done <- decided{err: err}
	}
	for {
		select {
		case p := <-l.queue:
			p.done <- decided{err: err}
		default:
			return
		}
	}
}

// terms are the times in which this peer coordinates: it hears from raft when one begins and ends,
// and takes proposals in between.
type terms struct {
	cfg    *Config
	place  *ownSeat
	dir    *directory
	wakes  *wakes
	clocks *clockTable
	call   *caller
	notify chan bool // raft: leadership gained or lost
	lead   atomic.Pointer[leading]

	stale       func() bool                  // asked while a term is established, which waits while the seat is stale
	established func(*seat)                  // called when a term is, before it is said
	tend        func(context.Context, *seat) // runs in each: the voters' rules
}
