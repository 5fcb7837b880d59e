package membership

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Peers is where others can be dialled, for tickets and answers: alive ones first, then the rest of
// the book.
func (m *Membership) Peers() []PeerAddr {
	m.mu.Lock()
	defer m.mu.Unlock()
	var alive, rest []PeerAddr
	for _, x := range m.currentView().Members {
		if x.ID != m.self && x.Verdict == Alive {
			alive = append(alive, PeerAddr{ID: x.ID, Addrs: x.Addrs})
		}
	}
	for _, r := range m.book.peers {
		if e := m.table.entries[r.ID]; (e == nil || e.verdict() != Alive) && m.cfg.Admitted(r.ID) {
			rest = append(rest, PeerAddr{ID: r.ID, Addrs: r.Addrs})
		}
	}
	return append(alive, rest...)
}

// Join makes contact with peers by address: to found a neighbourhood, or because a ticket or the
// roster names them. They go into the peer book, so that those that do not answer are tried again.
// The error says why none of them answered; one that does is enough.
func (m *Membership) Join(ctx context.Context, peers []PeerAddr) error {
	select {
	case <-m.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	var ids []string
	m.mu.Lock()
	for _, p := range peers {
		if p.ID != m.self && p.ID != "" {
			m.book.told(p)
			ids = append(ids, p.ID)
		}
	}
	m.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	var mu sync.Mutex
	var errs []error
	m.reach.reachAll(ctx, ids, func(id string, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", id, err))
		}
	})
	if len(errs) == len(ids) {
		return fmt.Errorf("no contact with any of %d peers: %w", len(ids), errors.Join(errs...))
	}
	return nil
}

// reachAll reaches several peers, ReachAtOnce at a time, and reports each.
func (r *reacher) reachAll(ctx context.Context, ids []string, report func(id string, err error)) {
	each(ids, func(id string) {
		if ctx.Err() == nil {
			report(id, r.reach(ctx, id))
		}
	})
}

// WithoutTime is a peer that gets too little time itself.
func WithoutTime(c *Config) { c.strained = func() bool { return true } }
