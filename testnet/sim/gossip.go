package sim

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/membership/verdict"
	"github.com/coveyproject/covey/taskstate"
)

// view is what one peer thinks of another.
type view struct {
	verdict verdict.Verdict
	since   time.Duration
	misses  int
	never   bool // it has not been seen alive since this process began
}

// look is a round of probes: whom this peer reaches, itself or through another, lives.
func (l *life) look() {
	w := l.w
	for n, o := range w.peers {
		if o == l.p {
			l.judge(n, verdict.Alive)
			continue
		}
		v := &l.views[n]
		if !l.answers(o) {
			v.misses++
			switch {
			case v.verdict == verdict.None && !(l.book && v.misses >= 6): // only who keeps a book knows whom it misses
			case v.misses >= 4 || v.misses >= 1 && !o.off && !o.up() && w.net.both(l.p, o) && w.chance(0.5): // it refuses
				l.judge(n, verdict.Dead)
			case v.verdict == verdict.Alive:
				l.judge(n, verdict.Suspect)
			}
			continue
		}
		v.misses = 0
		if v.verdict == verdict.Alive && !w.calm && w.chance(0.0005) {
			l.judge(n, verdict.Suspect) // a rumour, to be refuted
			continue
		}
		l.judge(n, verdict.Alive)
	}
	if o := l.someone(); o != nil && o.life != nil {
		l.hear(o.life.hint)
		o.life.hear(l.hint)
	}
}

// answers tells whether o can be reached, directly or by way of one other.
func (l *life) answers(o *peer) bool {
	w := l.w
	alive := func(p *peer) bool { return p.up() && p.frozen <= w.now() }
	if !alive(o) {
		return false
	}
	if w.net.both(l.p, o) {
		return true
	}
	for _, k := range w.peers {
		if k != o && k != l.p && alive(k) && w.net.both(l.p, k) && w.net.both(k, o) {
			return true
		}
	}
	return false
}

// judge changes a verdict.
func (l *life) judge(n int, now verdict.Verdict) {
	v := &l.views[n]
	if v.verdict == now {
		return
	}
	w := l.w
	was := v.verdict
	v.never = now == verdict.Dead && (was == verdict.None || v.never)
	v.verdict, v.since = now, w.now()
	if w.tracing() {
		w.tracef("%s finds %s %s", l.p.id, w.peers[n].id, now)
	}
	if t := l.term; t != nil {
		if now == verdict.Alive {
			delete(t.probes, w.peers[n].id)
		}
		t.put(coordinator.PeerVerdict{Peer: w.peers[n].id, Verdict: now, Since: l.mono(), Never: v.never})
	}
	if now == verdict.Alive && was != now && w.peers[n] != l.p {
		l.after(w.ms(0, 50), func() { l.exchange(w.peers[n]) })
		l.client.met(w.peers[n])
	}
}

// someone draws a peer that can be talked with; nil if there is none.
func (l *life) someone() *peer {
	w := l.w
	at := w.rng.IntN(len(w.peers))
	for i := range w.peers {
		o := w.peers[(at+i)%len(w.peers)]
		if o != l.p && o.up() && o.frozen <= w.now() && w.net.both(l.p, o) {
			return o
		}
	}
	return nil
}

// rumour brings a hint to a peer, or not.
func (w *world) rumour(from, to *peer, h hint) {
	if w.chance(0.1) {
		return
	}
	w.after(w.net.delay(from, to)+w.ms(0, 200), func() {
		if l := to.life; l != nil && w.net.passes(from, to) {
			l.thaw(func() { l.hear(h) })
		}
	})
}

// hear takes a hint in, if it is news.
func (l *life) hear(h hint) {
	if h.peer == nil || !l.hint.epoch.Less(h.epoch) {
		return
	}
	l.hint = h
	l.client.news()
}

// publish hands an envelope to the topic: some get it late, twice, or never.
func (l *life) publish(raw []byte) {
	w := l.w
	env, b, err := w.openEnvelope(raw)
	if err != nil {
		w.fail("bug", "%s cannot read what it signed: %v", l.p.id, err)
		return
	}
	l.keep(env, b)
	lost, twice := 0.1, 0.05
	if w.net.lossy > 0 {
		lost = 0.8
	}
	if w.net.double > 0 {
		twice = 0.6
	}
	for _, o := range w.peers {
		if o == l.p || o.life == nil || !w.net.passes(l.p, o) || w.chance(lost) {
			continue
		}
		to := o.life
		for more := true; more; more = w.chance(twice) {
			to.after(w.net.delay(l.p, o)+w.ms(0, 100), func() { to.keep(env, b) })
		}
	}
}

type batchKey struct {
	author, inc string
	number      uint64
	body        [32]byte // a journal that was turned back numbers anew
}

// openEnvelope reads an envelope.
func (w *world) openEnvelope(raw []byte) (digest.Envelope, taskstate.Batch, error) {
	env, err := digest.Decode(raw)
	if err != nil {
		return env, taskstate.Batch{}, err
	}
	b, err := w.batchOf(env)
	return env, b, err
}

// batchOf is what is in an envelope. It is read once.
func (w *world) batchOf(env digest.Envelope) (taskstate.Batch, error) {
	k := batchKey{env.Author, env.Incarnation, env.Number, sha256.Sum256(env.Body)}
	if b, ok := w.batches[k]; ok {
		return b, nil
	}
	b, err := taskstate.DecodeBatch(env.Body)
	if err == nil && (b.Author != env.Author || string(b.Incarnation) != env.Incarnation || b.Number != env.Number) {
		err = fmt.Errorf("envelope %d of %s holds batch %d of %s", env.Number, env.Author, b.Number, b.Author)
	}
	w.batches[k] = b
	return b, err
}

// keep is the one door for statuses: kept for others to pull, merged once.
func (l *life) keep(env digest.Envelope, b taskstate.Batch) {
	w := l.w
	fresh := l.digest.Add(env)
	l.p.show(digest.Stream{Author: env.Author, Incarnation: env.Incarnation}, env.Number)
	if fresh || w.cfg.Break == BreakOverwrite {
		if w.cfg.Break == BreakOverwrite {
			for _, s := range b.Statuses {
				l.table.Forget(s.Task)
			}
		}
		news, _ := l.table.Merge(b)
		w.check.news(l, news)
	}
	l.hearOwn(env)
	if m := l.digest.Mark(env.Author, env.Incarnation); m.Contiguous < m.Top && !l.asking {
		l.asking = true
		l.after(100*time.Millisecond, func() {
			to := w.byID[env.Author]
			if !to.up() || !w.net.both(l.p, to) {
				to = l.someone()
			}
			l.exchange(to)
			l.after(time.Second, func() { l.asking = false })
		})
	}
}

// keepLives tells the digests which incarnations the ledger counts. Its own a peer knows by itself.
func (l *life) keepLives(ev ledger.Event) {
	l.digest.Current(l.p.id, string(l.p.inc))
	l.replica.Lives(ev, func(peer taskstate.PeerID, inc taskstate.Incarnation) {
		if peer != l.p.id {
			l.digest.Current(peer, string(inc))
		}
	})
}

// exchange levels two digests.
func (l *life) exchange(o *peer) {
	w := l.w
	if o == nil || o == l.p || o.life == nil || o.frozen > w.now() || !w.net.both(l.p, o) || w.cfg.Break == BreakNoDigest {
		return
	}
	other := o.life
	l.after(w.net.delay(l.p, o), func() {
		if !other.dead && w.net.both(l.p, o) {
			l.pull(other)
			other.pull(l)
		}
	})
}

// pull takes what the other has and this one has not.
func (l *life) pull(from *life) {
	theirs := from.digest.Marks()
	l.digest.Believe(from.p.id, theirs)
	wants := append(l.digest.Reached(l.p.id, theirs), l.digest.Wants(theirs)...)
	envelopes, _ := from.digest.Missing(wants, 8<<20)
	for _, e := range envelopes {
		b, err := l.w.batchOf(e)
		if err != nil {
			l.w.fail("bug", "%s pulled nonsense: %v", l.p.id, err)
			return
		}
		l.keep(e, b)
	}
	l.digest.Believe(from.p.id, theirs)
}

// refill merges all that is kept anew, after the table lost some for want of room.
func (l *life) refill() {
	l.refilling = false
	var all []digest.Range
	for _, m := range l.digest.Marks() {
		all = append(all, digest.Range{Stream: m.Stream, From: 1, To: m.Top})
	}
	envelopes, _ := l.digest.Missing(all, 1<<40)
	for _, e := range envelopes {
		if b, err := l.w.batchOf(e); err == nil {
			news, _ := l.table.Merge(b)
			l.w.check.news(l, news)
		}
	}
}
