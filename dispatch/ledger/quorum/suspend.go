package quorum

import (
	"errors"
	"slices"

	"covey/dispatch/ledger/quorum/store"
	"covey/taskstate"
)

// suspension is a time in which this peer takes no part in deciding, whatever seat it has: another
// peer goes by the same key, and until a person has settled which is the right one, none of the two
// votes or leads. Guarded by Node.mu.
type suspension struct {
	on   bool
	seat uint64 // generation of the seat that waits, 0 if there is none
}

// errSuspended answers whoever would have this peer take part in deciding meanwhile.
var errSuspended = errors.New("this peer takes no part in deciding: another one goes by the same key")

// Suspend closes this peer's seat, if it has one, until Resume: it gives no vote, leads nothing,
// and follows. What is on disk stays as it is.
func (n *Node) Suspend() error {
	n.life.Lock()
	defer n.life.Unlock()
	n.mu.Lock()
	if n.suspension.on {
		n.mu.Unlock()
		return nil
	}
	n.suspension = suspension{on: true}
	s, voters := n.seat, n.voters
	if s != nil {
		n.suspension.seat = s.generation
		n.bound.rise(s)
	}
	n.mu.Unlock()
	if s == nil {
		return nil
	}
	err := n.closeSeat()
	n.awaitTerm()
	n.mu.Lock()
	for _, v := range voters { // there may be one to follow
		if v.Peer != n.cfg.Self && !slices.Contains(n.contacts, v.Peer) {
			n.contacts = append(n.contacts, v.Peer)
		}
	}
	n.mu.Unlock()
	n.setCoordinator("", taskstate.Epoch{})
	n.kick()
	return err
}

// Resume ends a suspension: this peer takes its seat again.
func (n *Node) Resume() error {
	n.life.Lock()
	defer n.life.Unlock()
	n.mu.Lock()
	was := n.suspension
	n.suspension = suspension{}
	n.mu.Unlock()
	if !was.on || was.seat == 0 {
		return nil
	}
	defer n.kick()
	err := n.openSeat(was.seat, nil)
	if bad := new(store.Unsound); errors.As(err, &bad) {
		return n.loseSeat(was.seat, bad)
	}
	return err
}

func (n *Node) suspended() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.suspension.on
}
