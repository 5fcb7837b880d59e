package node

import "context"

// tellSeat tells the other members when this peer's seat among the voters is another one: the coordinator must know it to seat it anew.
func (n *Node) tellSeat(ctx context.Context) error {
	for {
		moved := n.ledger.Reseated()
		n.members.SetSeat(n.ledger.SeatIncarnation())
		select {
		case <-moved:
		case <-ctx.Done():
			return nil
		}
	}
}
