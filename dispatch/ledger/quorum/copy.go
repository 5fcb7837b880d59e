package quorum

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"covey/dispatch/ledger"
	"covey/dispatch/ledger/quorum/store"
	"covey/internal/atomicfile"
	"covey/p2p/wire"
	"covey/taskstate"
)

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
		st, err = ledger.DecodeState(b)
	}
	if err != nil {
		return fmt.Errorf("load ledger copy %s: %w", path, err)
	}
	r.Reset(st)
	return nil
}

// Copy tells how new one peer's copy of the ledger is. Copies of one generation are beginnings of
// the same history.
type Copy struct {
	Generation  uint64           `cbor:"1,keyasint"`
	Epoch       taskstate.Epoch  `cbor:"2,keyasint"`           // of the newest decision
	Index       uint64           `cbor:"3,keyasint"`           // of the newest decision; 0: there is none
	Stamp       int64            `cbor:"4,keyasint"`           // of the newest decision, milliseconds since 1970
	Seat        string           `cbor:"5,keyasint,omitempty"` // the server this peer runs, if it has a place among the voters
	Coordinator taskstate.PeerID `cbor:"6,keyasint,omitempty"` // who decides now as far as this peer knows
	Voters      []Voter          `cbor:"7,keyasint,omitempty"` // as far as this peer knows
	VotersIndex uint64           `cbor:"8,keyasint,omitempty"`
}

// Compare orders copies by how new they are, as raft orders logs: the generation first, then the
// epoch of the newest decision, then its index.
func (c Copy) Compare(o Copy) int {
	switch {
	case c.Generation != o.Generation:
		return cmp.Compare(c.Generation, o.Generation)
	case c.Epoch != o.Epoch:
		return c.Epoch.Compare(o.Epoch)
	}
	return cmp.Compare(c.Index, o.Index)
}

// copyAsk asks for a Copy.
type copyAsk struct{}

// Copy tells how new this peer's own copy is: what was applied here, and, at a voter, what its log
// holds beyond that. A decision can be acknowledged, and so on the disks of a majority, before
// those who hold it have heard that it is.
func (n *Node) Copy() (Copy, error) {
	var c Copy
	n.place.rep.Read(func(s *ledger.State) {
		c.Generation, c.Epoch, c.Index, c.Stamp = s.Generation(), s.Epoch(), s.Index(), s.Stamp()
	})
	if s := n.place.seat.Load(); s == nil {
		err := n.folder.salvaged(n.tenure.loss(), n.place.rep.Applied(), func(log raft.LogStore, generation uint64) error {
			if c.Generation != 0 && c.Generation != generation {
				return nil
			}
			return tail(log, c.Index, func(e *ledger.Entry) {
				c.Generation, c.Epoch, c.Index, c.Stamp = generation, e.Epoch, e.Index, max(c.Stamp, e.Stamp)
			})
		})
		if err != nil {
			n.cfg.Log.Warn("what is left of the log that was lost cannot be read further", "err", err)
		}
	} else {
		c.Seat = s.self.server()
		if log := s.logBeyond(c.Generation); log != nil {
			err := tail(log, c.Index, func(e *ledger.Entry) {
				c.Generation, c.Epoch, c.Index, c.Stamp = s.generation, e.Epoch, e.Index, max(c.Stamp, e.Stamp)
			})
			if err != nil {
				return c, err
			}
		}
	}
	at := n.dir.bookmark()
	c.Coordinator, c.Voters, c.VotersIndex = at.Coordinator, at.Voters, at.VotersIndex
	return c, nil
}

// AskCopy asks another peer how new its copy is.
func (n *Node) AskCopy(ctx context.Context, peer taskstate.PeerID) (Copy, error) {
	a, err := n.call.ask(ctx, peer, voterAsk{Copy: &copyAsk{}}, voterTimeout)
	if err != nil {
		return Copy{}, err
	}
	if a.Copy == nil {
		return Copy{}, fmt.Errorf("%s says nothing about its copy of the ledger; update `peer` there", peer)
	}
	return *a.Copy, nil
}

// tail calls f with every decision in a log above an index.
func tail(log raft.LogStore, after uint64, f func(*ledger.Entry)) error {
	first, err := log.FirstIndex()
	if err != nil {
		return fmt.Errorf("read the ledger's log: %w", err)
	}
	last, err := log.LastIndex()
	if err != nil {
		return fmt.Errorf("read the ledger's log: %w", err)
	}
	for i := max(first, after+1); i <= last && first > 0; i++ {
		var l raft.Log
		if err := log.GetLog(i, &l); err != nil {
			return fmt.Errorf("read the ledger's log: %w", err)
		}
		if l.Type != raft.LogCommand {
			continue
		}
		e, err := ledger.ReadEntry(i, l.Data)
		if err != nil {
			return fmt.Errorf("ledger entry %d: %w", i, err)
		}
		f(&e)
	}
	return nil
}

// logBeyond is the seat's log if it goes on from a replica of that generation (0: from an empty
// one). A seat that was just prepared has a log of the next generation, and nothing to go on from.
func (s *seat) logBeyond(generation uint64) raft.LogStore {
	if generation != 0 && generation != s.generation {
		return nil
	}
	return s.store
}

// salvaged reads what is left of a log that was lost and set aside, if it goes on without a gap
// from what was applied here.
func (f folder) salvaged(l *Loss, applied uint64, read func(log raft.LogStore, generation uint64) error) error {
	if l == nil || l.Folder == "" {
		return nil
	}
	dir := filepath.Join(l.Folder, filepath.Base(f.seatDir(l.Generation)))
	if _, err := os.Stat(filepath.Join(dir, "wal-meta.db")); err != nil {
		return nil //nolint:nilerr // nothing is left
	}
	conf := f.logIn(dir)
	conf.Hurt = nil
	log, err := store.Open(conf)
	if err != nil {
		return nil //nolint:nilerr // the same; the seat was given up because of it
	}
	first, err := log.FirstIndex()
	if err == nil && first > 0 && first <= applied+1 {
		err = read(log, l.Generation)
	}
	return errors.Join(err, log.Close())
}

// survivor is all a replica has, and what log holds beyond it. log may be nil.
func survivor(rep *ledger.Replica, log raft.LogStore) (*ledger.State, error) {
	b, err := rep.Encode()
	if err != nil {
		return nil, err
	}
	st, err := ledger.DecodeState(b)
	if err != nil {
		return nil, err
	}
	if log == nil {
		return st, nil
	}
	return st, tail(log, st.Index(), func(e *ledger.Entry) { st.Apply(*e) })
}

// serveCopy sends all this peer has to one that recovers the ledger.
func (f *feeder) serveCopy(h followHello) {
	if own := f.n.place.cluster(); h.Cluster != "" && own != "" && h.Cluster != own {
		_ = f.send(followFrame{Refuse: f.n.dir.refusal(refuseForeign)})
		return
	}
	if !f.n.snapshots.allow(f.peer) {
		_ = f.send(followFrame{Refuse: f.n.dir.refusal(refuseBusy)})
		return
	}
	var log raft.LogStore
	if f.seat != nil {
		log = f.seat.logBeyond(f.n.place.replicaGeneration())
	}
	st, err := survivor(f.n.place.rep, log)
	var b []byte
	if err == nil {
		b, err = st.Encode()
	}
	if err == nil {
		err = f.parts(b)
	}
	if err != nil {
		f.n.cfg.Log.Warn("the copy of the ledger could not be sent", "err", err)
	}
}

// fetch gets all a peer has.
func (n *Node) fetch(ctx context.Context, peer taskstate.PeerID) (*ledger.State, error) {
	c, err := n.cfg.Net.Dial(ctx, peer, FollowProtocol)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_ = c.SetWriteDeadline(time.Now().Add(followTimeout))
	if err := wire.NewWriter(c, raftHelloCap).Send(followHello{Cluster: n.place.cluster(), Copy: true}); err != nil {
		return nil, err
	}
	g, r := gathering{}, wire.NewReader(c, 0)
	for {
		_ = c.SetReadDeadline(time.Now().Add(followTimeout))
		var fr followFrame
		switch err := r.Read(&fr); {
		case err != nil:
			return nil, err
		case fr.Refuse != nil:
			return nil, fmt.Errorf("refused: %s", fr.Refuse.Code)
		case fr.Part == nil:
			return nil, errors.New("it does not know how to send its copy; update `peer` there")
		}
		st, err := g.add(fr.Part)
		if err != nil || st != nil {
			return st, err
		}
	}
}

// gathering puts a snapshot together from its parts.
type gathering struct{ data []byte }

// add takes the next part; the state is there with the last one.
func (g *gathering) add(p *snapshotPart) (*ledger.State, error) {
	if p.Total > maxSnapshot || len(g.data)+len(p.Data) > p.Total || len(p.Data) == 0 {
		return nil, errSnapshot
	}
	g.data = append(g.data, p.Data...)
	if !p.Last {
		return nil, nil
	}
	st, err := ledger.DecodeState(g.data)
	g.data = nil
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSnapshot, err)
	}
	return st, nil
}
