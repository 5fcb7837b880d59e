package membership

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/coveyproject/covey/internal/pause"
)

const (
	claimPings   = 2           // a peer claimed gone is pinged so often before the claim is believed
	goodbyeDelay = time.Second // a goodbye that others pass on is looked into after this: until then the leaver still answers
	hearings     = 64          // peers whose claims are looked into at the same time
)

// claim is what somebody says of another: that it is silent, gone, or (of itself) leaving.
type claim struct {
	dead bool
	accuseBody
}

// goodbye: it left by itself, it is said.
func (a claim) goodbye() bool { return a.dead && a.From == a.Node }

func (a claim) encode() []byte {
	if a.dead {
		return encodeMessage(deadMsg, a.accuseBody)
	}
	return encodeMessage(suspectMsg, a.accuseBody)
}

// worse tells whether a claim says more than another of the same peer.
func (a claim) worse(o claim) bool {
	if a.Incarnation != o.Incarnation {
		return a.Incarnation > o.Incarnation
	}
	return a.dead && !o.dead
}

// hearing is a claim that is being looked into.
type hearing struct {
	from string
	claim
}

// claimedGone tells whether memberlist may get a claim now. Any peer can claim it of any other, so
// another's word is a reason to look: the peer is pinged, and what is claimed of it is passed on
// to memberlist if it does not answer. An own word of leaving counts, and so does what this peer
// has seen itself.
func (m *Membership) claimedGone(from string, a claim) bool {
	if a.Node == m.self {
		return a.Incarnation <= m.seal.newest() && m.intake.defence.Allow() // one answer answers them all
	}
	highest, known := m.intake.highest(a.Node)
	if !known || a.Incarnation < highest {
		return false // memberlist has no use for it either
	}
	if a.Incarnation > highest {
		why := ahead
		if a.Incarnation >= maxIncarnation {
			why = forged
		}
		m.refusals.note(from, why, "of "+a.Node)
		return false
	}
	own := a.goodbye() && from == a.Node
	if !a.dead && m.near.spares(a.Node) {
		return false // those near look into it, and say so if it is gone
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.table.judge(a.Node, time.Now(), m.timings.ProbeTimeout) {
	case pointless:
		return false
	case borneOut:
		if a.goodbye() {
			m.table.parting(a.Node)
		}
		return true
	case lively:
		if !a.goodbye() {
			m.refusals.note(from, disproved, "of "+a.Node)
			return false
		}
	}
	if own {
		m.table.parting(a.Node)
	} else {
		m.hear(from, a)
	}
	return own
}

// hear has a claim looked into, or what is worse than the one that is. The lock is held.
func (m *Membership) hear(from string, a claim) {
	h, busy := m.hearings[a.Node]
	switch {
	case busy:
		if a.worse(h.claim) {
			m.hearings[a.Node] = hearing{from, a}
		}
	case len(m.hearings) >= hearings:
		m.refusals.note(from, tooMuch, "")
	case m.probes.begin(func(ctx context.Context) { m.examine(ctx, a) }):
		m.hearings[a.Node] = hearing{from, a}
	}
}

// examine pings a peer that is claimed gone, and passes the claim on if it is silent. Only what
// comes from the peer itself shows that it lives.
func (m *Membership) examine(ctx context.Context, first claim) {
	peer := first.Node
	lives := m.livesOf(peer)
	switch {
	case first.goodbye():
		_ = pause.For(ctx, goodbyeDelay)
		lives = m.livesOf(peer)
	case !m.near.has(peer):
		m.awaitRefutation(ctx, peer)
	}
	for range claimPings {
		if ctx.Err() == nil && m.livesOf(peer) == lives && m.underClaim(peer) {
			m.reach.greet(ctx, peer) // waits for the answer
		}
	}
	newest, _ := m.intake.highest(peer)
	m.mu.Lock()
	h := m.hearings[peer]
	delete(m.hearings, peer)
	silent := !m.stopped && h.Incarnation >= newest && m.table.silence(peer, lives)
	if silent && h.goodbye() { // else it has come back since, and is silent for another reason
		m.table.parting(peer)
	}
	t := m.transport
	m.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case silent:
		t.pass(&memberlist.Packet{Buf: h.encode(), From: peerName(h.from), Timestamp: time.Now()})
	default:
		m.refusals.note(h.from, disproved, "of "+peer)
	}
}

// awaitRefutation waits while a peer that is suspected may still refute it, which it mostly does:
// that is no reason for everybody to connect to it. It ends soon when those near hold it dead and
// this peer gets time enough.
func (m *Membership) awaitRefutation(ctx context.Context, peer string) {
	refutes := time.Duration(m.timings.Suspicion) * m.timings.Probe
	until := time.Now().Add(refutes + rand.N(refutes))
	dead := func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.hearings[peer].dead
	}
	for (!dead() || m.cfg.strained()) && m.underClaim(peer) && time.Now().Before(until) && ctx.Err() == nil {
		_ = pause.For(ctx, m.timings.ProbeTimeout/2)
	}
}

// underClaim tells whether a claim that is looked into still counts: the peer has not refuted it.
func (m *Membership) underClaim(peer string) bool {
	newest, _ := m.intake.highest(peer)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hearings[peer].Incarnation >= newest
}

func (m *Membership) livesOf(peer string) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.table.entries[peer]; e != nil {
		return e.lives
	}
	return 0
}
