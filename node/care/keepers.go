package care

import (
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/readers"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// Keepers tells who may keep files for jobs.
type Keepers struct {
	Self    taskstate.PeerID
	Members func() *membership.View
	Roster  *admission.Roster
	Readers *readers.Readers
	Replica *ledger.Replica
}

// Peers implements Config.Peers.
func (k *Keepers) Peers() map[taskstate.PeerID]Peer {
	out := map[taskstate.PeerID]Peer{}
	seen := k.Members()
	for _, e := range k.Roster.All() {
		if !k.Roster.Admitted(e.Peer) {
			continue
		}
		m, met := seen.Get(e.Peer)
		out[e.Peer] = Peer{Here: e.Peer == k.Self || met && m.Verdict != membership.Dead, Since: m.Since, Blind: !k.Readers.All(e.Peer)}
	}
	k.Replica.Read(func(s *ledger.State) {
		for id, p := range out {
			if m, ok := s.Member(id); ok && m.Availability == ledger.AvailDrain {
				p.Drained = true
				out[id] = p
			}
		}
	})
	return out
}

// Of are the other members that are here and may read what a peer's jobs leave, but for those that
// are drained.
func (k *Keepers) Of(submitter taskstate.PeerID) (here []taskstate.PeerID) {
	for id, p := range k.Peers() {
		if v := k.Members().Verdict(id); id != k.Self && v == membership.Alive && !p.Drained && (!p.Blind || id == submitter) {
			here = append(here, id)
		}
	}
	return here
}
