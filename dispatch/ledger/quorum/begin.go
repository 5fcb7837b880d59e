package quorum

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/raft"

	"covey/dispatch/ledger"
	"covey/dispatch/ledger/quorum/store"
	"covey/p2p/admission"
	"covey/p2p/wire"
	"covey/taskstate"
)

// Errors of Recover.
var (
	// ErrQuorum refuses to recover a ledger that decides.
	ErrQuorum = errors.New("there is a coordinator: nothing to recover")
	// ErrOlderCopy refuses to recover from a copy that is older than what was agreed on.
	ErrOlderCopy = errors.New("the copy is older than the one that was shown")
	// ErrNoCopy says that there is nothing to recover from.
	ErrNoCopy = errors.New("there is no copy of the ledger here")
	// ErrMayNotVote refuses to recover at a peer whose ledger nobody would follow.
	ErrMayNotVote = errors.New("this peer was admitted without the role voter, or was removed: the others would not follow its ledger")
)

// indexGap is how far the index jumps when a ledger is recovered: more than what can have been
// decided beyond the copy. So no index is used twice, and every status of an assignment that was
// lost is known at once to be of one this ledger does not know.
const indexGap = 1 << 20

// Recover makes a new ledger, of the next generation, from the copy of a peer ("" or this peer:
// from the own one, with what its log holds beyond what is known to be decided). This peer is its
// only voter at first; everybody who meets the higher generation sets the own ledger aside and
// follows. What was decided beyond the copy is lost: a person must have agreed to that, on sight of
// least, the copy; an older one is refused. Recover returns once the new ledger is on disk; the
// peer leads it a moment later. Run must be running.
func (n *Node) Recover(ctx context.Context, from taskstate.PeerID, least Copy) (generation uint64, err error) {
	if _, _, ok := n.Coordinator(); ok {
		return 0, ErrQuorum
	}
	var st *ledger.State
	if from != "" && from != n.cfg.Self {
		if st, err = n.fetch(ctx, from); err != nil {
			return 0, fmt.Errorf("get the copy of %s: %w", from, err)
		}
	}
	n.life.Lock()
	defer n.life.Unlock()
	if n.lead.Load() != nil {
		return 0, ErrQuorum
	}
	last := uint64(0)
	if s := n.currentSeat(); s != nil {
		last = s.raft.LastIndex()
	}
	if st == nil {
		if st, err = n.ownSurvivor(); err != nil {
			return 0, err
		}
	}
	generation = max(st.Generation(), n.Generation(), n.Foreign()) + 1
	if err := n.again(st, least, generation); err != nil {
		return 0, err
	}
	return generation, n.startAgain(st, last)
}

func (n *Node) ownSurvivor() (*ledger.State, error) {
	if s := n.currentSeat(); s != nil {
		return n.survivor(s.logBeyond(n.replicaGeneration()))
	}
	var st *ledger.State
	err := n.salvaged(func(log raft.LogStore, generation uint64) (err error) {
		if own := n.replicaGeneration(); own == 0 || own == generation {
			st, err = n.survivor(log)
		}
		return err
	})
	if st != nil || err != nil {
		return st, err
	}
	return n.survivor(nil)
}

// again turns a copy into the first state of the next generation.
func (n *Node) again(st *ledger.State, least Copy, generation uint64) error {
	have := Copy{Generation: st.Generation(), Epoch: st.Epoch(), Index: st.Index()}
	me, ok := st.Member(n.cfg.Self)
	switch {
	case n.suspended():
		return errSuspended
	case st.Cluster() == "":
		return ErrNoCopy
	case have.Compare(least) < 0:
		return ErrOlderCopy
	case !ok || !me.Entry.Has(admission.Voter):
		return ErrMayNotVote
	}
	begin := ledger.Entry{
		Index: st.Index() + indexGap, Epoch: taskstate.At(generation, 1), Stamp: n.cfg.Now().UnixMilli(), By: n.cfg.Self,
		Commands: []ledger.Command{{Found: &ledger.Found{Cluster: st.Cluster(), Generation: generation, Open: st.Open(), Founder: me.Entry}}},
	}
	if r := st.Apply(begin); r[0].Refused != ledger.CodeNone {
		return fmt.Errorf("the copy cannot begin another generation: %s", r[0].Refused)
	}
	return nil
}

// startAgain puts the state on disk as the beginning of a log whose only voter is this peer, and
// starts from it. Should that fail, the old seat is taken again. last is the end of the old seat's
// log when the state was made. The caller holds life.
func (n *Node) startAgain(st *ledger.State, last uint64) error {
	before := n.Generation()
	if err := n.writeSeat(st); err != nil {
		return fmt.Errorf("write the recovered ledger: %w", err)
	}
	side, err := n.sideFolder(before)
	if err != nil {
		return err
	}
	old := n.currentSeat()
	n.leaveSeat()
	if old != nil && old.raft.LastIndex() != last {
		return errors.Join(ErrQuorum, n.openSeat(old.generation, nil)) // somebody came back this very moment
	}
	if err := n.openSeat(st.Generation(), nil); err != nil {
		if old != nil {
			err = errors.Join(err, n.openSeat(old.generation, nil))
		}
		return err
	}
	n.authority.seats.Hold(st.Cluster(), st.Generation(), st.Index(), []string{n.cfg.Self})
	n.cfg.Log.Warn("recovered the ledger", "generation", st.Generation(), "index", st.Index(), "before", before)
	n.kick()
	return errors.Join(n.save(), n.moveSeat(side, before))
}

// writeSeat makes the folder of a seat that begins with a snapshot.
func (n *Node) writeSeat(st *ledger.State) (err error) {
	dir := n.seatDir(st.Generation())
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	log, err := store.Open(n.logIn(dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if err := log.SetUint64([]byte("CurrentTerm"), 1); err != nil {
		return err
	}
	snaps, err := store.OpenSnapshots(dir, n.cfg.Log, soundState)
	if err != nil {
		return err
	}
	b, err := st.Encode()
	if err != nil {
		return err
	}
	id := Voter{Peer: n.cfg.Self, Incarnation: n.SeatIncarnation()}.server()
	_, trans := raft.NewInmemTransport(raft.ServerAddress(id)) // raft asks it to spell addresses, nothing more
	conf := raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: raft.ServerID(id), Address: raft.ServerAddress(id)}}}
	sink, err := snaps.Create(raft.SnapshotVersionMax, st.Index(), 1, conf, st.Index(), trans)
	if err != nil {
		return err
	}
	return fsmSnapshot(b).Persist(sink)
}

// Found begins a new ledger with this peer as its only voter, and returns once the founding entry
// is applied. The folder must hold no ledger yet.
func (n *Node) Found(ctx context.Context, f ledger.Found) error {
	p, err := newProposal([]ledger.Command{{Found: &f}})
	if err != nil {
		return err
	}
	data, err := foundingEntry(n, f, p)
	if err != nil {
		return err
	}
	n.life.Lock()
	if n.currentSeat() != nil || n.rep.Applied() != 0 {
		n.life.Unlock()
		return errFounded
	}
	err = n.beginSeat(f.Generation, data)
	n.life.Unlock()
	if err != nil {
		return err
	}
	for {
		wait := n.moved.wait()
		if n.rep.Applied() > 0 {
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second): // raft lost the race for its own vote; look again
		}
	}
}

// errFounded refuses to found a ledger where there is one.
var errFounded = errors.New("this folder holds a ledger already; take an empty one to found another")

// foundingEntry is the first decision of a ledger, in its first epoch.
func foundingEntry(n *Node, f ledger.Found, p *proposal) ([]byte, error) {
	if f.Generation == 0 {
		return nil, errors.New("a ledger's first generation is 1")
	}
	return wire.Marshal(ledger.EncodedEntry{Epoch: taskstate.At(f.Generation, 1), Stamp: n.cfg.Now().UnixMilli(), By: n.cfg.Self, Commands: p.commands})
}

// beginSeat opens a seat in an empty folder: what an earlier, unfinished beginning left there is
// removed. The caller holds life.
func (n *Node) beginSeat(generation uint64, first []byte) error {
	if n.suspended() {
		return errSuspended
	}
	n.mu.Lock()
	n.bound, n.tenure.marked = logBound{}, false
	n.mu.Unlock()
	if err := os.RemoveAll(n.seatDir(generation)); err != nil {
		return fmt.Errorf("make the ledger's folder: %w", err)
	}
	return n.openSeat(generation, first)
}
