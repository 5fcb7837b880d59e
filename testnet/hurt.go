package testnet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"covey/node/api"
)

func (n *Net) signal(k int, f func(*proc) error) error {
	p, err := n.peer(k)
	if err != nil {
		return err
	}
	if !n.Running(k) {
		return api.Errorf(api.Conflict, "peer %d does not run; start it with `peer testnet restart %d`", k, k)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return f(p)
}

// Pause freezes peer k's process (SIGSTOP): its connections stay open and nothing is answered, as
// with a machine that swaps or a laptop whose lid is shut.
func (n *Net) Pause(k int) error {
	return n.signal(k, func(p *proc) error {
		if err := suspend(p.cmd.Process); err != nil {
			return fmt.Errorf("pause peer %d: %w", k, err)
		}
		p.paused = true
		return nil
	})
}

// Unpause lets a paused peer go on, and tells it about the partition in force.
func (n *Net) Unpause(ctx context.Context, k int) error {
	err := n.signal(k, func(p *proc) error {
		if err := resume(p.cmd.Process); err != nil {
			return fmt.Errorf("let peer %d go on: %w", k, err)
		}
		p.paused = false
		return nil
	})
	if err != nil {
		return err
	}
	return n.reapply(ctx)
}

// Paused tells whether peer k is paused.
func (n *Net) Paused(k int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.peers[k-1].paused
}

// Halt asks peer k to end in order (SIGTERM: back soon) and returns when it is gone; one that does
// not end in time is killed, and that is an error.
func (n *Net) Halt(ctx context.Context, k int) error {
	if err := n.signal(k, func(p *proc) error { return interrupt(p.cmd.Process) }); err != nil {
		return err
	}
	n.mu.Lock()
	gone := n.peers[k-1].gone
	n.mu.Unlock()
	t := time.NewTimer(haltLimit)
	defer t.Stop()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return errors.Join(ctx.Err(), n.Kill(k))
	case <-t.C:
		return errors.Join(fmt.Errorf("peer %d had not ended %s after SIGTERM", k, haltLimit), n.Kill(k))
	}
}

// haltLimit is more than the grace a peer gives itself.
const haltLimit = 20 * time.Second
