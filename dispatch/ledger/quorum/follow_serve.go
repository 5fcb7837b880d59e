package quorum

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"covey/dispatch/ledger"
	"covey/p2p/wire"
	"covey/taskstate"
)

// handleFollow serves one follower until it goes away, falls too far behind, or this peer no longer
// votes.
func (n *Node) handleFollow(peer string, c connT) {
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(followTimeout))
	var h followHello
	if err := wire.NewReader(c, raftHelloCap).Read(&h); err != nil {
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	if len(h.Seats) > 0 {
		_ = n.proves(peer, h.Seats)
	}
	n.learnMarks(peer, h.Marks)
	f := &feeder{n: n, peer: peer, c: c, w: wire.NewWriter(c, 0), seat: n.currentSeat()}
	if h.Copy {
		f.serveCopy(h)
		return
	}
	if code := f.refusal(peer, h); code != "" {
		_ = f.send(followFrame{Refuse: n.refusal(code)})
		return
	}
	if !n.serving.enter(peer) {
		_ = f.send(followFrame{Refuse: n.refusal(refuseBusy)})
		return
	}
	defer n.serving.leave(peer)
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
	c      connT
	w      *wire.Writer
	seat   *seat
	cursor uint64 // the follower has everything up to here
	synced bool
	marked bookmark
	due    time.Time // of the next bookmark
}

func (f *feeder) refusal(peer string, h followHello) string {
	switch {
	case f.seat == nil || !f.n.votes(f.seat):
		return refuseNotVoter
	case f.n.generationBeyond(peer, h.Generation):
		return refuseForeign
	case h.Generation > f.seat.generation:
		f.n.reportForeign(peer, h.Generation)
		return refuseOlder
	case h.Cluster != "" && h.Cluster != f.n.cluster():
		return refuseForeign
	case f.ahead(h):
		f.n.cfg.Log.Error("a follower says that it has decisions which this ledger does not have: if that is so, the voters' disks were turned back", "peer", peer, "theirs", h.Index, "ours", f.seat.raft.LastIndex())
		return refuseAhead
	}
	return ""
}

// refusal says whom to ask instead.
func (n *Node) refusal(code string) *followRefuse {
	r := &followRefuse{Code: code, Generation: n.Generation()}
	n.mu.Lock()
	defer n.mu.Unlock()
	r.Coordinator = n.coord
	for _, v := range n.voters {
		if v.Voting && v.Peer != n.cfg.Self {
			r.Voters = append(r.Voters, v.Peer)
		}
	}
	return r
}

// cluster is the id of the own ledger, "" before it is known.
func (n *Node) cluster() (id string) {
	n.rep.Read(func(s *ledger.State) { id = s.Cluster() })
	return id
}

// votes tells whether a seat is a voting one, as far as is known.
func (n *Node) votes(s *seat) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seat == s && s.unsound.Load() == nil && slices.ContainsFunc(n.voters, func(v Voter) bool { return v.Voting && s.is(v) })
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
		wait := f.n.moved.wait()
		for more := true; more; {
			var err error
			if more, err = f.step(); err != nil {
				return err
			}
		}
		if !f.n.votes(f.seat) {
			return f.send(followFrame{Refuse: f.n.refusal(refuseNotVoter)})
		}
		t.Reset(time.Until(f.due))
		select {
		case <-wait:
		case <-t.C:
		case <-gone:
			return io.EOF
		case <-f.n.closing:
			return nil
		}
	}
}

// begin resumes the follower where it stands, or sends a snapshot if it is of another generation or
// too far behind.
func (f *feeder) begin(h followHello) error {
	if h.Generation == f.seat.generation {
		f.cursor = h.Index
		if _, ok := f.n.ring.after(h.Index, 1); ok {
			return nil
		}
	}
	if !f.n.serving.snapshot(f.peer, time.Now()) {
		_ = f.send(followFrame{Refuse: f.n.refusal(refuseBusy)})
		return errTooMany
	}
	return f.snapshot()
}

var errTooMany = errors.New("it asks for one snapshot after another")

func (f *feeder) snapshot() error {
	var b []byte
	var err error
	f.n.rep.Read(func(s *ledger.State) {
		f.cursor = s.Index()
		if s.Index() > 0 {
			b, err = s.Encode()
		}
	})
	if err != nil || b == nil {
		return err
	}
	return f.parts(b)
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
	mark := f.n.mark() // before the entries: it must not promise what is not sent yet
	items, ok := f.n.ring.after(f.cursor, partBytes)
	if !ok {
		_ = f.send(followFrame{Refuse: f.n.refusal(refuseTooSlow)})
		return false, errTooSlow
	}
	if len(items) > 0 {
		if err := f.entries(items); err != nil {
			return false, err
		}
		f.cursor = items[len(items)-1].Index
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
		mark.Marks = f.n.showMarks(f.seat)
		f.marked, f.due = mark, now.Add(f.n.cfg.Timings.Bookmark)
		return false, f.send(followFrame{Mark: &mark})
	}
	return false, nil
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

// peersOf lists the peers of voters.
func peersOf(vs []Voter) []taskstate.PeerID {
	out := make([]taskstate.PeerID, len(vs))
	for i, v := range vs {
		out[i] = v.Peer
	}
	return out
}

// A snapshot is the whole state, encoded anew for each who needs one. An honest peer needs one when
// it is new, or was away for long, or cannot keep up; one that asks again and again would keep this
// peer busy with nothing else.
const (
	snapshotBurst = 8               // to one peer, before
	snapshotEvery = 2 * time.Second // one more in so long
)

// servingLimits counts who is served. A peer has few places of the many: one that opens stream
// after stream leaves room for the others.
type servingLimits struct {
	mu   sync.Mutex
	all  int
	each map[taskstate.PeerID]int
	took map[taskstate.PeerID]allowance // snapshots; whoever has its whole allowance again is not in it
}

// allowance is a bucket of tokens: missing many are spent, and one is back at refill.
type allowance struct {
	missing int
	refill  time.Time
}

func (c *servingLimits) enter(peer taskstate.PeerID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= maxFollowers || c.each[peer] >= maxFollowing {
		return false
	}
	if c.each == nil {
		c.each = map[taskstate.PeerID]int{}
	}
	c.all++
	c.each[peer]++
	return true
}

func (c *servingLimits) leave(peer taskstate.PeerID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.each[peer]--; c.each[peer] == 0 {
		delete(c.each, peer)
	}
}

// snapshot tells whether peer may have one more now, and counts it.
func (c *servingLimits) snapshot(peer taskstate.PeerID, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.took == nil {
		c.took = map[taskstate.PeerID]allowance{}
	}
	for p, a := range c.took {
		for a.missing > 0 && !now.Before(a.refill) {
			a.missing, a.refill = a.missing-1, a.refill.Add(snapshotEvery)
		}
		if c.took[p] = a; a.missing == 0 {
			delete(c.took, p)
		}
	}
	a := c.took[peer]
	if a.missing >= snapshotBurst {
		return false
	}
	if a.missing == 0 {
		a.refill = now.Add(snapshotEvery)
	}
	a.missing++
	c.took[peer] = a
	return true
}
