package node

import (
	"context"
	"fmt"

	"covey/node/calls"
	"covey/p2p/admission"
)

// ticketDoors is how many peers a ticket names: enough that some of them are up.
const ticketDoors = 4

// openDoors are addresses of this peer and of some that are alive, to be found by who joins.
func (n *Node) openDoors() []admission.PeerAddr {
	doors := []admission.PeerAddr{{ID: n.self, Addrs: n.host.Addrs()}}
	for m := range n.members.View().Alive() {
		if m.ID != n.self && len(doors) < ticketDoors && len(m.Addrs) > 0 {
			doors = append(doors, admission.PeerAddr{ID: m.ID, Addrs: m.Addrs})
		}
	}
	return doors
}

// Admit implements admission.Admitter: any peer may be dialled by a stranger, the coordinator
// decides.
func (n *Node) Admit(ctx context.Context, from string, req admission.JoinRequest) (admission.JoinAnswer, error) {
	r, err := n.line.Decide(ctx, calls.Call{Join: &calls.JoinCall{Peer: from, Request: req}})
	if err != nil || r.Join == nil {
		return admission.JoinAnswer{}, fmt.Errorf("no coordinator can decide about newcomers now: %w", err)
	}
	return *r.Join, nil
}
