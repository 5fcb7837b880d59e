package membership

import (
	"context"
	"time"

	"github.com/coveyproject/covey/p2p/admission"
)

// What memberlist tells, through delegate and transport. All of it may come with memberlist's lock
// held.

func (m *Membership) ownMeta() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return meta{
		Name: m.cfg.Name, Incarnation: m.cfg.Incarnation, Seat: m.seat, Start: m.cfg.Start, Roles: packRoles(m.cfg.Roles), Version: m.cfg.Version, Recipient: m.cfg.Recipient, Addrs: m.own,
	}.encode()
}

// joined: a member is alive, or says something new about itself.
func (m *Membership) joined(id string, b []byte) {
	words, err := decodeMeta(m.cfg.wordsOf(b))
	if id == m.self || err != nil { // NotifyAlive has refused the latter
		return
	}
	if admission.CheckName(words.Name) != nil {
		words.Name = "" // it is shown by its key
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return
	}
	now := time.Now()
	m.table.joined(id, words, now)
	m.book.met(id, words, now.UnixMilli())
	delete(m.strangers, id)
	m.cfg.Host.SetAddrs(id, words.Addrs)
	m.dirty()
	m.log.Info("peer is here", "peer", id, "name", words.Name, "addrs", words.Addrs)
}

func (m *Membership) gone(id string) {
	m.pump.ring() // also for this peer's own goodbye
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return
	}
	now := time.Now()
	// Whom memberlist suspects by its own word has been silent for longer than between two probes.
	ask := m.table.spoke(id, now, m.timings.Probe) && m.asking < ReachAtOnce && m.probes.begin(func(ctx context.Context) { m.askDead(ctx, id) })
	if ask {
		m.asking++
	}
	if m.table.gone(id, now, ask) {
		m.dirty()
		m.log.Info("peer is held dead", "peer", id, "asked first", ask)
	}
}

// overheard looks at an outgoing packet.
func (m *Membership) overheard(packet []byte) {
	m.pump.saw(packet)
	rumours(packet, func(r rumour) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.stopped {
			return
		}
		changed, suspicion := m.table.rumoured(r, time.Now())
		if changed {
			m.dirty()
			m.log.Info("peer is suspected, or no longer", "peer", r.node, "verdict", m.table.entries[r.node].verdict().String())
		}
		if suspicion {
			m.suspicion(r)
		}
	})
}

func (m *Membership) pinged(id string, rtt time.Duration) {
	m.Heard(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.table.pinged(id, rtt)
	m.view = nil // the next View has it; observers are not told of round trips
}

func (m *Membership) turnedAway(id string, words meta) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.strangers) < maxStrangers {
		m.strangers[id] = words
	}
}
