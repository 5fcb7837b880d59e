package quorum

import (
	"errors"
	"slices"

	"github.com/fxamacker/cbor/v2"
	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// SnapshotsTaken is how many snapshots this peer has taken from voters it followed.
func (n *Node) SnapshotsTaken() int { return int(n.snapshotsTaken.Load()) }

// HasSeat tells whether this peer runs raft.
func (n *Node) HasSeat() bool { return n.place.seat.Load() != nil }

// SnapshotNow makes raft take a snapshot and forget most of its log.
func (n *Node) SnapshotNow() error { return n.place.seat.Load().raft.Snapshot().Error() }

// Compact makes raft take a snapshot and forget its whole log.
func (n *Node) Compact() error {
	s := n.place.seat.Load()
	if err := s.reload(func(c *raft.ReloadableConfig) { c.TrailingLogs = 0 }); err != nil {
		return err
	}
	return s.raft.Snapshot().Error()
}

// FirstLogIndex is the oldest entry raft still has.
func (n *Node) FirstLogIndex() (uint64, error) { return n.place.seat.Load().store.FirstIndex() }

// LogEnds are the term and the index of the last entry of this voter's log.
func (n *Node) LogEnds() (term, index uint64) {
	end := n.place.seat.Load().end()
	return end.term, end.index
}

// Point is what this voter shows of an entry of its log.
func (n *Node) Point(index uint64) any { return n.place.point(index) }

// SendAgain sends another voter, as a leader would, the last entry of this one's log, appended at
// another moment.
func (n *Node) SendAgain(to string) error {
	s := n.place.seat.Load()
	var l, before raft.Log
	if err := errors.Join(s.store.GetLog(s.raft.LastIndex(), &l), s.store.GetLog(s.raft.LastIndex()-1, &before)); err != nil {
		return err
	}
	l.AppendedAt = l.AppendedAt.Add(1)
	return s.trans.AppendEntries(raft.ServerID(to), raft.ServerAddress(to), &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(s.self.server()), Addr: []byte(s.self.server())},
		Term:      s.raft.CurrentTerm(), PrevLogEntry: before.Index, PrevLogTerm: before.Term, Entries: []*raft.Log{&l}, LeaderCommitIndex: before.Index,
	}, &raft.AppendEntriesResponse{})
}

// Replay lets the node hear of a committed configuration as raft does while it replays its log.
func (n *Node) Replay(index uint64, vs ...Voter) { n.authority.setVoters(index, vs) }

// firstSeat draws the incarnation that tests give their seats.
func firstSeat() taskstate.Incarnation { return "1" }

// Corrupt makes the replica another one without anybody's decision, as a bad memory does: it has
// the oldest job no more.
func (n *Node) Corrupt() error {
	b, err := n.place.rep.Encode()
	if err != nil {
		return err
	}
	const jobs = 12 // of the snapshot's fields
	var fields map[int]cbor.RawMessage
	var list []cbor.RawMessage
	if err := errors.Join(wire.Unmarshal(b, &fields), wire.Unmarshal(fields[jobs], &list)); err != nil {
		return err
	}
	if fields[jobs], err = wire.Marshal(slices.Delete(list, 0, 1)); err != nil {
		return err
	}
	if b, err = wire.Marshal(fields); err != nil {
		return err
	}
	st, err := ledger.DecodeState(b)
	if err != nil {
		return err
	}
	n.place.rep.Reset(st)
	return nil
}

// FindUnsound is what happens when something in this peer's log cannot be believed.
func (n *Node) FindUnsound(why string) { n.seating.unsound(n.place.seat.Load(), errors.New(why)) }
