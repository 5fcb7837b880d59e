package quorum

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum/mark"
	"github.com/coveyproject/covey/dispatch/ledger/quorum/raftlog"
	"github.com/coveyproject/covey/dispatch/ledger/quorum/store"
	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

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
	Lost        *LostSeat             `cbor:"6,keyasint,omitempty"` // the seat that was given up and not taken again yet
	Sum         uint32                `cbor:"8,keyasint,omitempty"` // CRC-32C of the memo without it; none in those of version 0.1
}

// logBound is how far the log of a seat reaches at least: what has been committed is never taken
// out of it again. A log that ends before it was lost, and its owner must not vote as if it had
// never had it.
type logBound struct {
	generation uint64
	index      uint64
}

// folder is where this peer's part of the ledger lies on disk: the memo, the copy, the log of each
// seat, and what was set aside. It knows what the files are called and holds nothing itself.
type folder struct{ cfg *Config }

func (f folder) path(name string) string { return filepath.Join(f.cfg.Dir, name) }

func (f folder) markPath() string { return cmp.Or(f.cfg.Mark, f.path("mark")) }

func (f folder) seatDir(generation uint64) string { return f.path(fmt.Sprintf("raft-%d", generation)) }

// logIn is how a log in a folder is opened.
func (f folder) logIn(dir string) store.Config {
	return store.Config{Dir: dir, Log: f.cfg.Log, Hurt: f.cfg.Hurt, Entry: soundEntry}
}

func (f folder) loadMemo() (memo, error) {
	var m memo
	b, err := os.ReadFile(f.path("memo"))
	if errors.Is(err, fs.ErrNotExist) {
		return f.findSeat()
	}
	if err != nil {
		return m, fmt.Errorf("read the ledger's memo: %w", err)
	}
	if m, err = decodeMemo(b); err != nil {
		return f.withoutMemo(err)
	}
	m.Incarnation = cmp.Or(m.Incarnation, f.cfg.Incarnation)
	if m.Incarnation == "" {
		m.Incarnation = f.cfg.Draw()
	}
	return m, nil
}

// withoutMemo puts a memo out of the way that is damaged, and goes on as if there were none: whose
// log is here, the mark and the log say.
func (f folder) withoutMemo(damage error) (memo, error) {
	aside := f.path("memo.damaged")
	if err := os.Rename(f.path("memo"), aside); err != nil {
		return memo{}, fmt.Errorf("the ledger's memo is damaged (%w) and cannot be moved aside: %w", damage, err)
	}
	f.cfg.Log.Warn("the ledger's memo is damaged; the peer goes on without it", "why", damage, "moved to", aside)
	return f.findSeat()
}

// findSeat is for a folder without a memo: it is new, or only the memo is gone, and then the seat
// is the one whose log is there. Whose log that is the mark says, or the newest configuration in
// it.
func (f folder) findSeat() (memo, error) {
	generation := uint64(0)
	found, err := filepath.Glob(f.path("raft-*"))
	if err != nil {
		return memo{}, err
	}
	for _, dir := range found {
		var g uint64
		if _, err := fmt.Sscanf(filepath.Base(dir), "raft-%d", &g); err == nil {
			generation = max(generation, g)
		}
	}
	if generation == 0 {
		return memo{Incarnation: f.cfg.Draw()}, nil
	}
	_, m, err := mark.Open(f.markPath())
	if err != nil {
		return memo{}, err
	}
	if peer, inc, err := parseServer(m.Server); err == nil && peer == f.cfg.Self && m.Generation == generation {
		f.cfg.Log.Warn("the ledger's memo is gone; the seat among the voters is the one whose log is here", "seat", m.Server, "generation", generation)
		return memo{Seat: generation, Incarnation: inc, Marked: true}, nil
	}
	inc, err := f.ownServer(generation)
	if err != nil {
		f.cfg.Log.Warn("the ledger's memo is gone, and the log that is here does not say whose it is; it is not used", "err", err)
		return memo{Incarnation: f.cfg.Draw()}, nil
	}
	return memo{Seat: generation, Incarnation: inc}, nil
}

// ownServer is the incarnation of this peer's only server in the newest configuration of a log.
func (f folder) ownServer(generation uint64) (inc taskstate.Incarnation, err error) {
	dir := f.seatDir(generation)
	if _, err := os.Stat(filepath.Join(dir, "wal-meta.db")); err != nil {
		return "", err
	}
	log, err := store.Open(f.logIn(dir))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	snaps, err := raft.NewFileSnapshotStoreWithLogger(dir, 2, raftlog.New(f.cfg.Log))
	if err != nil {
		return "", err
	}
	c, _, err := log.Configuration(snaps)
	if err != nil {
		return "", err
	}
	var own []string
	for _, s := range c.Servers {
		if strings.HasPrefix(string(s.ID), f.cfg.Self+"/") {
			own = append(own, string(s.ID))
		}
	}
	if len(own) != 1 {
		return "", fmt.Errorf("its newest configuration has %d servers of this peer", len(own))
	}
	_, inc, err = parseServer(own[0])
	return inc, err
}

// writeMemo replaces the memo, all of it or nothing.
func (f folder) writeMemo(m memo) error {
	b, err := m.encode()
	if err != nil {
		return err
	}
	return atomicfile.Write(f.path("memo"), b)
}

// keep writes the copy for questions without a quorum, if there is anything to keep.
func (f folder) keep(r *ledger.Replica) error {
	if r.Applied() == 0 {
		return nil
	}
	return saveCopy(r, f.path("copy"))
}

// asideFolder makes a folder for a ledger that is given up, with what this peer knows of it now.
func (f folder) asideFolder(r *ledger.Replica, generation uint64) (string, error) {
	aside := filepath.Join(f.path("set-aside"), fmt.Sprintf("%s%d-%s", ledgerName, generation, f.cfg.Now().UTC().Format("20060102T150405.000")))
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return "", fmt.Errorf("set the ledger aside: %w", err)
	}
	if r.Applied() == 0 {
		return aside, nil
	}
	return aside, saveCopy(r, filepath.Join(aside, "copy"))
}

// moveSeat puts the folder of a closed seat aside, if there is one.
func (f folder) moveSeat(aside string, generation uint64) error {
	dir := f.seatDir(generation)
	if err := os.Rename(dir, filepath.Join(aside, filepath.Base(dir))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("set the ledger aside: %w", err)
	}
	return nil
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

// rise notes what a seat's log holds now. The caller holds identity.mu.
func (b *logBound) rise(s *seat) {
	if b.generation != s.generation {
		*b = logBound{generation: s.generation}
	}
	b.index = max(b.index, min(s.raft.CommitIndex(), s.raft.LastIndex()))
}

// fileMagic begins a saved copy; the checksum of the rest follows, then the snapshot.
const fileMagic = "covey ledger copy 1\n"

// saveCopy writes a replica to a file (0600), all of it or nothing.
func saveCopy(r *ledger.Replica, path string) error {
	b, err := r.Encode()
	if err != nil {
		return fmt.Errorf("save ledger copy: %w", err)
	}
	sum := sha256.Sum256(b)
	if err := atomicfile.Write(path, append(append([]byte(fileMagic), sum[:]...), b...)); err != nil {
		return fmt.Errorf("save ledger copy: %w", err)
	}
	return nil
}

// loadCopy replaces what a replica holds by a saved copy. No file is no error; a damaged one is,
// and changes nothing.
func loadCopy(r *ledger.Replica, path string) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("load ledger copy: %w", err)
	}
	head := len(fileMagic) + sha256.Size
	if len(b) < head || string(b[:len(fileMagic)]) != fileMagic || sha256.Sum256(b[head:]) != [sha256.Size]byte(b[len(fileMagic):head]) {
		return fmt.Errorf("load ledger copy: %s is damaged; delete it, another copy will be fetched from a voter", path)
	}
	var st *ledger.State
	if b, err = ledger.FromVersion01(b[head:]); err == nil {
		st, err = readState(b)
	}
	if err != nil {
		return fmt.Errorf("load ledger copy %s: %w", path, err)
	}
	r.Reset(st)
	return nil
}
