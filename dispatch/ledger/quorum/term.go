package quorum

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum/store"
	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/taskstate"
)

// run follows raft's word on leadership until ctx ends: a term of our own for every time it is
// gained.
func (t *terms) run(ctx context.Context, lead func(context.Context, taskstate.Epoch)) {
	up := t.alreadyLeads()
	for {
		for !up {
			select {
			case up = <-t.notify:
			case <-ctx.Done():
				return
			}
		}
		up = t.runTerm(ctx, lead)
	}
}

// alreadyLeads empties what raft said before anybody listened.
func (t *terms) alreadyLeads() (up bool) {
	for {
		select {
		case up = <-t.notify:
		default:
			return up
		}
	}
}

// runTerm serves one term. Its context ends the moment raft says that leadership is lost; it
// returns when everything in it has.
func (t *terms) runTerm(ctx context.Context, lead func(context.Context, taskstate.Epoch)) (up bool) {
	tctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.serve(tctx, lead)
	}()
	select {
	case up = <-t.notify:
	case <-ctx.Done():
	}
	cancel()
	<-done
	return up
}

// serve establishes the term and leads in it: the barrier of the term first, so that everything
// decided before is applied here; then the Lead entry, so that everybody knows; then the
// coordinator's loop and the voters' rules.
func (t *terms) serve(ctx context.Context, lead func(context.Context, taskstate.Epoch)) {
	s := t.place.seat.Load()
	if s == nil {
		return
	}
	term := s.raft.CurrentTerm()
	barrier := func() error { return s.ask(func() raft.Future { return s.raft.Barrier(0) }) }
	leads := func() bool { return s.raft.State() == raft.Leader && s.raft.CurrentTerm() == term }
	for t.stale() { // the only voter
		if pause.For(ctx, announceEvery) != nil {
			return
		}
	}
	if !t.caughtUp(ctx, barrier, leads) {
		return // raft says in a moment that the term is over, or has
	}
	if t.place.unread.err() != nil { // known only now that all before is applied: it could not say what it decides
		_ = s.ask(s.raft.LeadershipTransfer) // or the others do not hear it, and elect
		<-ctx.Done()
		return
	}
	t.relax(s, true)
	context.AfterFunc(ctx, func() { t.relax(s, false) }) // at once, not when lead has returned
	l := &leading{epoch: taskstate.At(s.generation, term), seat: s, queue: make(chan *proposal, queueLen), over: make(chan struct{})}
	l.keeper = &timekeeper{log: t.cfg.Log, clocks: t.clocks, ask: t.call.ask}
	l.stamps = ledger.NewStamps(t.place.stamp(), time.Now())
	proposals := make(chan struct{})
	go func() {
		defer close(proposals)
		l.runProposals(ctx, t)
	}()
	defer func() {
		t.lead.CompareAndSwap(l, nil)
		s.store.Await(proposals)
	}()
	if t.announce(ctx, l) != nil {
		return // the term is over
	}
	t.lead.Store(l)
	t.established(s)
	t.dir.setCoordinator(t.cfg.Self, l.epoch)
	t.cfg.Log.Info("coordinating", "epoch", l.epoch.String())
	defer t.finish(l)
	var tended sync.WaitGroup
	tended.Go(func() { t.tend(ctx, s) })
	tended.Go(func() { l.keeper.watch(ctx, t.place.stamp, s.handOn) })
	if lead != nil {
		lead(ctx, l.epoch)
	}
	<-ctx.Done()
	tended.Wait()
}

// announceEvery is how often who was elected tries to catch up, and to say so.
const announceEvery = 100 * time.Millisecond

// caughtUp waits until everything decided before the term is applied here; false if the term is
// over. Raft refuses a barrier, too, while it still believes in a transfer of an earlier term, and
// never answers while the others hear this peer and take none of its entries.
func (t *terms) caughtUp(ctx context.Context, barrier func() error, leads func() bool) bool {
	for {
		said := make(chan error, 1)
		go func() { said <- barrier() }()
		var err error
		select {
		case err = <-said:
		case <-ctx.Done():
		}
		switch {
		case !leads() || ctx.Err() != nil:
			return false
		case err == nil:
			return true
		}
		t.cfg.Log.Debug("elected, and does not know yet that all before is applied", "err", err)
		if pause.For(ctx, announceEvery) != nil {
			return false
		}
	}
}

// announce writes the Lead entry, the first of the term, until it is decided or ctx ends: raft
// leads, so that nobody else will. Raft refuses it while it still believes in a transfer of an
// earlier term, away from here. And it may be decided though its outcome is unknown: the replica
// had the entry from a voter that is followed still, before raft applied it here.
func (t *terms) announce(ctx context.Context, l *leading) error {
	for {
		p, err := newProposal([]ledger.Command{{Lead: &ledger.Lead{Chain: true}}})
		if err != nil {
			return err
		}
		l.queue <- p // of length queueLen, and nobody else knows it yet
		select {
		case d := <-p.done:
			said := d.err == nil
			t.place.rep.Read(func(s *ledger.State) { said = said || s.Epoch() == l.epoch })
			if said {
				return nil
			}
			t.cfg.Log.Debug("elected, and could not say so yet", "epoch", l.epoch, "err", d.err)
		case <-ctx.Done():
			return ctx.Err()
		}
		if pause.For(ctx, announceEvery) != nil {
			return ctx.Err()
		}
	}
}

// finish says that this peer does not coordinate any more, unless somebody else is known to
// already.
func (t *terms) finish(l *leading) {
	t.lead.CompareAndSwap(l, nil)
	if coord, epoch, _ := t.dir.coordinator(); coord == t.cfg.Self && epoch == l.epoch {
		t.dir.setCoordinator("", taskstate.Epoch{})
	}
	t.cfg.Log.Info("no longer coordinating", "epoch", l.epoch.String())
	t.wakes.follow.Set()
}

// relax makes the heartbeats of a leader rarer than a follower's patience demands. Raft derives the
// interval between two heartbeats from the leader's own patience (a tenth of it, to a fifth). A
// leader has no use for patience, so it may take more: fifteen quarters of the lease put heartbeats
// three eighths to three quarters of a lease apart. The lease still sees one in time, a follower
// hears two before it loses patience, and that depends on its own patience alone.
func (t *terms) relax(s *seat, leader bool) {
	s.relaxed.Store(leader)
	t.tune(s)
}

// leaderPatience is what a leader's heartbeats are derived from. A far follower has it, too: it may
// lead next, and its first heartbeat must not come later.
const leaderPatience = 15 * raftLease / 4

// tune has raft's timers be those of a leader, or of a follower as far away as this one.
func (t *terms) tune(s *seat) {
	election := t.patience()
	heartbeat := min(election, leaderPatience)
	if s.relaxed.Load() {
		heartbeat, election = leaderPatience, max(election, leaderPatience)
	}
	if c := s.raft.ReloadableConfig(); c.HeartbeatTimeout == heartbeat && c.ElectionTimeout == election {
		return
	}
	err := s.reload(func(c *raft.ReloadableConfig) { c.HeartbeatTimeout, c.ElectionTimeout = heartbeat, election })
	if err != nil {
		t.cfg.Log.Warn("raft refuses its timers", "err", err)
	}
}

// patience is raftPatience, or some round trips to the farthest voter.
func (t *terms) patience() time.Duration {
	patience := raftPatience
	for _, v := range t.dir.list() {
		if v.Peer != t.cfg.Self {
			patience = max(patience, far.For(t.cfg.Net, v.Peer, raftPatience))
		}
	}
	return patience
}

// resign ends a term as if raft had said that it is over; false if there is none.
func (t *terms) resign(ctx context.Context) bool {
	if t.lead.Load() == nil {
		return false
	}
	select {
	case t.notify <- false:
		return true
	case <-ctx.Done():
		return false
	}
}

// beginAnew ends this peer's own term of an epoch and begins it again, as raft's leader still: what
// coordinates remembers times of the ledger that are others now.
func (t *terms) beginAnew(e taskstate.Epoch) {
	if l := t.lead.Load(); l == nil || l.epoch != e {
		return
	}
	for _, leads := range []bool{false, true} {
		select {
		case t.notify <- leads:
		default: // raft has said so much more meanwhile that another term begins
		}
	}
}

// renew begins a term that raft never gave up while the disk held it up: it was ended here, and
// raft does not say again that it leads.
func (t *terms) renew(ctx context.Context, s *seat) {
	if s.raft.State() != raft.Leader || t.lead.Load() != nil {
		return
	}
	select {
	case t.notify <- true: // if another was elected meanwhile, the barrier of serve fails
	case <-ctx.Done():
	}
}

// endPatience bounds how long the end of a term is waited for.
const endPatience = 10 * time.Second

// awaitEnd waits until nobody leads here any more, after the seat was closed.
func (t *terms) awaitEnd() {
	limit := time.NewTimer(endPatience)
	defer limit.Stop()
	for {
		wait := t.wakes.changed.wait()
		if t.lead.Load() == nil {
			return
		}
		select {
		case <-wait:
		case <-limit.C:
			return
		}
	}
}

// diskWatch says in the log when this voter's disk begins and ceases to take what is written. It
// ends this peer's own term when the disk is stuck: raft, which waits for the disk, cannot. That
// term is over for good: when the disk answers again, raft hears of the next one from the others,
// or begins one.
type diskWatch struct {
	place  *ownSeat
	terms  *terms
	prober *prober
	parker *parker
	log    *slog.Logger

	sick, stuck bool // as it saw last
}

// run watches until ctx ends.
func (w *diskWatch) run(ctx context.Context) {
	t := time.NewTimer(store.Look)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.parker.wake:
			t.Reset(store.Look)
			continue
		case <-t.C:
		}
		w.look(ctx)
		if !w.parker.park(w.busy) {
			t.Reset(store.Look)
		}
	}
}

func (w *diskWatch) look(ctx context.Context) {
	s := w.place.seat.Load()
	if s == nil {
		w.sick, w.stuck = false, false
		return
	}
	err := s.store.Health()
	_, stuck := s.store.Stuck()
	switch {
	case err != nil && !w.sick:
		w.log.Error("this voter takes no part in decisions", "err", err)
	case err == nil && w.sick:
		w.log.Info("this voter takes part in decisions again: its log can be written")
	}
	if stuck && !w.stuck {
		if w.terms.resign(ctx) {
			w.prober.passSuspicion(ctx)
		}
	} else if w.stuck && !stuck {
		w.terms.renew(ctx, s)
	}
	w.sick, w.stuck = err != nil, stuck
}

// busy tells whether a write is under way, or the last one failed, so that there is something to
// see soon.
func (w *diskWatch) busy() bool {
	s := w.place.seat.Load()
	return s != nil && s.store.Busy()
}
