package node

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/node/highwater"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/taskstate"
)

// statusTopic carries signed envelopes of statuses to every peer.
const statusTopic = "/covey/status/1"

// statuses is the one door for what workers report: whichever way an envelope comes – topic,
// session, digest, this peer's own worker – it is checked, kept for others to pull, and merged,
// once.
type statuses struct {
	table     *taskstate.Table
	replica   *ledger.Replica
	report    func([]taskstate.Status) // hears of what is news
	admits    func(peer string) bool
	offer     func(digest.Envelope) (fresh bool) // keeps it for others to pull
	allows    func(digest.Envelope) bool         // false: its author has brought in too much for now
	store     *digest.Store                      // where it keeps it
	highwater *highwater.File                    // how far every worker is, on disk
	asker     *highwater.Asker                   // and what others remember of that
	faults    *faults
	own       func(env digest.Envelope, differs bool) // hears of envelopes of this peer that came from others
	self      taskstate.PeerID

	spilled wake.Signal // the table lost some

	topic atomic.Pointer[p2p.Topic] // nil until this peer is wired

	// order is held from looking into the table until what was found is told: otherwise two who
	// merge one task's statuses at one time, or one who merges while an entry of the ledger is
	// told, could tell them in the wrong order.
	order sync.Mutex

	mu     sync.Mutex
	recent [recentBatches]recentBatch // the same envelope comes two or three ways within milliseconds
	slot   int
}

// recentBatches is how many decoded batches are remembered, so that the second way an envelope
// comes costs no second check.
const recentBatches = 64

type recentBatch struct {
	key   batchKey
	body  []byte // as it was signed; shared with the envelope
	batch taskstate.Batch
}

// accept takes an envelope in. fresh tells whether it was new here; then, and only then, it should
// travel on.
func (s *statuses) accept(raw []byte) (b taskstate.Batch, fresh bool, err error) {
	env, err := digest.Decode(raw)
	if err != nil {
		return b, false, err
	}
	return s.ingest(env, s.offer)
}

// acceptOwn takes an envelope that this peer sealed itself a moment ago.
func (s *statuses) acceptOwn(raw []byte) error {
	env, err := digest.Decode(raw)
	if err != nil {
		return err
	}
	_, _, err = s.merge(env, s.offer)
	return err
}

// publish sends an envelope of this peer's own worker to everybody. It is in our own table before
// anybody else's.
func (s *statuses) publish(ctx context.Context, raw []byte) error {
	if err := s.acceptOwn(raw); err != nil {
		return fmt.Errorf("own statuses: %w", err)
	}
	topic := s.topic.Load()
	if topic == nil {
		return nil // not wired yet: the digest brings it to the others
	}
	return topic.Publish(ctx, raw)
}

// pulled takes an envelope that an exchange of digests brought: it is checked and kept already.
func (s *statuses) pulled(env digest.Envelope) {
	if _, _, ok := s.remembered(batchKey{env.Author, env.Incarnation, env.Number}); ok {
		return
	}
	_, _, _ = s.merge(env, func(digest.Envelope) bool { return true }) // one that does not decode says nothing, whatever peer signed it
	s.hearOwn(env, false)
}

// hearOwn tells the worker what others hold that this peer signed: if it is more than its journal
// has, that is old.
func (s *statuses) hearOwn(env digest.Envelope, differs bool) {
	if env.Author == s.self && s.own != nil {
		s.own(env, differs)
	}
}

// known is what is held here of a worker's incarnation.
func (s *statuses) known(peer taskstate.PeerID, inc taskstate.Incarnation) (w highwater.Remembered) {
	w.Number = max(s.store.Mark(peer, string(inc)).Top, s.highwater.Highest(peer, inc))
	if env, ok := s.store.Held(peer, string(inc), w.Number); ok {
		if raw, err := env.Encode(); err == nil {
			w.Sum = session.EnvelopeSum(raw)
		}
	}
	return w
}

// comes asks what is held of the incarnation of a worker that asks for a session, here and by all
// who hold a seat: its coordinator says so in the Welcome.
func (s *statuses) comes(ctx context.Context, peer taskstate.PeerID, h *session.Hello) (coordinator.Known, error) {
	c := highwater.SessionRequest{Resumes: h.Session != "", Last: h.Last}
	s.replica.Read(func(st *ledger.State) {
		m, _ := st.Member(peer)
		c.Registered = m.Incarnation == h.Incarnation
	})
	w, err := s.asker.Of(ctx, peer, h.Incarnation, c)
	return coordinator.Known{Batch: w.Number, Sum: w.Sum}, err
}

func (s *statuses) ingest(env digest.Envelope, keep func(digest.Envelope) bool) (b taskstate.Batch, fresh bool, err error) {
	key := batchKey{env.Author, env.Incarnation, env.Number}
	b, body, ok := s.remembered(key)
	if ok && bytes.Equal(body, env.Body) {
		return b, false, nil
	}
	if !s.admits(env.Author) {
		return b, false, fmt.Errorf("statuses of %s, which is not admitted", env.Author)
	}
	if err := env.Verify(p2p.Verify); err != nil {
		return taskstate.Batch{}, false, err
	}
	if ok {
		s.hearOwn(env, true)
		s.faults.twice(key)
		return b, false, nil
	}
	s.hearOwn(env, false)
	return s.merge(env, keep)
}

// merge takes in an envelope whose signature is right.
func (s *statuses) merge(env digest.Envelope, keep func(digest.Envelope) bool) (b taskstate.Batch, fresh bool, err error) {
	key := batchKey{env.Author, env.Incarnation, env.Number}
	if b, err = taskstate.DecodeBatch(env.Body); err != nil {
		return b, false, err
	}
	if b.Author != env.Author || string(b.Incarnation) != env.Incarnation || b.Number != env.Number {
		return b, false, fmt.Errorf("envelope of %s holds a batch of %s", env.Author, b.Author)
	}
	fresh = keep(env)
	if !fresh {
		if first, other := s.first(env); other {
			s.hearOwn(env, true)
			s.faults.twice(key)
			return first, false, nil
		}
	}
	s.remember(key, env.Body, b)
	if fresh {
		s.mergeAndTell(b)
	}
	return b, fresh, nil
}

func (s *statuses) remembered(key batchKey) (b taskstate.Batch, body []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.recent {
		if s.recent[i].key == key {
			return s.recent[i].batch, s.recent[i].body, true
		}
	}
	return b, nil, false
}

func (s *statuses) remember(key batchKey, body []byte, b taskstate.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent[s.slot] = recentBatch{key, body, b}
	s.slot = (s.slot + 1) % recentBatches
}

func (s *statuses) mergeAndTell(b taskstate.Batch) {
	s.highwater.Noted()
	s.order.Lock()
	defer s.order.Unlock()
	news, _ := s.table.Merge(b)
	s.report(news)
}

// keepUp has the table follow the replica.
func (s *statuses) keepUp(ev ledger.Event) {
	s.order.Lock()
	defer s.order.Unlock()
	s.report(ledger.KeepUp(s.table, ev))
}

// refill merges all kept batches anew whenever the table says that it lost some, until ctx ends.
func (s *statuses) refill(ctx context.Context, store *digest.Store) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.spilled:
		}
		var all []digest.Range
		for _, m := range store.Marks() {
			all = append(all, digest.Range{Stream: m.Stream, From: 1, To: m.Top})
		}
		envelopes, _ := store.Missing(all, math.MaxInt)
		for _, e := range envelopes {
			if b, err := taskstate.DecodeBatch(e.Body); err == nil {
				s.mergeAndTell(b)
			}
		}
		if pause.For(ctx, refillEvery) != nil {
			return nil
		}
	}
}

// refillEvery is the pause after merging everything anew: a replica far behind comes nearer in many
// steps.
const refillEvery = time.Second

// moved is told after every step of the replica.
func (s *statuses) moved() {
	if s.table.Spilled() {
		s.spilled.Set()
	}
}

// fromTopic is what the topic asks about every message: only news travels on.
func (s *statuses) fromTopic(_ string, raw []byte) p2p.Acceptance {
	env, err := digest.Decode(raw)
	if err != nil {
		return p2p.Reject
	}
	if !s.allows(env) {
		s.faults.flooded(env.Author)
		return p2p.Ignore
	}
	_, fresh, err := s.ingest(env, s.offer)
	switch {
	case err != nil:
		return p2p.Reject
	case fresh:
		return p2p.Accept
	}
	return p2p.Ignore
}

// open is what the coordinator asks about an envelope that came up a session.
func (s *statuses) open(peer string, raw []byte) (taskstate.Batch, error) {
	b, _, err := s.accept(raw)
	if err == nil && b.Author != peer {
		err = fmt.Errorf("%s sent statuses of %s as its own", peer, b.Author)
	}
	return b, err
}

// first is the batch that is kept under the number of env; other tells that it is another than
// env's.
func (s *statuses) first(env digest.Envelope) (b taskstate.Batch, other bool) {
	held, ok := s.store.Held(env.Author, env.Incarnation, env.Number)
	if !ok || bytes.Equal(held.Body, env.Body) {
		return b, false
	}
	b, err := taskstate.DecodeBatch(held.Body)
	return b, err == nil
}
