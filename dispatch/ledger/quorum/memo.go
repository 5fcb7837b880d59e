package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"covey/p2p/wire"
	"covey/taskstate"
)

// connT shortens the handlers' signatures.
type connT = net.Conn

// memo is what a Node remembers besides log and copy: whether it has a seat, and whom to ask.
type memo struct {
	Seat     uint64             `cbor:"1,keyasint,omitempty"` // generation of the ledger it votes in, 0 = it follows
	Contacts []taskstate.PeerID `cbor:"2,keyasint,omitempty"`
	Log      uint64             `cbor:"3,keyasint,omitempty"` // the seat's log holds everything up to here, on disk and committed
	// Of the seat, or of the next one if there is none; "" in a memo of version 0.1, where it is
	// that of the data folder.
	Incarnation taskstate.Incarnation `cbor:"4,keyasint,omitempty"`
	Voters      []Voter               `cbor:"5,keyasint,omitempty"` // as this peer knew them last, for messages
	Marked      bool                  `cbor:"7,keyasint,omitempty"` // there is a mark of how far the seat's log went
	Lost        *Loss                 `cbor:"6,keyasint,omitempty"` // the seat that was given up and not taken again yet
	Sum         uint32                `cbor:"8,keyasint,omitempty"` // CRC-32C of the memo without it; none in those of version 0.1
}

// logBound is how far the log of a seat reaches at least: what has been committed is never taken
// out of it again. A log that ends before it was lost, and its owner must not vote as if it had
// never had it.
type logBound struct {
	generation uint64
	index      uint64
}

// maxContacts bounds the peers remembered to ask.
const maxContacts = 32

func (n *Node) memoPath() string { return filepath.Join(n.cfg.Dir, "memo") }

func (n *Node) loadMemo() (memo, error) {
	var m memo
	b, err := os.ReadFile(n.memoPath())
	if errors.Is(err, fs.ErrNotExist) {
		return n.findSeat()
	}
	if err != nil {
		return m, fmt.Errorf("read the ledger's memo: %w", err)
	}
	if m, err = decodeMemo(b); err != nil {
		return n.withoutMemo(err)
	}
	m.Incarnation = cmp.Or(m.Incarnation, n.cfg.Incarnation)
	if m.Incarnation == "" {
		m.Incarnation = n.cfg.Draw()
	}
	return m, nil
}

// withoutMemo puts a memo out of the way that is damaged, and goes on as if there were none: whose
// log is here, the mark and the log say.
func (n *Node) withoutMemo(damage error) (memo, error) {
	aside := n.memoPath() + ".damaged"
	if err := os.Rename(n.memoPath(), aside); err != nil {
		return memo{}, fmt.Errorf("the ledger's memo is damaged (%w) and cannot be moved aside: %w", damage, err)
	}
	n.cfg.Log.Warn("the ledger's memo is damaged; the peer goes on without it", "why", damage, "moved to", aside)
	return n.findSeat()
}

func decodeMemo(b []byte) (m memo, err error) {
	if err := wire.Unmarshal(b, &m); err != nil {
		return memo{}, err
	}
	if was := m.Sum; was != 0 {
		if m.Sum = 0; m.sum() != was {
			return memo{}, errors.New("its checksum does not fit")
		}
	}
	return m, nil
}

// encode writes the memo with its checksum.
func (m memo) encode() ([]byte, error) {
	m.Sum = 0
	m.Sum = m.sum()
	return wire.Marshal(m)
}

// sum is the checksum of a memo that has none; 0 if it cannot be written.
func (m memo) sum() uint32 {
	b, err := wire.Marshal(m)
	if err != nil {
		return 0
	}
	return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
}

// saveMemo writes the memo, all of it or nothing.
func (n *Node) saveMemo() error {
	n.memos.Lock() // what is newer is written later, too
	defer n.memos.Unlock()
	n.mu.Lock()
	m := memo{Contacts: slices.Clone(n.contacts), Voters: n.voters, Incarnation: n.tenure.inc, Lost: n.tenure.lost}
	if n.seat != nil {
		m.Seat, m.Marked = n.seat.generation, true
		n.bound.rise(n.seat)
		m.Log = n.bound.index
	} else if g := n.suspension.seat; g != 0 { // it waits
		m.Seat, m.Marked, m.Log = g, true, n.bound.index
	}
	n.mu.Unlock()
	if len(m.Contacts) > maxContacts {
		m.Contacts = m.Contacts[len(m.Contacts)-maxContacts:]
	}
	b, err := m.encode()
	if err != nil {
		return err
	}
	return writeFile(n.memoPath(), b)
}

// rise notes what a seat's log holds now. The caller holds Node.mu.
func (b *logBound) rise(s *seat) {
	if b.generation != s.generation {
		*b = logBound{generation: s.generation}
	}
	b.index = max(b.index, min(s.raft.CommitIndex(), s.raft.LastIndex()))
}

// writeFile replaces a file (0600) so that a crash leaves the old or the new one.
func writeFile(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// save writes the copy for questions without a quorum, if there is anything to keep.
func (n *Node) save() error {
	if n.rep.Applied() == 0 {
		return nil
	}
	return saveCopy(n.rep, n.copyPath())
}

// runUpkeep gives up a seat that was taken away, makes snapshots, and keeps the copy on disk.
func (n *Node) runUpkeep(ctx context.Context) {
	const look, rest = time.Second, 10 * time.Second // between looks while entries come and until one look later; and while nothing does
	saved, next := n.rep.Applied(), time.Now().Add(n.cfg.Timings.Save)
	pace := look
	t := time.NewTimer(pace)
	defer t.Stop()
	for {
		wait := n.moved.wait()
		if s := n.currentSeat(); s == nil {
			wait = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-wait:
			if !n.seatTakenAway() {
				// Entries move all the time; look at the rest once a second.
				if pace == rest {
					t.Reset(look)
				}
				select {
				case <-ctx.Done():
					return
				case <-t.C:
				case <-n.tenure.bad:
				}
			}
			pace = look
		case <-t.C:
			pace = rest
		case <-n.tenure.bad:
		}
		t.Reset(pace)
		n.keepSeat()
		n.keepTenure()
		n.holdSeats()
		if err := n.authority.seats.Save(); err != nil {
			n.cfg.Log.Warn("cannot remember who holds a seat", "err", err)
		}
		if now := time.Now(); now.After(next) && n.rep.Applied() != saved {
			if err := errors.Join(n.save(), n.saveMemo()); err != nil {
				n.cfg.Log.Warn("cannot keep a copy of the ledger", "err", err)
			}
			saved, next = n.rep.Applied(), now.Add(n.cfg.Timings.Save)
		}
	}
}
