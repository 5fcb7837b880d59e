package membership

import (
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"

	"github.com/hashicorp/memberlist"
)

// Hint says who coordinates, as far as anybody said. It is a hint about whom to ask: only a voter's
// own word counts.
type Hint struct {
	_           struct{} `cbor:",toarray"`
	Epoch       taskstate.Epoch
	Coordinator string // peer id
}

// newer orders hints: by epoch; two coordinators of one epoch cannot be, but if somebody says so,
// all settle on the same one.
func (h Hint) newer(o Hint) bool {
	if c := h.Epoch.Compare(o.Epoch); c != 0 {
		return c > 0
	}
	return h.Coordinator > o.Coordinator
}

// encode is nil for the zero Hint.
func (h Hint) encode() []byte {
	if h.Epoch.IsZero() {
		return nil
	}
	b, err := wire.Marshal(h)
	if err != nil {
		return nil // plain values always encode
	}
	return b
}

func decodeHint(b []byte) (Hint, bool) {
	var h Hint
	if len(b) > maxMeta || wire.Unmarshal(b, &h) != nil || h.Epoch.IsZero() || h.Coordinator == "" {
		return Hint{}, false
	}
	return h, true
}

// Hint is the one with the highest epoch that was ever seen; zero if none was.
func (m *Membership) Hint() Hint {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hint
}

// SetHint says who coordinates; older news than what is known is ignored. A peer that coordinates
// itself tells everybody alive at once, another those that are near; gossip tells the rest.
func (m *Membership) SetHint(h Hint) {
	if h.Epoch.IsZero() || h.Coordinator == "" || !m.takeHint(h) {
		return
	}
	list := m.running()
	if list == nil {
		return // it will be in the first push/pull
	}
	msg := h.encode()
	others := list.Members()
	if len(others) > LargeCluster {
		return // gossip does it
	}
	for _, n := range others {
		if n.Name == m.self || h.Coordinator != m.self && !m.near.has(n.Name) {
			continue
		}
		// A copy: memberlist changes its own, all but the name, while others read it.
		to := memberlist.Node{Name: n.Name, Addr: syntheticIP(n.Name), Port: wantedPort, PMax: memberlist.ProtocolVersionMax}
		_ = list.SendBestEffort(&to, msg)
	}
}

// OnHint registers f for every newer hint, from any peer. Several in a row may come as the
// last one. cancel takes it back.
func (m *Membership) OnHint(f func(Hint)) (cancel func()) { return m.hintWatch.add(f) }

func (m *Membership) hintFrom(b []byte) {
	if h, ok := decodeHint(b); ok && m.cfg.Admitted(h.Coordinator) {
		m.takeHint(h)
	}
}

// takeHint stores and gossips a newer hint.
func (m *Membership) takeHint(h Hint) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !h.newer(m.hint) {
		return false
	}
	m.hint = h
	m.hints.QueueBroadcast(hintBroadcast(h.encode()))
	m.signal.Set()
	m.pump.ring()
	return true
}

// hintBroadcast is gossiped; a newer one replaces it.
type hintBroadcast []byte

var _ memberlist.NamedBroadcast = hintBroadcast(nil)

func (hintBroadcast) Name() string { return "hint" }

func (hintBroadcast) Invalidates(o memberlist.Broadcast) bool {
	_, ok := o.(hintBroadcast)
	return ok
}

func (h hintBroadcast) Message() []byte { return h }

func (hintBroadcast) Finished() {}
