package membership

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/pause"
)

const (
	suspicionAskers = 8 // of so many members, one after the other asks a peer that is suspected
	suspicionTries  = 3 // exchanges with a peer that is suspected and answers
	suspicionShare  = 5 // of Timings.Probe passes before each: most suspicions are refuted by then
)

// suspicion has askSuspected look into what memberlist begins to believe. The lock is held.
// When the queue is full gossip has to do.
func (m *Membership) suspicion(r rumour) {
	if m.large || m.left || !m.near.has(r.node) {
		return // in a large cluster everybody would ask at once, and suspicion is slow there
	}
	select {
	case m.suspicions <- r:
	default:
	}
}

// askSuspected asks peers that are suspected until ctx ends. A refutation is gossiped a few times,
// and a peer that misses all of them goes on to call the peer dead: the next probe takes the
// suspicion along, but its answer says nothing of a refutation that is already out. So the state is
// exchanged with the peer itself; if it has not heard of the suspicion it refutes it now.
func (m *Membership) askSuspected(ctx context.Context) {
	slots := make(chan struct{}, LargeCluster)
	var work sync.WaitGroup
	defer work.Wait() // an exchange ends with memberlist's transport
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-m.suspicions:
			select {
			case slots <- struct{}{}:
			default:
				continue // the cluster has grown large
			}
			work.Go(func() {
				defer func() { <-slots }()
				m.askSuspect(ctx, r)
			})
		}
	}
}

// askSuspect exchanges everything with a peer while it is suspected.
func (m *Membership) askSuspect(ctx context.Context, r rumour) {
	spread := m.timings.Probe / suspicionShare * time.Duration(max(1, m.count.Load()/suspicionAskers))
	for range suspicionTries {
		if pause.For(ctx, m.timings.Probe/suspicionShare+rand.N(spread)) != nil { // not all at the same time: one that asks is enough for all
			return
		}
		list := m.running()
		if list == nil || !m.stillSuspected(r) {
			return
		}
		if _, err := list.Join([]string{joinString(r.node)}); err != nil {
			m.log.Debug("a suspected peer does not answer", "peer", r.node, "err", err)
			continue
		}
		m.pump.ring() // a refutation that came with it is for others too, and shows when it is passed on
	}
}

func (m *Membership) stillSuspected(r rumour) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.left && m.table.suspected(r)
}

// askDead asks a peer that spoke a moment before memberlist called it dead. Most likely it has just
// come back, from the death that the suspicion was about: then it refutes that now.
func (m *Membership) askDead(ctx context.Context, peer string) {
	for range suspicionTries {
		if m.reach.reach(ctx, peer) != nil || pause.For(ctx, m.timings.Probe/suspicionShare) != nil || !m.inDoubt(peer) {
			break
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asking--
	if !m.stopped && m.table.asked(peer) && m.table.gone(peer, time.Now(), false) {
		m.dirty()
		m.log.Info("peer is dead, though it spoke a moment before", "peer", peer)
	}
}

func (m *Membership) inDoubt(peer string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.asked(peer)
}
