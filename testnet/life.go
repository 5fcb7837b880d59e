package testnet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coveyproject/covey/node"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/runner/supervise"
)

// Kill ends peer k's process as a power cut would (SIGKILL) and returns when it is gone.
func (n *Net) Kill(k int) error {
	var gone <-chan struct{}
	err := n.signal(k, func(p *proc) error {
		gone = p.gone
		if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("kill peer %d: %w", k, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	<-gone
	return nil
}

// Lose kills peer k for good: its disk is gone, too.
func (n *Net) Lose(k int) error {
	if err := n.Kill(k); err != nil {
		return err
	}
	err := os.RemoveAll(n.Data(k))
	for try := 0; err != nil && try < loseTries; try++ { // what it ran may still have written there
		time.Sleep(loseWait)
		err = os.RemoveAll(n.Data(k))
	}
	if err != nil {
		return fmt.Errorf("remove the disk of peer %d: %w", k, err)
	}
	return nil
}

const (
	loseTries = 20
	loseWait  = 50 * time.Millisecond
)

// Restart starts peer k again with its data folder (after a kill if it still runs) and a port of
// its own choice.
func (n *Net) Restart(ctx context.Context, k int) error {
	p, err := n.peer(k)
	if err != nil {
		return err
	}
	if n.Running(k) {
		if err := n.Kill(k); err != nil {
			return err
		}
	}
	// Without its note of the last port it takes another: the harder case for those who look for
	// it.
	if err := os.Remove(filepath.Join(p.data, "port")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("restart peer %d: %w", k, err)
	}
	return n.Revive(ctx, k)
}

// Revive starts peer k, which does not run, again where it was: with its data folder and, if it is
// still free, its port. Peers of which nobody stayed find each other by that alone.
func (n *Net) Revive(ctx context.Context, k int) error {
	p, err := n.peer(k)
	if err != nil {
		return err
	}
	if n.Running(k) {
		return api.Errorf(api.Conflict, "peer %d runs", k)
	}
	if err := n.launch(ctx, p, ""); err != nil {
		return err
	}
	return n.reapply(ctx)
}

// Partition cuts the peers into groups that cannot reach each other: existing connections too, in
// both directions. Peers in no group are a group of their own.
func (n *Net) Partition(ctx context.Context, groups [][]int) error {
	for _, g := range groups {
		for _, k := range g {
			if _, err := n.peer(k); err != nil {
				return err
			}
		}
	}
	n.mu.Lock()
	n.cut = groups
	n.mu.Unlock()
	return n.reapply(ctx)
}

// Heal ends a partition.
func (n *Net) Heal(ctx context.Context) error { return n.Partition(ctx, nil) }

// blockLimit is how long a peer may take to hear that.
const blockLimit = 5 * time.Second

// reapply tells every running peer whom it may not reach, and how slow it is.
func (n *Net) reapply(ctx context.Context) error {
	n.mu.Lock()
	group, rates := make([]int, len(n.peers)), make([]int64, len(n.peers))
	for i, g := range n.cut {
		for _, k := range g {
			group[k-1] = i + 1
		}
	}
	ids := make([]string, len(n.peers))
	for i, p := range n.peers {
		ids[i], rates[i] = p.id, p.rate
	}
	n.mu.Unlock()
	var errs []error
	for i, p := range n.peers {
		if !n.Running(p.k) || n.Paused(p.k) {
			continue
		}
		blocked := []string{}
		for j := range n.peers {
			if group[i] != group[j] {
				blocked = append(blocked, ids[j])
			}
		}
		one, cancel := context.WithTimeout(ctx, blockLimit)
		errs = append(errs, p.client.Block(one, api.Block{Peers: blocked, Rate: rates[i]}))
		cancel()
	}
	return errors.Join(errs...)
}

// stopGrace is how long a peer may take to end in order before it is killed.
const stopGrace = 10 * time.Second

// Stop ends all peers and their tasks and, unless asked to keep it, removes the testnet's folder.
func (n *Net) Stop() {
	var wg sync.WaitGroup
	for _, p := range n.peers {
		if !n.Running(p.k) {
			continue
		}
		wg.Go(func() {
			if n.Paused(p.k) {
				_ = resume(p.cmd.Process)
			}
			_ = interrupt(p.cmd.Process)
			select {
			case <-p.gone:
			case <-time.After(stopGrace):
				_ = p.cmd.Process.Kill()
				<-p.gone
			}
		})
	}
	wg.Wait()
	for _, p := range n.peers {
		p.client.Close()
		if err := supervise.EndAll(node.TasksFolder(p.data)); err != nil {
			fmt.Fprintf(n.cfg.Talk, "tasks of peer %d may still run: %v\n", p.k, err)
		}
	}
	if !n.cfg.Keep {
		_ = os.RemoveAll(n.cfg.Dir)
	}
}

// Quit ends all peers at once, without goodbyes: for measurements that need nothing of them any
// more.
func (n *Net) Quit() {
	for _, p := range n.peers {
		if n.Running(p.k) {
			_ = n.Kill(p.k)
		}
	}
	n.Stop()
}
