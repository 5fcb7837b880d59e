package testnet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/line"
	"github.com/coveyproject/covey/taskstate/spell"
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

// Slow has all connections of peer k together carry so many bytes per second in each direction,
// also after a restart; 0 ends it. What does not pass waits, for up to line.Queue where it begins.
func (n *Net) Slow(ctx context.Context, k int, rate int64) error {
	p, err := n.peer(k)
	if err != nil {
		return err
	}
	n.mu.Lock()
	p.rate = rate
	n.mu.Unlock()
	return n.reapply(ctx)
}

// Slowed tells whether peer k's connections are slowed.
func (n *Net) Slowed(k int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.peers[k-1].rate > 0
}

// ParseRate reads how much a line carries in a second, as in 10Mbit/s or 1MiB/s; off is 0.
func ParseRate(s string) (int64, error) {
	if s == "off" {
		return 0, nil
	}
	wrong := api.Errorf(api.Usage, "rate %q: expected bits or bytes per second, as in 10Mbit/s or 1MiB/s, at least %s, or off", s, FormatRate(line.Least))
	what, ok := strings.CutSuffix(s, "/s")
	if !ok {
		return 0, wrong
	}
	bits := int64(1)
	for _, unit := range []string{"kbit", "Mbit", "Gbit"} {
		if number, ok := strings.CutSuffix(what, unit); ok {
			what, bits = number+map[string]string{"kbit": "kB", "Mbit": "MB", "Gbit": "GB"}[unit], 8
		}
	}
	n, err := spell.Size(what)
	if n /= bits; err != nil || n < line.Least {
		return 0, wrong
	}
	return n, nil
}

// FormatRate writes a rate in bits per second, as networks are named.
func FormatRate(rate int64) string {
	bits := float64(rate) * 8
	for _, u := range []struct {
		unit string
		of   float64
	}{{"Gbit/s", 1e9}, {"Mbit/s", 1e6}} {
		if bits >= u.of {
			return strconv.FormatFloat(bits/u.of, 'g', 3, 64) + u.unit
		}
	}
	return strconv.FormatFloat(bits/1e3, 'g', 3, 64) + "kbit/s"
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
