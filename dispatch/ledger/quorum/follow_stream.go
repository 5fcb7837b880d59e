package quorum

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// following is one stream on the follower's side.
type following struct {
	n        *Node
	peer     taskstate.PeerID
	c        net.Conn
	r        *wire.Reader
	synced   bool
	snapshot gathering
	partial  item // an entry of which parts have come
	aimless  time.Time
	anew     bool // the own copy is wrong: a snapshot is asked for, whatever is here
}

func (f *following) run() error {
	h := followHello{}
	f.n.place.rep.Read(func(s *ledger.State) {
		h = followHello{Generation: s.Generation(), Index: s.Index(), Cluster: s.Cluster(), Lacks: len(ledger.Lacking(s)) > 0}
	})
	h.Marks = f.n.marks.show(f.n.place.seat.Load())
	h.Seats = f.n.authority.seats.ShortProof(seatsShown)
	if f.anew = f.n.compared.wrong(); f.anew {
		h.Generation, h.Index = 0, 0
	}
	_ = f.c.SetDeadline(time.Now().Add(far.For(f.n.cfg.Net, f.peer, greetTimeout)))
	if err := wire.NewWriter(f.c, raftHelloCap).Send(h); err != nil {
		return err
	}
	for {
		var fr followFrame
		if err := f.r.Read(&fr); err != nil {
			return err
		}
		if err := f.handle(fr); err != nil {
			return err
		}
		patience := far.For(f.n.cfg.Net, f.peer, 3*bookmarkEvery)
		if !f.synced {
			patience = max(patience, followTimeout)
		}
		_ = f.c.SetReadDeadline(time.Now().Add(patience))
	}
}

func (f *following) handle(fr followFrame) error {
	switch {
	case fr.Refuse != nil:
		return f.refused(fr.Refuse)
	case !f.n.authority.proves(f.peer, fr.Seats):
		f.n.authority.refused.Note(f.peer, "a stream of the ledger, from a peer that holds no seat")
		return errUnseated
	case !f.anew && f.n.compared.wrong():
		return errDiffers
	case fr.Part != nil:
		return f.part(fr.Part)
	case len(fr.Items) > 0:
		if err := f.entries(fr.Items); err != nil {
			return err
		}
	case fr.Synced:
		f.synced = true
		f.n.compared.refusedBy("", 0)
	case fr.Mark != nil:
		return f.mark(fr.Mark)
	}
	f.n.follower.touch(f.peer, f.synced)
	return nil
}

// refused learns whom to ask instead.
func (f *following) refused(r *followRefuse) error {
	f.n.authority.reportForeign(f.peer, r.Generation, append(r.Voters, r.Coordinator)...)
	f.n.dir.addContacts(append(r.Voters, r.Coordinator), maxContacts)
	if r.Code == refuseAhead {
		f.n.compared.refusedBy(f.peer, f.n.place.rep.Applied())
		f.n.cfg.Log.Error("the coordinator has less than this peer: the copy of the ledger here is kept", "peer", f.peer, "index", f.n.place.rep.Applied())
	}
	return fmt.Errorf("refused: %s", r.Code)
}

func (f *following) part(p *snapshotPart) error {
	st, err := f.snapshot.add(p)
	if errors.Is(err, wire.ErrUnknown) {
		return f.n.feed.stop(f.n.place.rep.Applied()+1, err)
	}
	if err != nil || st == nil {
		return err
	}
	f.n.snapshotsTaken.Add(1)
	missed := ledger.Lacking(st)
	if err := f.n.seating.adopt(f.peer, st); err != nil {
		return err
	}
	if len(missed) == 0 && lacks(f.n.place.rep) { // this replica had been further: it needs the next one
		return errStale
	}
	if !f.anew {
		return nil
	}
	if f.n.compared.wrong() {
		return errStale
	}
	return f.n.seating.saveCopy()
}

func (f *following) entries(items []item) error {
	if f.n.terms.lead.Load() != nil {
		return errElsewhere // who leads takes a whole newer ledger from others, or nothing
	}
	for _, it := range items {
		if it.More || f.partial.Index != 0 {
			if f.partial.Index != 0 && f.partial.Index != it.Index || len(f.partial.Data)+len(it.Data) > 2*maxEntryBytes {
				return fmt.Errorf("entry %d came in parts that do not fit together", it.Index)
			}
			f.partial = item{Index: it.Index, Data: append(f.partial.Data, it.Data...)}
			if it.More {
				continue
			}
			it, f.partial = f.partial, item{}
		}
		if f.n.authority.indexBeyond(f.peer, it.Index) {
			return fmt.Errorf("entry %d cannot follow on %d", it.Index, f.n.place.rep.Applied())
		}
		if _, err := f.n.feed.apply(it.Index, it.Data, f.read); err != nil {
			return err
		}
	}
	f.n.wakes.moved.fire()
	return nil
}

// read has a peer that votes take nothing bare: it is to know what all jobs run, and raft brings it
// what the log has.
func (f *following) read(index uint64, data []byte) (ledger.Entry, error) {
	e, err := ledger.ReadShown(index, data)
	if err == nil && e.Withholds() && f.n.authority.seats.Now().Holds(f.n.cfg.Self) {
		return e, fmt.Errorf("%w: entry %d", errBare, index)
	}
	return e, err
}

// errBare ends a stream of who takes this voter for none, or withholds what it is to know.
var errBare = errors.New("it does not say what a job runs, and this peer votes")

// mark takes a voter's word on coordinator and voters, unless this peer knows better.
func (f *following) mark(m *bookmark) error {
	f.n.follower.touch(f.peer, f.synced)
	n := f.n
	n.seating.learnMarks(f.peer, m.Marks)
	known, own := n.dir.correctHint(f.peer, m.Epoch), n.place.replicaGeneration()
	switch {
	case own > 0 && m.Epoch.Generation > own: // a newer ledger comes before its bookmark
		n.authority.refused.Note(f.peer, "an epoch that no honest peer can name")
		return fmt.Errorf("epoch %s in a ledger of generation %d", m.Epoch, own)
	case n.authority.epochBeyond(f.peer, m.Epoch) || n.authority.indexBeyond(f.peer, m.VotersIndex):
		return fmt.Errorf("epoch %s and index %d cannot follow on what is known here", m.Epoch, m.VotersIndex)
	case m.Epoch.Less(known):
		return errStale
	}
	_ = n.authority.proves(f.peer, m.Seats)
	n.compared.compare(m.Chain)
	if len(m.Voters) > 0 && m.VotersIndex > 0 {
		n.authority.setVoters(m.VotersIndex, m.Voters)
		n.seating.setContacts(m.Voters)
	}
	if m.Coordinator != "" && m.Coordinator != n.cfg.Self {
		f.aimless = time.Time{}
		n.dir.setCoordinator(m.Coordinator, m.Epoch)
		if m.Coordinator != f.peer {
			n.wakes.follow.Set()
		}
		return nil
	}
	n.dir.forgetCoordinator()
	if f.aimless.IsZero() {
		f.aimless = time.Now()
	} else if time.Since(f.aimless) > time.Second {
		return errAimless
	}
	return nil
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
	st, err := readState(g.data)
	g.data = nil
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSnapshot, err)
	}
	return st, nil
}

// follow takes entries from a peer as long as ctx lives and the stream holds.
func (n *Node) follow(ctx context.Context, peer taskstate.PeerID) (caughtUp bool, err error) {
	f := &following{n: n, peer: peer}
	c, err := f.n.cfg.Net.Dial(ctx, f.peer, FollowProtocol)
	if err != nil {
		return false, err
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = c.SetDeadline(time.Now()) // what is stuck in it would hold up Close
		_ = c.Close()
	})
	defer func() {
		if !stop() {
			<-closed
		}
		_ = c.Close()
	}()
	f.c, f.r = c, wire.NewReader(c, 0)
	err = f.run()
	n.follower.ended()
	return f.synced, err
}
