package ledger

// SnapshotsTaken is how many snapshots this peer has taken from voters it followed.
func (n *Node) SnapshotsTaken() int { return int(n.snapshots.Load()) }

// HasSeat tells whether this peer runs raft.
func (n *Node) HasSeat() bool { return n.currentSeat() != nil }
