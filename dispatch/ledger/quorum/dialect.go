package quorum

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"covey/dispatch/ledger"
	"covey/p2p/wire"
)

// speaks tells whether all members could read what is to be decided: nil, or a
// *ledger.DialectError that names those that are to be upgraded.
func (p *place) speaks(v any) (err error) {
	if wire.Needs(v) == 1 {
		return nil
	}
	p.rep.Read(func(s *ledger.State) { err = s.Dialects().Speaks(v) })
	return err
}

// ErrNewer is what a peer comes to whose ledger holds what a newer program wrote.
var ErrNewer = errors.New("the ledger holds what only a newer version of peer can read: install the newest version of the cluster here, and start this peer again")

func newerFolder(err error) error { return fmt.Errorf("%w (%w)", ErrNewer, err) }

// unread is the entry of a newer program that this one cannot read, if it met one. Whoever passed it over would
// make other things of those that follow than everybody else. So the replica stays as it was before
// it; what raft has agreed on stays in the log, and acknowledging more of it needs no reading. This
// peer does not coordinate and makes no snapshot. It ends with a program that reads the entry,
// which begins where this one stopped, or with a snapshot from beyond it that can be read.
type unread struct {
	mu    sync.Mutex
	index uint64 // 0: none
	why   error
}

// stops tells whether an entry is behind the one that could not be read. That one is tried again.
func (u *unread) stops(index uint64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.index != 0 && index > u.index
}

// stop remembers the entry, and says so once.
func (u *unread) stop(index uint64, why error, log *slog.Logger) error {
	u.mu.Lock()
	news := u.index != index
	u.index, u.why = index, why
	u.mu.Unlock()
	if news {
		log.Error("an entry of the ledger cannot be read: nothing is applied from here on", "index", index, "why", u.err())
	}
	return u.err()
}

func (u *unread) clear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.index, u.why = 0, nil
}

// err is why nothing is applied; nil: all is.
func (u *unread) err() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.index == 0 {
		return nil
	}
	return fmt.Errorf("ledger entry %d: %w (%w)", u.index, ErrNewer, u.why)
}

// Unread is why this peer applies no decisions any more, nil if it does.
func (n *Node) Unread() error { return n.place.unread.err() }
