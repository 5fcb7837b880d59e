package quorum

import (
	"context"
	"time"

	"github.com/hashicorp/raft"

	"covey/dispatch/ledger/quorum/store"
)

// Health is nil, or why this peer, as a voter, cannot write its log now: it takes no part in
// decisions meanwhile. Others go on without it, as long as they are a majority.
func (n *Node) Health() error {
	if s := n.currentSeat(); s != nil {
		return s.store.Health()
	}
	return nil
}

// errStuck is why a leader whose disk is stuck sends nothing.
type errStuck struct{}

func (errStuck) Error() string { return "this peer's disk is stuck" }

// steadyTransport keeps a leader whose own log is stuck from being taken for one that works: raft
// sends heartbeats from other goroutines than the one that waits for the disk, for ever. Without
// them the others elect another.
type steadyTransport struct {
	*raft.NetworkTransport
	store *store.Log
}

var _ raft.WithPreVote = steadyTransport{}

// AppendEntries implements raft.Transport.
func (t steadyTransport) AppendEntries(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if _, stuck := t.store.Stuck(); stuck {
		return errStuck{}
	}
	return t.NetworkTransport.AppendEntries(id, to, req, resp)
}

// watchDisk says in the log when this voter's disk begins and ceases to take what is written, until
// ctx ends. It ends this peer's own term when the disk is stuck: raft, which waits for the disk,
// cannot. That term is over for good: when the disk answers again, raft hears of the next one from
// the others, or begins one.
func (n *Node) watchDisk(ctx context.Context) {
	t := time.NewTimer(store.Look)
	defer t.Stop()
	var w diskWatch
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.disk.wake:
			t.Reset(store.Look)
			continue
		case <-t.C:
		}
		w.look(ctx, n)
		if !n.disk.park(n.diskBusy) {
			t.Reset(store.Look)
		}
	}
}

// diskWatch is what watchDisk saw last.
type diskWatch struct{ sick, stuck bool }

func (w *diskWatch) look(ctx context.Context, n *Node) {
	s := n.currentSeat()
	if s == nil {
		*w = diskWatch{}
		return
	}
	err := s.store.Health()
	_, stuck := s.store.Stuck()
	switch {
	case err != nil && !w.sick:
		n.cfg.Log.Error("this voter takes no part in decisions", "err", err)
	case err == nil && w.sick:
		n.cfg.Log.Info("this voter takes part in decisions again: its log can be written")
	}
	if stuck && !w.stuck {
		n.resign(ctx)
	} else if w.stuck && !stuck {
		n.renew(ctx, s)
	}
	*w = diskWatch{sick: err != nil, stuck: stuck}
}

// diskBusy tells whether a write is under way, or the last one failed, so that there is something
// to see soon.
func (n *Node) diskBusy() bool {
	s := n.currentSeat()
	return s != nil && s.store.Busy()
}

// resign ends a term as if raft had said that it is over, and has the other voters look for
// themselves.
func (n *Node) resign(ctx context.Context) {
	if n.lead.Load() == nil {
		return
	}
	select {
	case n.notify <- false:
	case <-ctx.Done():
		return
	}
	n.passSuspicion(ctx)
}

// renew gives up raft's own term as well, if it outlived what held up the disk: it was ended here,
// and raft does not say again that it leads.
func (n *Node) renew(ctx context.Context, s *seat) {
	if s.raft.State() != raft.Leader || n.lead.Load() != nil {
		return
	}
	select {
	case n.notify <- true: // a lone voter: nobody was elected meanwhile, and the barrier of serveTerm proves it
	case <-ctx.Done():
	}
}
