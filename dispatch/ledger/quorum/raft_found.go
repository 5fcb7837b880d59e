package quorum

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"covey/dispatch/ledger"
	"covey/p2p/wire"
	"covey/taskstate"
)

// Found begins a new ledger with this peer as its only voter, and returns once the founding entry is applied. The folder must hold
// no ledger yet.
func (n *Node) Found(ctx context.Context, f ledger.Found) error {
	p, err := newProposal([]ledger.Command{{Found: &f}})
	if err != nil {
		return err
	}
	data, err := foundingEntry(n, f, p)
	if err != nil {
		return err
	}
	n.life.Lock()
	if n.currentSeat() != nil || n.rep.Applied() != 0 {
		n.life.Unlock()
		return errFounded
	}
	err = n.beginSeat(f.Generation, data)
	n.life.Unlock()
	if err != nil {
		return err
	}
	for {
		wait := n.moved.wait()
		if n.rep.Applied() > 0 {
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second): // raft lost the race for its own vote; look again
		}
	}
}

// errFounded refuses to found a ledger where there is one.
var errFounded = errors.New("this folder holds a ledger already; take an empty one to found another")

// foundingEntry is the first decision of a ledger, in its first epoch.
func foundingEntry(n *Node, f ledger.Found, p *proposal) ([]byte, error) {
	if f.Generation == 0 {
		return nil, errors.New("a ledger's first generation is 1")
	}
	return wire.Marshal(rawEntry{Epoch: taskstate.At(f.Generation, 1), Stamp: n.cfg.Now().UnixMilli(), By: n.cfg.Self, Commands: p.commands})
}

// beginSeat opens a seat in an empty folder: what an earlier, unfinished beginning left there is removed. The caller holds life.
func (n *Node) beginSeat(generation uint64, first []byte) error {
	if n.suspended() {
		return errSuspended
	}
	n.mu.Lock()
	n.bound, n.tenure.marked = logBound{}, false
	n.mu.Unlock()
	if err := os.RemoveAll(n.seatDir(generation)); err != nil {
		return fmt.Errorf("make the ledger's folder: %w", err)
	}
	return n.openSeat(generation, first)
}
