package membership

import (
	"context"
	"slices"
	"time"

	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/taskstate"
)

const (
	refreshEvery = 5 * time.Second        // own addresses are looked at
	saveDelay    = 300 * time.Millisecond // changes of the book gather for so long
	saveEvery    = 3 * time.Second        // and while there are many, for so long
)

// keep looks after what changes slowly: the own addresses, strangers that were admitted, the peer
// book on disk.
func (m *Membership) keep(ctx context.Context) {
	refresh := time.NewTicker(refreshEvery)
	defer refresh.Stop()
	var saved time.Time
	changes := wake.New()
	defer m.Observe(func(*View) { changes.Set() })()
	for {
		select {
		case <-ctx.Done():
			return
		case <-refresh.C:
			m.refresh()
			m.save(false)
		case <-changes:
			select {
			case <-ctx.Done():
				return
			case <-time.After(max(saveDelay, saveEvery-time.Since(saved))):
				m.save(false)
				saved = time.Now()
			}
		}
	}
}

// SetSeat gossips that this peer's seat among the voters is another one. It may be called before
// Run.
func (m *Membership) SetSeat(seat taskstate.Incarnation) {
	m.mu.Lock()
	same := m.seat == seat
	if !same {
		m.seat = seat
		m.dirty()
	}
	m.mu.Unlock()
	m.tell(same)
}

// refresh gossips the own addresses if they changed.
func (m *Membership) refresh() {
	addrs := m.cfg.Addrs()
	m.mu.Lock()
	m.welcomeStrangers()
	same := slices.Equal(addrs, m.own)
	if !same {
		m.own = slices.Clone(addrs)
		m.dirty()
	}
	m.mu.Unlock()
	m.tell(same)
}

// tell gossips what this peer says about itself, unless it is the same as before.
func (m *Membership) tell(same bool) {
	m.mu.Lock()
	left := m.left
	m.mu.Unlock()
	if list := m.running(); list != nil && !same && !left {
		_ = list.UpdateNode(time.Second) // late is not lost: the news is queued
	}
}

// save writes the book if it changed; always at the end, for the times.
func (m *Membership) save(always bool) {
	if m.cfg.Book == "" {
		return
	}
	m.saving.Lock() // the newest book is written last
	defer m.saving.Unlock()
	m.mu.Lock()
	if !m.book.dirty && !always {
		m.mu.Unlock()
		return
	}
	for id := range m.table.entries {
		if m.table.entries[id].verdict() == Alive {
			m.book.seen(id, time.Now().UnixMilli())
		}
	}
	data := m.book.encode()
	m.book.dirty = false
	m.mu.Unlock()
	if err := writeBook(m.cfg.Book, data); err != nil {
		m.log.Warn("the peer book is not saved; this peer may not find the others after a restart", "err", err)
		m.mu.Lock()
		m.book.dirty = true // tried again with the next refresh
		m.mu.Unlock()
	}
}
