package node

import (
	"context"

	"covey/node/api"
)

// tellSeat tells the other members when this peer's seat among the voters is another one: the
// coordinator must know it to seat it anew.
func (n *Node) tellSeat(ctx context.Context) error {
	for {
		moved := n.ledger.Reseated()
		n.members.SetSeat(n.ledger.SeatIncarnation())
		n.noteLoss()
		select {
		case <-moved:
		case <-ctx.Done():
			return nil
		}
	}
}

// noteLoss keeps what is said about this peer's lost log with its other troubles.
func (n *Node) noteLoss() {
	l := n.ledger.Lost()
	if l == nil {
		n.troubles.Clear(n.self, api.TroubleLogLost)
		return
	}
	n.troubles.Set(n.self, api.TroubleLogLost, n.view.Deciders.LossText(*l)+" It is seated anew, without help, as soon as there is a coordinator; what is left of the log is in "+l.Folder)
}
