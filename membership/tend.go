package membership

import (
	"context"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/internal/strain"
)

const (
	tendAtOnce = 4 // members are looked after at the same time
	strainedBy = 3 // times that one is silent, without a sign of life in between, before a peer that gets too little time itself doubts it
)

// tend looks after the next member that is near. In a large cluster the transport calls it in place
// of each probe of memberlist's, which goes through all members in turn: those near would be probed
// the more seldom the more members there are. It returns at once.
func (n *neighbours) tend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	near := n.hood.near
	if len(near) == 0 || n.tending >= tendAtOnce {
		return
	}
	n.next++
	peer := near[n.next%len(near)]
	if n.m.probes.begin(func(ctx context.Context) { n.lookAfter(ctx, peer) }) {
		n.tending++
	}
}

// tendFar looks after a member in place of memberlist, if its answer to a probe of memberlist's
// would come too late, and reports whether that is so. It returns at once.
func (n *neighbours) tendFar(peer string) bool {
	if far.RTT(n.m.cfg.Net, peer) <= n.m.timings.Probe {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tendedFar[peer] || len(n.tendedFar) >= tendAtOnce {
		return true
	}
	begun := n.m.probes.begin(func(ctx context.Context) {
		n.lookAfter(ctx, peer)
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.tendedFar, peer)
	})
	if begun {
		n.tending++
		n.tendedFar[peer] = true
	}
	return true
}

// lookAfter pings a member, has others ask it if it is silent, and has memberlist suspect it if
// they hear nothing either. One that is dialled for the first time, which takes long where many
// start at once, is pinged only.
func (n *neighbours) lookAfter(ctx context.Context, peer string) {
	defer func() {
		n.mu.Lock()
		n.tending--
		n.mu.Unlock()
	}()
	m := n.m
	if m.known(peer).verdict != Alive {
		return
	}
	met, lives := m.transport.met(peer), m.livesOf(peer)
	m.reach.greet(ctx, peer) // waits for the answer
	silent := func() bool { return met && m.livesOf(peer) == lives && ctx.Err() == nil }
	if n.doubts(peer, lives, silent()) && !n.vouched(ctx, peer) && silent() {
		m.tellGone(peer, false)
	}
}

// silence is how often in a row a member was silent, without a sign of life in between.
type silence struct {
	lives uint64 // its signs of life until then
	times int
}

// doubts notes whether a member was silent just now, and tells whether that is often enough for
// others to be asked.
func (n *neighbours) doubts(peer string, lives uint64, silent bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !silent {
		delete(n.silent, peer)
		return false
	}
	q := n.silent[peer]
	if q.lives != lives {
		q = silence{lives: lives}
	}
	q.times++
	n.silent[peer] = q
	return q.times >= strainedBy || !n.m.cfg.strained()
}

// vouched reports whether other members get an answer from a peer, within about a probe's time, or
// within some round trips to a peer that is far away.
func (n *neighbours) vouched(ctx context.Context, peer string) bool {
	ctx, cancel := strain.Timeout(ctx, far.For(n.m.cfg.Net, peer, n.m.timings.Probe))
	defer cancel()
	return n.m.probes.askOthers(ctx, peer) == answered
}

// tellGone has memberlist, which tells everybody, suspect a peer or hold it dead.
func (m *Membership) tellGone(peer string, dead bool) {
	incarnation, known := m.intake.highest(peer)
	m.mu.Lock()
	t, live := m.transport, known && !m.stopped
	m.mu.Unlock()
	if live && t != nil {
		a := claim{dead, accuseBody{Incarnation: incarnation, Node: peer, From: m.self}}
		t.pass(&memberlist.Packet{Buf: a.encode(), From: peerName(m.self), Timestamp: time.Now()})
	}
}
