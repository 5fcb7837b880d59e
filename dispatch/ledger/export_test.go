package ledger

import (
	"errors"

	"covey/taskstate"
)

// SnapshotsTaken is how many snapshots this peer has taken from voters it followed.
func (n *Node) SnapshotsTaken() int { return int(n.snapshots.Load()) }

// Kept is what the finished jobs are taken to weigh.
func (s *State) Kept() int { return s.kept }

// Forms is how many different ends a job keeps.
func (j *JobRecord) Forms() int { return len(j.forms.list) }

// Unchained is the state without its rolling checksum, which every entry changes, whatever it comes to.
func (s *State) Unchained() *State {
	s.chain = chain{}
	return s
}

// HasSeat tells whether this peer runs raft.
func (n *Node) HasSeat() bool { return n.currentSeat() != nil }

// SnapshotNow makes raft take a snapshot and forget most of its log.
func (n *Node) SnapshotNow() error { return n.currentSeat().raft.Snapshot().Error() }

// FirstLogIndex is the oldest entry raft still has.
func (n *Node) FirstLogIndex() (uint64, error) { return n.currentSeat().store.FirstIndex() }

// Replay lets the node hear of a committed configuration as raft does while it replays its log.
func (n *Node) Replay(index uint64, vs ...Voter) { n.setVoters(index, vs) }

// firstSeat draws the incarnation that tests give their seats.
func firstSeat() taskstate.Incarnation { return "1" }

// Corrupt makes the replica another one without anybody's decision, as a bad memory does.
func (n *Node) Corrupt() {
	n.rep.mu.Lock()
	defer n.rep.mu.Unlock()
	if len(n.rep.st.order) > 0 {
		j := n.rep.st.order[0]
		delete(n.rep.st.jobs, j.job.ID)
		n.rep.st.order = n.rep.st.order[1:]
	}
}

// FindUnsound is what happens when something in this peer's log cannot be believed.
func (n *Node) FindUnsound(why string) { n.seatUnsound(n.currentSeat(), errors.New(why)) }
