package quorum

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum/store"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
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

// collectTimeout is how long one peer has to send what it knows.
const collectTimeout = 10 * time.Second

// Recover makes a new ledger, of the next generation, from the copy of a peer ("" or this peer:
// from the own one, with what its log holds beyond what is known to be decided). This peer is its
// only voter at first; everybody who meets the higher generation sets the own ledger aside and
// follows. What was decided beyond the copy is lost: a person must have agreed to that, on sight of
// least, the copy; an older one is refused. What jobs run that the copy does not know is asked of
// those that have to do with them; what nobody answers is lost (ledger.Lost). Recover returns once
// the new ledger is on disk; the peer leads it a moment later. Run must be running.
func (n *Node) Recover(ctx context.Context, from taskstate.PeerID, least Copy) (generation uint64, err error) {
	if _, _, ok := n.dir.coordinator(); ok {
		return 0, ErrQuorum
	}
	var st *ledger.State
	if from != "" && from != n.cfg.Self {
		if st, err = n.fetch(ctx, from); err != nil {
			return 0, fmt.Errorf("get the copy of %s: %w", from, err)
		}
	}
	copies := n.collect(ctx, st)
	n.seating.life.Lock()
	defer n.seating.life.Unlock()
	if n.terms.lead.Load() != nil {
		return 0, ErrQuorum
	}
	last := uint64(0)
	if s := n.place.seat.Load(); s != nil {
		last = s.raft.LastIndex()
	}
	if st == nil {
		if st, err = n.seating.survivor(); err != nil {
			return 0, err
		}
	}
	for _, other := range copies {
		ledger.Fill(st, other)
	}
	ledger.GiveUp(st)
	generation = max(st.Generation(), n.place.generation(), n.dir.newerGeneration()) + 1
	if err := n.seating.again(st, least, generation); err != nil {
		return 0, err
	}
	return generation, n.seating.startAgain(st, last)
}

// collect gets the copies of those that may know what jobs run of which a copy – nil: this peer's
// own – does not: who has to do with them, and who may read all.
func (n *Node) collect(ctx context.Context, st *ledger.State) (copies []*ledger.State) {
	own, err := survivor(n.place.rep, nil, n.cfg.Log)
	if err != nil {
		return nil
	}
	lacking := own
	if st != nil {
		lacking = st
		ledger.Fill(lacking, own)
		copies = append(copies, own)
	}
	for _, peer := range whoKnows(lacking, n.cfg.Self) {
		if len(ledger.Lacking(lacking)) == 0 {
			break
		}
		try, cancel := context.WithTimeout(ctx, collectTimeout)
		other, err := n.fetch(try, peer)
		cancel()
		if err != nil {
			n.cfg.Log.Warn("what a peer knows of jobs could not be had", "peer", peer, "err", err)
			continue
		}
		ledger.Fill(lacking, other)
		copies = append(copies, other)
	}
	return copies
}

// whoKnows are the peers besides self that may know what jobs run that a state does not.
func whoKnows(st *ledger.State, self taskstate.PeerID) (ask []taskstate.PeerID) {
	for _, id := range ledger.Lacking(st) {
		if j, ok := st.Job(id); ok {
			ask = append(ask, j.Job().OrderedBy(), j.Job().Submitter)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	for m := range st.Members() {
		if m.In() && (m.Entry.Has(admission.Admin) || m.Entry.Has(admission.Read)) {
			ask = append(ask, m.Entry.Peer)
		}
	}
	seen := map[taskstate.PeerID]bool{"": true, self: true}
	return slices.DeleteFunc(ask, func(p taskstate.PeerID) bool {
		was := seen[p]
		seen[p] = true
		return was
	})
}

// survivor is all this peer has.
func (t *seating) survivor() (*ledger.State, error) {
	rep := t.place.rep
	if s := t.place.seat.Load(); s != nil {
		return survivor(rep, s.logBeyond(t.place.replicaGeneration()), t.cfg.Log)
	}
	var st *ledger.State
	err := t.folder.salvaged(t.identity.loss(), rep.Applied(), func(log raft.LogStore, generation uint64) (err error) {
		if own := t.place.replicaGeneration(); own == 0 || own == generation {
			st, err = survivor(rep, log, t.cfg.Log)
		}
		return err
	})
	if st != nil || err != nil {
		return st, err
	}
	return survivor(rep, nil, t.cfg.Log)
}

// again turns a copy into the first state of the next generation.
func (t *seating) again(st *ledger.State, least Copy, generation uint64) error {
	have := Copy{Generation: st.Generation(), Epoch: st.Epoch(), Index: st.Index()}
	me, ok := st.Member(t.cfg.Self)
	switch {
	case t.identity.isSuspended():
		return errSuspended
	case st.Cluster() == "":
		return ErrNoCopy
	case have.Compare(least) < 0:
		return ErrOlderCopy
	case !ok || !me.Entry.Has(admission.Voter):
		return ErrMayNotVote
	}
	begin := ledger.Entry{
		Index: st.Index() + indexGap, Epoch: taskstate.At(generation, 1), Stamp: t.cfg.Now().UnixMilli(), By: t.cfg.Self,
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
func (t *seating) startAgain(st *ledger.State, last uint64) error {
	before := t.place.generation()
	if err := t.folder.writeSeat(st, t.identity.server()); err != nil {
		return fmt.Errorf("write the recovered ledger: %w", err)
	}
	aside, err := t.folder.asideFolder(t.place.rep, before)
	if err != nil {
		return err
	}
	old := t.place.seat.Load()
	t.leave()
	if old != nil && old.raft.LastIndex() != last {
		return errors.Join(ErrQuorum, t.open(old.generation, nil)) // somebody came back this very moment
	}
	stale := t.stale.said()
	t.stale.over()
	if err := t.open(st.Generation(), nil); err != nil {
		t.stale.doubt(stale)
		if old != nil {
			err = errors.Join(err, t.open(old.generation, nil))
		}
		return err
	}
	t.feed.compared.set(0, "")
	t.feed.compared.setSplit("", 0)
	t.authority.seats.Hold(st.Cluster(), st.Generation(), st.Index(), []string{t.cfg.Self})
	t.cfg.Log.Warn("recovered the ledger", "generation", st.Generation(), "index", st.Index(), "before", before)
	t.wakes.follow.Set()
	return errors.Join(t.saveCopy(), t.moveAside(aside, before))
}

// writeSeat makes the folder of a seat that begins with a snapshot.
func (f folder) writeSeat(st *ledger.State, self Voter) (err error) {
	dir := f.seatDir(st.Generation())
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	log, err := store.Open(f.logIn(dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if err := log.SetUint64([]byte("CurrentTerm"), 1); err != nil {
		return err
	}
	snaps, err := store.OpenSnapshots(dir, f.cfg.Log, soundState, ledger.FromVersion01)
	if err != nil {
		return err
	}
	b, err := st.Encode()
	if err != nil {
		return err
	}
	id := self.server()
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
	data, err := foundingEntry(&n.cfg, f, p)
	if err != nil {
		return err
	}
	n.seating.life.Lock()
	if n.place.seat.Load() != nil || n.place.rep.Applied() != 0 {
		n.seating.life.Unlock()
		return errFounded
	}
	err = n.seating.begin(f.Generation, data)
	n.seating.life.Unlock()
	if err != nil {
		return err
	}
	for {
		wait := n.wakes.moved.wait()
		if n.place.rep.Applied() > 0 {
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
func foundingEntry(cfg *Config, f ledger.Found, p *proposal) ([]byte, error) {
	if f.Generation == 0 {
		return nil, errors.New("a ledger's first generation is 1")
	}
	return wire.Marshal(ledger.EncodedEntry{Epoch: taskstate.At(f.Generation, 1), Stamp: cfg.Now().UnixMilli(), By: cfg.Self, Commands: p.commands})
}

// begin opens a seat in an empty folder: what an earlier, unfinished beginning left there is
// removed. The caller holds life.
func (t *seating) begin(generation uint64, first []byte) error {
	if t.identity.isSuspended() {
		return errSuspended
	}
	t.identity.fresh()
	t.stale.over() // this seat has acknowledged nothing
	if err := os.RemoveAll(t.folder.seatDir(generation)); err != nil {
		return fmt.Errorf("make the ledger's folder: %w", err)
	}
	return t.open(generation, first)
}
