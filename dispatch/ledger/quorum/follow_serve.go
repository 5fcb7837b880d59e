package quorum

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// handleFollow serves one follower until it goes away, falls too far behind, or this peer no longer
// votes.
func (n *Node) handleFollow(peer string, c net.Conn) {
	defer c.Close()
	defer context.AfterFunc(n.life, func() { _ = c.Close() })() // who reads slowly does not hold up Close
	_ = c.SetReadDeadline(time.Now().Add(followTimeout))
	var h followHello
	if err := wire.NewReader(c, raftHelloCap).Read(&h); err != nil {
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	if len(h.Seats) > 0 {
		_ = n.authority.proves(peer, h.Seats)
	}
	n.seating.learnMarks(peer, h.Marks)
	f := &feeder{n: n, peer: peer, c: c, w: wire.NewWriter(c, 0), seat: n.place.seat.Load()}
	if h.Copy {
		f.serveCopy(h)
		return
	}
	if code := f.refusal(peer, h); code != "" {
		_ = f.send(followFrame{Refuse: n.dir.refusal(code)})
		return
	}
	if !n.served.Enter(peer) {
		_ = f.send(followFrame{Refuse: n.dir.refusal(refuseBusy)})
		return
	}
	defer n.served.Leave(peer)
	gone := make(chan struct{})
	go func() { // a follower says nothing more: the end of its stream is all there is to read
		defer close(gone)
		_, _ = io.Copy(io.Discard, c)
	}()
	if err := f.serve(h, gone); err != nil {
		n.cfg.Log.Debug("stopped serving a follower", "peer", peer, "why", err)
	}
	_ = c.Close()
	<-gone
}

// feeder is one follower's stream on the voter's side.
type feeder struct {
	n      *Node
	peer   taskstate.PeerID // the follower
	c      net.Conn
	w      *wire.Writer
	seat   *seat
	cursor uint64 // the follower has everything up to here
	reads  bool   // it may know what all jobs run, as far as was seen
	synced bool
	marked bookmark
	said   time.Time // when the last bookmark went
	due    time.Time // of the next one
}

func (f *feeder) refusal(peer string, h followHello) string {
	switch {
	case f.seat == nil || !f.n.dir.votes(f.seat):
		return refuseNotVoter
	case f.n.authority.generationBeyond(peer, h.Generation):
		return refuseForeign
	case h.Generation > f.seat.generation:
		f.n.authority.reportForeign(peer, h.Generation)
		return refuseOlder
	case h.Cluster != "" && h.Cluster != f.n.place.cluster():
		return refuseForeign
	case f.ahead(h.Generation, h.Index):
		return refuseAhead
	}
	return ""
}

// serve sends what is new, all that has gathered while the last write was under way in one go, and
// then waits for more.
func (f *feeder) serve(h followHello, gone <-chan struct{}) error {
	// At once, so that nobody waits long for a voter that is not there any more.
	if err := f.send(followFrame{Seats: f.n.authority.seats.Proof()}); err != nil {
		return err
	}
	if err := f.begin(h); err != nil {
		return err
	}
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		wait := f.n.wakes.moved.wait()
		for more := true; more; {
			var err error
			if more, err = f.step(); err != nil {
				return err
			}
		}
		if !f.n.dir.votes(f.seat) {
			return f.send(followFrame{Refuse: f.n.dir.refusal(refuseNotVoter)})
		}
		t.Reset(time.Until(f.due))
		select {
		case <-wait:
		case <-t.C:
		case <-gone:
			return io.EOF
		case <-f.n.life.Done():
			return nil
		}
	}
}

// begin resumes the follower where it stands, or sends a snapshot if it is of another generation or
// too far behind.
func (f *feeder) begin(h followHello) error {
	f.reads = f.n.authority.reads(f.peer)
	if h.Generation == f.seat.generation && !(h.Lacks && f.reads) {
		f.cursor = h.Index
		if _, ok := f.n.feed.ring.after(h.Index, 1); ok {
			return nil
		}
	}
	return f.anew()
}

// anew sends a snapshot, if it is not one after another.
func (f *feeder) anew() error {
	if !f.n.snapshots.allow(f.peer) {
		_ = f.send(followFrame{Refuse: f.n.dir.refusal(refuseBusy)})
		return errTooMany
	}
	return f.snapshot()
}

var errBehind = errors.New("it has more than this coordinator")

var errTooMany = errors.New("it asks for one snapshot after another")

func (f *feeder) snapshot() error {
	var b []byte
	var err error
	f.n.place.rep.Read(func(s *ledger.State) {
		f.cursor = s.Index()
		if s.Index() > 0 {
			b, err = encodeFor(s, f.peer, f.reads)
		}
	})
	if err != nil || b == nil {
		return err
	}
	if f.reads && !f.n.authority.reads(f.peer) { // a role that was taken before a job in it does not count
		f.reads = false
		return f.snapshot()
	}
	return f.parts(b)
}

// encodeFor is a state for a peer that may know what all jobs run, or not.
func encodeFor(s *ledger.State, peer taskstate.PeerID, reads bool) ([]byte, error) {
	if reads {
		return s.Encode()
	}
	return ledger.EncodeFor(s, peer)
}

func (f *feeder) parts(b []byte) error {
	for part := range slices.Chunk(b, partBytes) {
		p := &snapshotPart{Data: part, Total: len(b)}
		p.Last = &part[len(part)-1] == &b[len(b)-1]
		if err := f.send(followFrame{Part: p}); err != nil {
			return err
		}
	}
	return nil
}

// step sends one round: entries, then, when there are none left, synced and a bookmark if they are
// due.
func (f *feeder) step() (more bool, err error) {
	if f.ahead(f.seat.generation, f.cursor) { // it came while nobody led
		_ = f.send(followFrame{Refuse: f.n.dir.refusal(refuseAhead)})
		return false, errBehind
	}
	mark := f.n.mark() // before the entries: it must not promise what is not sent yet
	items, ok := f.n.feed.ring.after(f.cursor, partBytes)
	if !ok {
		_ = f.send(followFrame{Refuse: f.n.dir.refusal(refuseTooSlow)})
		return false, errTooSlow
	}
	// After the entries: a role that was taken before one of them must not be counted any more.
	if reads := f.n.authority.reads(f.peer); reads != f.reads {
		f.reads = reads
		if reads {
			return true, f.anew()
		}
	}
	if len(items) > 0 {
		if err := f.show(items); err != nil {
			return false, err
		}
		if err := f.entries(items); err != nil {
			return false, err
		}
		f.cursor = items[len(items)-1].Index
		if soon := f.said.Add(bookmarkSoon); soon.Before(f.due) {
			f.due = soon
		}
		return true, nil
	}
	if !f.synced {
		f.synced = true
		if err := f.send(followFrame{Synced: true}); err != nil {
			return false, err
		}
	}
	if now := time.Now(); !mark.same(f.marked) || !now.Before(f.due) {
		if mark.VotersIndex != f.marked.VotersIndex {
			mark.Seats = f.n.authority.seats.ShortProof(seatsShown)
		}
		mark.Marks = f.n.marks.show(f.seat)
		f.marked, f.said, f.due = mark, now, now.Add(bookmarkEvery)
		return false, f.send(followFrame{Mark: &mark})
	}
	return false, nil
}

// show gives items the form in which the follower may have them.
func (f *feeder) show(items []item) (err error) {
	if f.reads {
		return nil
	}
	for i := range items {
		switch it := &items[i]; {
		case it.public.Data == nil:
		case slices.Contains(it.public.Parties, f.peer):
			if it.Data, err = ledger.EntryFor(it.Data, f.peer); err != nil {
				return err
			}
		default:
			it.Data = it.public.Data
		}
	}
	return nil
}

// entries sends items; an entry too large for a frame goes in parts.
func (f *feeder) entries(items []item) error {
	if len(items) > 1 || len(items[0].Data) <= partBytes {
		return f.send(followFrame{Items: items})
	}
	it := items[0]
	for rest := it.Data; len(rest) > 0; {
		k := min(len(rest), partBytes)
		if err := f.send(followFrame{Items: []item{{Index: it.Index, Data: rest[:k], More: k < len(rest)}}}); err != nil {
			return err
		}
		rest = rest[k:]
	}
	return nil
}

func (f *feeder) send(fr followFrame) error {
	_ = f.c.SetWriteDeadline(time.Now().Add(followTimeout))
	return f.w.Send(fr)
}

// serveCopy sends all this peer has to one that recovers the ledger. What jobs run it is given if
// it may know that, or if nobody decides any more and it may begin the ledger again.
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
	st, err := survivor(f.n.place.rep, log, f.n.cfg.Log)
	var b []byte
	if err == nil {
		b, err = encodeFor(st, f.peer, f.n.authority.reads(f.peer) || f.n.authority.mayBegin(f.peer))
	}
	if err == nil {
		err = f.parts(b)
	}
	if err != nil {
		f.n.cfg.Log.Warn("the copy of the ledger could not be sent", "err", err)
	}
}

// ahead tells whether a follower has more than this leader's log: entries that were decided and
// that the voters lost. It is said to people until it is over.
func (f *feeder) ahead(generation, index uint64) bool {
	s := f.seat
	if generation != s.generation || s.raft.State() != raft.Leader || f.n.terms.lead.Load() == nil {
		return false
	}
	last := s.raft.LastIndex()
	if index <= last {
		f.n.compared.agrees(f.peer)
		return false
	}
	f.n.compared.claims(f.peer, index, last)
	f.n.cfg.Log.Error("a follower says that it has decisions which this ledger does not have: if that is so, the voters' disks were turned back", "peer", f.peer, "theirs", index, "ours", last)
	return true
}

// mark is this peer's bookmark now.
func (n *Node) mark() bookmark {
	index := n.feed.ring.end()
	chain, ok := n.place.rep.ChainAt(0)
	b := n.dir.bookmark()
	if b.Index = index; ok {
		b.Chain = &chain
	}
	return b
}
