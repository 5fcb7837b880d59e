package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum/store"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// Copy tells how new this peer's own copy is: what was applied here, and, at a voter, what its log
// holds beyond that. A decision can be acknowledged, and so on the disks of a majority, before
// those who hold it have heard that it is.
func (n *Node) Copy() (Copy, error) {
	var c Copy
	n.place.rep.Read(func(s *ledger.State) {
		c.Generation, c.Epoch, c.Index, c.Stamp = s.Generation(), s.Epoch(), s.Index(), s.Stamp()
	})
	if s := n.place.seat.Load(); s == nil {
		err := n.folder.salvaged(n.identity.loss(), n.place.rep.Applied(), func(log raft.LogStore, generation uint64) error {
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
		c.Seat, c.Stale = s.self.server(), n.stale.stale() || n.compared.splits()
		if log := s.logBeyond(c.Generation); log != nil {
			err := tail(log, c.Index, func(e *ledger.Entry) {
				c.Generation, c.Epoch, c.Index, c.Stamp = s.generation, e.Epoch, e.Index, max(c.Stamp, e.Stamp)
			})
			if err != nil {
				n.cfg.Log.Warn("this voter's log cannot be read further", "err", err)
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

// tail calls f with every decision in a log above an index, up to the first that cannot be read:
// the error says why, and what f had is whole.
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
func (f folder) salvaged(l *LostSeat, applied uint64, read func(log raft.LogStore, generation uint64) error) error {
	if l == nil || l.Folder == "" {
		return nil
	}
	return f.readAside(l.Folder, l.Generation, applied, func(log raft.LogStore) error { return read(log, l.Generation) })
}

// readAside reads the log of a ledger that was set aside, if it goes on without a gap from what was
// applied.
func (f folder) readAside(aside string, generation, applied uint64, read func(log raft.LogStore) error) error {
	dir := filepath.Join(aside, filepath.Base(f.seatDir(generation)))
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
		err = read(log)
	}
	return errors.Join(err, log.Close())
}

// survivor is all a replica has, and what log holds beyond it, up to where it is damaged. log may
// be nil.
func survivor(rep *ledger.Replica, log raft.LogStore, say *slog.Logger) (*ledger.State, error) {
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
	if err := tail(log, st.Index(), func(e *ledger.Entry) { st.Apply(*e) }); err != nil {
		say.Warn("the ledger's log cannot be read further; what it holds up to there counts", "up to", st.Index(), "err", err)
	}
	return st, nil
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
