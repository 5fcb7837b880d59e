package sim

import (
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// quorum plays raft: one log of what a majority of the voters has on disk, and the peer that may
// write to it. A new leader holds all of it; what the old one had under way is in it, or lost.
type quorum struct {
	w        *world
	log      []ledger.Entry // log[i] has index i+1
	truth    *ledger.State  // all of it, applied
	term     uint64
	leader   *life // whom the newest term belongs to; may be dead
	lease    time.Duration
	inflight []*proposal
	free     time.Duration // when the disks of a majority have taken the newest entry
	stamps   ledger.Stamps // of the newest leader
	want     *peer         // who is to lead next, on somebody's wish
}

// leadership is one peer's belief that it coordinates. It may outlast the truth.
type leadership struct {
	term  uint64
	epoch taskstate.Epoch
}

type proposal struct {
	by   *life
	lead *leadership
	cmds []ledger.Command
	done func(results []ledger.Result, ok bool)
	over bool
}

const (
	leaseFor   = 500 * time.Millisecond
	electEvery = 100 * time.Millisecond
	clusterID  = "simsimsimsimsims"
)

func (q *quorum) init(w *world) {
	q.w, q.truth = w, ledger.NewState()
	if w.cfg.Break != BreakBelieveAll {
		q.truth.SetVerify(unsealed)
	}
}

func (q *quorum) begin() {
	w := q.w
	founder := w.peers[0]
	entry := func(p *peer) admission.Entry {
		roles := admission.AllRoles()
		return admission.Entry{Cluster: clusterID, Peer: p.id, Name: p.id, Roles: roles, At: birth.UnixMilli(), By: founder.id}
	}
	q.term = 1
	cmds := []ledger.Command{{Found: &ledger.Found{Cluster: clusterID, Generation: 1, Founder: entry(founder), RequireOrders: true}}}
	for _, p := range w.peers[1:] {
		if !p.voter && w.chance(0.1) { // it joins later
			w.after(w.ms(0, 300_000), func() {
				q.order(ledger.Command{Admit: &ledger.Admit{Entry: entry(p)}}, func() bool { return q.isMember(p) })
			})
			continue
		}
		cmds = append(cmds, w.orders.sign(founder, ledger.Command{Admit: &ledger.Admit{Entry: entry(p)}}))
	}
	q.write(ledger.Entry{Epoch: taskstate.At(1, 1), Stamp: birth.UnixMilli(), By: founder.id, Commands: cmds})
	w.after(time.Second, q.watch)
}

// order has a command decided, by the coordinator, and repeats it until it is.
func (q *quorum) order(cmd ledger.Command, done func() bool) {
	w := q.w
	if done() {
		return
	}
	if l := q.leader; l != nil && !l.dead && l.leading != nil {
		q.propose(l, []ledger.Command{w.orders.sign(w.peers[0], cmd)}, func([]ledger.Result, bool) {})
	}
	w.after(w.ms(500, 2000), func() { q.order(cmd, done) })
}

func (q *quorum) isMember(p *peer) bool {
	m, ok := q.truth.Member(p.id)
	return ok && m.In()
}

// write appends an entry to what is decided.
func (q *quorum) write(e ledger.Entry) []ledger.Result {
	e.Index = uint64(len(q.log)) + 1
	if q.w.cfg.Break == BreakLoseAcked {
		e.Commands = slices.Clone(e.Commands)
		for i := range e.Commands {
			if s := e.Commands[i].Submit; s != nil && s.Job.ID[len(s.Job.ID)-1] == '3' {
				e.Commands[i] = ledger.Command{Lead: &ledger.Lead{Chain: true}}
			}
		}
	}
	q.log = append(q.log, e)
	results := q.truth.Apply(e)
	q.w.check.decided(e, results)
	return results
}

// stamp is the time as the newest leader tells it.
func (q *quorum) stamp(l *life) int64 { return q.stamps.At(l.p.wall().UnixMilli(), l.mono()) }

// majority tells whether p can talk with more than half of the voters that run, itself included.
func (q *quorum) majority(p *peer) bool {
	n, all := 0, 0
	for _, v := range q.w.peers {
		if !v.voter {
			continue
		}
		all++
		if v == p || v.up() && v.frozen <= q.w.now() && q.w.net.both(p, v) {
			n++
		}
	}
	return n > all/2
}

// watch is the passing of leases and the elections.
func (q *quorum) watch() {
	w := q.w
	defer w.after(electEvery, q.watch)
	l := q.leader
	if l != nil && !l.dead && l.leading != nil && l.p.frozen <= w.now() && q.majority(l.p) && q.want == nil {
		q.lease = w.now()
		return
	}
	if l != nil && !l.dead && l.leading != nil && q.want == nil && w.chance(0.1) { // it notices
		lead := l.leading
		l.after(0, func() { l.stepDown(lead) })
	}
	if q.want == nil && w.now()-q.lease < leaseFor+w.ms(0, 1500) {
		return
	}
	var able []*peer
	for _, p := range w.peers {
		if p.voter && p.up() && p.frozen <= w.now() && q.majority(p) && (l == nil || p != l.p || l.dead || l.leading == nil) {
			able = append(able, p)
		}
	}
	if q.want != nil && slices.Contains(able, q.want) {
		able = []*peer{q.want}
	}
	q.want = nil
	if len(able) > 0 {
		q.elect(able[w.rng.IntN(len(able))])
	}
}

// elect makes p the coordinator of the next term.
func (q *quorum) elect(p *peer) {
	w := q.w
	if old := q.leader; old != nil && old.leading != nil {
		// It learns of it when it learns of it: two may believe to coordinate.
		lead := old.leading
		d := w.ms(0, 1500)
		if w.chance(0.2) {
			d = w.ms(1000, 20_000)
		}
		old.after(d, func() { old.stepDown(lead) })
	}
	for _, x := range q.inflight { // in the new leader's log or not
		if x.over = true; w.chance(0.5) {
			q.write(ledger.Entry{Epoch: x.lead.epoch, Stamp: q.stamp(x.by), By: x.by.p.id, Commands: x.cmds})
		}
		x.by.after(w.ms(0, 500), func() { x.done(nil, false) })
	}
	q.inflight = nil
	if w.cfg.Break != BreakSameTerm {
		q.term++
	}
	w.stats.Elections++
	lead := &leadership{term: q.term, epoch: taskstate.At(1, q.term)}
	q.leader, q.lease = p.life, w.now()
	p.life.stepDown(p.life.leading) // what it believed before
	p.life.leading = lead
	q.stamps = ledger.NewStamps(q.truth.Stamp(), p.life.mono())
	q.write(ledger.Entry{Epoch: lead.epoch, Stamp: q.stamp(p.life), By: p.id, Commands: []ledger.Command{{Lead: &ledger.Lead{Chain: true}}}})
	w.tracef("%s is elected in term %d at index %d", p.id, q.term, len(q.log))
	p.life.applyTo(len(q.log))
	q.spread(p.life)
	for _, o := range w.peers {
		w.rumour(p, o, hint{lead.epoch, p})
	}
	l := p.life
	l.after(w.ms(1, 30), func() { l.coordinate(lead, 0) })
}

// stepDown ends a belief.
func (l *life) stepDown(lead *leadership) {
	if l.leading != lead {
		return
	}
	l.leading = nil
	if t := l.term; t != nil {
		t.end("the lease is over", false)
	}
}

// died tells that a process ended.
func (q *quorum) died(l *life) { l.leading = nil }

// propose asks for a decision. done is called once, unless the process ends before.
func (q *quorum) propose(l *life, cmds []ledger.Command, done func([]ledger.Result, bool)) {
	w := q.w
	if l.leading == nil {
		l.after(0, func() { done(nil, false) })
		return
	}
	x := &proposal{by: l, lead: l.leading, cmds: cmds, done: done}
	if x.lead.term != q.term || l != q.leader {
		x.over = true
		l.after(w.ms(1, 2000), func() { done(nil, false) })
		return
	}
	q.inflight = append(q.inflight, x)
	if k := len(q.inflight); k > 1 && w.chance(0.1) { // two callers race
		q.inflight[k-1], q.inflight[k-2] = q.inflight[k-2], q.inflight[k-1]
	}
	d := w.ms(0, w.temper.quorum)
	if w.chance(0.02) || l.p.slowDisk > 0 {
		d = w.ms(20, 800)
	}
	q.free = max(q.free, w.now()+d)
	w.sched.at(q.free, q.commit)
}

// commit decides the oldest proposal, if the leader has its majority.
func (q *quorum) commit() {
	w := q.w
	if len(q.inflight) == 0 {
		return
	}
	l := q.leader
	switch {
	case l.dead: // the next leader sees to it
		return
	case l.p.frozen > w.now() || !q.majority(l.p):
		w.after(w.ms(50, 150), q.commit)
		return
	}
	x := q.inflight[0]
	q.inflight = q.inflight[1:]
	x.over = true
	results := q.write(ledger.Entry{Epoch: x.lead.epoch, Stamp: q.stamp(x.by), By: x.by.p.id, Commands: x.cmds})
	l.applyTo(len(q.log))
	if w.chance(0.003) && !w.calm { // decided, and the caller hears that it may not be
		w.check.ambiguous[x.lead] = true
		l.after(w.ms(0, 1000), func() { x.done(nil, false) })
	} else {
		x.done(results, true)
	}
	q.spread(l)
}

// spread sends what is new to everybody the leader reaches.
func (q *quorum) spread(l *life) {
	n := len(q.log)
	for _, p := range q.w.peers {
		if p == l.p || p.life == nil || !q.w.net.both(l.p, p) || q.w.chance(0.02) {
			continue
		}
		to := p.life
		to.after(q.w.net.delay(l.p, p), func() {
			if q.w.net.passes(l.p, p) {
				to.applyTo(n)
			}
		})
	}
}

// catchUp asks somebody in reach for what is missing.
func (l *life) catchUp() {
	p := l.someone()
	if p == nil || p.life == nil {
		return
	}
	n, mine := int(p.life.replica.Applied()), int(l.replica.Applied())
	if n <= mine {
		return
	}
	if n-mine > 20 && l.w.chance(0.3) && p.voter { // too far behind: a snapshot
		b, err := p.life.encodedFor(l.p)
		if err != nil {
			l.w.fail("bug", "a snapshot does not encode: %v", err)
			return
		}
		st, err := ledger.DecodeState(b)
		if err != nil {
			l.w.fail("bug", "a snapshot does not decode: %v", err)
			return
		}
		l.replica.Reset(st)
		return
	}
	l.applyTo(n)
}

// applyTo feeds the replica.
func (l *life) applyTo(n int) {
	for i := int(l.replica.Applied()); i < n; i++ {
		e := l.w.quorum.log[i]
		if !l.p.voter && l.w.cfg.Break != BreakTellAll {
			e = e.For(l.p.id)
		}
		l.replica.Apply(e)
	}
}

// encodedFor is the replica as another peer may have it.
func (l *life) encodedFor(p *peer) (b []byte, err error) {
	if p.voter || l.w.cfg.Break == BreakTellAll {
		return l.replica.Encode()
	}
	l.replica.Read(func(st *ledger.State) { b, err = ledger.EncodeFor(st, p.id) })
	return b, err
}
