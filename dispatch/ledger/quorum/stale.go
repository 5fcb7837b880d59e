package quorum

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger/quorum/mark"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/taskstate"
)

// Root is what the data folder remembers of the seat outside of Config.Dir, which may be put back
// to an old copy alone.
type Root interface {
	// Stale is why the seat may be behind what it once acknowledged, the zero Doubt if it is not.
	Stale() Doubt
	// SetStale remembers on disk that the seat is stale, or with the zero Doubt that it is current.
	SetStale(d Doubt) error
	// Draw takes the number that the log has, 0 for none, and has write give the log a number that
	// no copy of it has; last reports whether the log with the old number is the one that was used
	// last. From then on the one with the new number is.
	Draw(was uint64, write func(last bool, number uint64) error) error
}

// Doubt is why a seat may be behind what it once acknowledged.
type Doubt struct {
	Why   string // "": it is not
	Moved bool   // the data folder is not where it was, and that is all: a person may vouch for it
}

// staleness is what this peer knows of its seat being stale: its folder, or a part of it, is an old
// copy or a second one, so that the seat may have acknowledged entries, and given votes, that it
// does not know of. What it forgot stands in the logs of other voters: each entry that was decided
// with it is at one of them at least, and each candidate it voted for took part in that term.
//
// Until it has heard every other voter, a stale seat gives no vote, does not stand, and
// acknowledges no entry that is not decided without it: its other half may do so at the same time.
// Then it votes only for a log that has all that any voter has, and is current when its own log
// has. A seat that is stale only because its folder was moved is also current ten seconds after a
// person vouched for it.
type staleness struct {
	cfg    *Config
	place  *ownSeat
	call   *caller
	marks  *seenMarks
	dir    *directory
	wakes  *wakes
	copy   func() (Copy, error) // this peer's own
	news   wake.Signal          // a stale seat was opened
	voting longLock             // a vote is given, or the last word on votes that were forgotten is written

	change sync.Mutex // held while the doubt changes here and on disk

	mu    sync.Mutex
	now   Doubt // with "": the seat is current
	since time.Time
	heard map[string]logEnd // of the servers that were heard since then
	all   bool              // every other voter was heard
	newer taskstate.PeerID  // a member that knows more than this peer, which is the only voter
}

// logEnd is how new a log is, in raft's order.
type logEnd struct{ term, index uint64 }

func (e logEnd) compare(o logEnd) int {
	return cmp.Or(cmp.Compare(e.term, o.term), cmp.Compare(e.index, o.index))
}

const (
	hearEvery = 500 * time.Millisecond // between two rounds of questions of a stale seat
	// askMembers is how long members have to show that they know more: to a stale seat that is the
	// only one, and to one that a person vouches for.
	askMembers = 10 * time.Second
)

// StaleSeat is why a seat is stale, and what it waits for.
type StaleSeat struct {
	Doubt
	Vouched bool               // see Config.Vouched
	Unheard []taskstate.PeerID // other voters that it has not heard
	Newer   taskstate.PeerID   // the member that knows more than this peer, which is the only voter
}

// seat describes the stale seat, nil if it is current.
func (t *staleness) seat() *StaleSeat {
	s := t.place.seat.Load()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now.Why == "" || s == nil {
		return nil
	}
	out := &StaleSeat{Doubt: t.now, Vouched: t.cfg.Vouched, Newer: t.newer}
	vs, _ := s.servers()
	for _, v := range vs {
		if _, ok := t.heard[v.server()]; !ok && v.Voting && !s.is(v) {
			out.Unheard = append(out.Unheard, v.Peer)
		}
	}
	return out
}

// stale reports whether the seat is stale.
func (t *staleness) stale() bool { return t.said().Why != "" }

// said is why the seat is stale.
func (t *staleness) said() Doubt {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}

// doubt makes a seat that is not open yet stale, if it is not already. A reason that no person can
// vouch against takes the place of one that a person can.
func (t *staleness) doubt(d Doubt) {
	if d.Why != "" {
		t.set(d, func(was Doubt) bool { return was.Why == "" || was.Moved && !d.Moved })
	}
}

// set changes the doubt, here and on disk, if the one there is may be changed.
func (t *staleness) set(d Doubt, may func(was Doubt) bool) bool {
	t.change.Lock()
	defer t.change.Unlock()
	t.mu.Lock()
	ok := may(t.now)
	if ok {
		t.now, t.since, t.heard, t.all, t.newer = d, time.Now(), map[string]logEnd{}, false, ""
	}
	t.mu.Unlock()
	if !ok || t.cfg.Root == nil {
		return ok
	}
	if err := t.cfg.Root.SetStale(d); err != nil {
		t.cfg.Log.Warn("cannot remember whether this voter's log may be an old copy", "err", err)
	}
	return true
}

// warn writes into the log that the seat is stale, if it is.
func (t *staleness) warn() {
	if why := t.said().Why; why != "" {
		t.cfg.Log.Warn("this voter's log may be an old copy: it gives no vote and does not stand until it has all that the other voters have", "why", why)
	}
}

// over ends staleness: the log has what the others have, or another one begins.
func (t *staleness) over() { t.set(Doubt{}, func(was Doubt) bool { return was.Why != "" }) }

// acknowledges reports whether the seat may acknowledge entries that are not decided without it.
func (t *staleness) acknowledges() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now.Why == "" || t.all
}

// votesFor reports whether the seat may vote for a candidate with a log that ends so.
func (t *staleness) votesFor(candidate logEnd) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now.Why == "" || t.all && candidate.compare(t.newest()) >= 0
}

// newest is the end of the newest log that was heard. The caller holds mu.
func (t *staleness) newest() (end logEnd) {
	for _, e := range t.heard {
		if e.compare(end) > 0 {
			end = e
		}
	}
	return end
}

// run asks the others while the seat is stale, until ctx ends.
func (t *staleness) run(ctx context.Context) {
	for {
		s := t.place.seat.Load()
		if s == nil || !t.stale() {
			select {
			case <-t.news:
			case <-ctx.Done():
				return
			}
			continue
		}
		t.look(ctx, s)
		if pause.For(ctx, hearEvery) != nil {
			return
		}
	}
}

// look asks the other voters, and ends the staleness if their answers allow it.
func (t *staleness) look(ctx context.Context, s *seat) {
	doubt := t.said()
	current := func() bool { return t.set(Doubt{}, func(was Doubt) bool { return was == doubt }) }
	others, err := s.servers()
	if err != nil {
		return
	}
	others = slices.DeleteFunc(others, func(v Voter) bool { return !v.Voting || s.is(v) })
	if len(others) == 0 {
		t.lookAlone(ctx, s, current)
		return
	}
	t.hear(ctx, s, others)
	t.mu.Lock()
	t.all = !slices.ContainsFunc(others, func(v Voter) bool { _, ok := t.heard[v.server()]; return !ok })
	all, newest := t.all, t.newest()
	vouched := doubt.Moved && t.cfg.Vouched && time.Since(t.since) >= askMembers
	t.mu.Unlock()
	switch {
	case all && s.end().compare(newest) >= 0 && t.seal(ctx, s, others) && current():
		t.cfg.Log.Info("this voter's log has all that the other voters have: it votes again", "end", s.raft.LastIndex())
	case vouched && current():
		t.cfg.Log.Warn("this voter votes again, for a person said that its data folder was moved and is the newest copy", "end", s.raft.LastIndex())
	default:
		return
	}
	t.wakes.suspect.Set()
}

// hear asks the voters that were not heard yet how new their logs are.
func (t *staleness) hear(ctx context.Context, s *seat, others []Voter) {
	var wg sync.WaitGroup
	for _, v := range others {
		t.mu.Lock()
		_, known := t.heard[v.server()]
		t.mu.Unlock()
		if known {
			continue
		}
		wg.Go(func() {
			a, err := t.call.ask(ctx, v.Peer, voterAsk{Copy: &copyAsk{}}, voterTimeout)
			if err != nil || a.Copy == nil || a.Copy.Seat != v.server() || a.Copy.Generation != s.generation {
				return
			}
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.heard != nil {
				t.heard[v.server()] = logEnd{a.Copy.Epoch.Term, max(a.Copy.Index, a.Copy.VotersIndex)}
			}
		})
	}
	wg.Wait()
}

// lookAlone is look for the only voter: of the members it knows, none may know more.
func (t *staleness) lookAlone(ctx context.Context, s *seat, current func() bool) {
	own, err := t.copy()
	if err != nil {
		return
	}
	var wg sync.WaitGroup
	var silent atomic.Bool
	for _, p := range t.members() {
		wg.Go(func() {
			a, err := t.call.ask(ctx, p, voterAsk{Copy: &copyAsk{}}, voterTimeout)
			if err != nil || a.Copy == nil {
				silent.Store(true)
			} else if a.Copy.Compare(own) > 0 {
				t.mu.Lock()
				t.newer = p
				t.mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.mu.Lock()
	wait := t.newer != "" || silent.Load() && time.Since(t.since) < askMembers
	t.mu.Unlock()
	if wait || t.place.seat.Load() != s || !current() {
		return
	}
	t.cfg.Log.Info("no member knows more than this peer, which is the only voter: it goes on")
	s.elect()
}

// maxAsked bounds the members that a lone voter asks.
const maxAsked = 64

// members are the peers that may know more than a lone voter.
func (t *staleness) members() (ask []taskstate.PeerID) {
	for _, c := range t.cfg.Candidates() {
		ask = append(ask, c.Peer)
	}
	ask = append(ask, t.dir.ask()...)
	slices.Sort(ask)
	ask = slices.DeleteFunc(slices.Compact(ask), func(p taskstate.PeerID) bool { return p == t.cfg.Self })
	return ask[:min(len(ask), maxAsked)]
}

// end is the end of the seat's log.
func (s *seat) end() (e logEnd) {
	stats := s.raft.Stats()
	e.term, _ = strconv.ParseUint(stats["last_log_term"], 10, 64)
	e.index, _ = strconv.ParseUint(stats["last_log_index"], 10, 64)
	return e
}

// seal gives away the votes that this seat may have given and forgotten: in no term that another
// voter has taken part in it votes again. It reports whether that is on disk.
func (t *staleness) seal(ctx context.Context, s *seat, others []Voter) bool {
	floor := uint64(0)
	for _, v := range others {
		floor = max(floor, t.marks.acknowledged(mark.Mark{Server: v.server(), Generation: s.generation}).Voted)
	}
	if s.raft.CurrentTerm() < floor {
		return false // it hears of that term from the others
	}
	if t.voting.LockUntil(ctx) != nil {
		return false
	}
	defer t.voting.Unlock()
	voted, err := s.store.GetUint64(lastVoteTerm)
	if err != nil && err.Error() != "not found" {
		return false
	}
	if voted >= floor {
		return true
	}
	return s.store.Set(lastVoteFor, []byte("a vote that was forgotten")) == nil && s.store.SetUint64(lastVoteTerm, floor) == nil
}

// The names under which raft keeps its votes.
var (
	lastVoteTerm = []byte("LastVoteTerm")
	lastVoteFor  = []byte("LastVoteCand")
)

// drawName is the name under which a log keeps its number of Root.Draw.
var drawName = []byte("Draw")

// fits holds a log that is opened against what the root of the data folder says of it.
func (t *staleness) fits(s *seat) {
	if t.cfg.Root == nil {
		return
	}
	was, err := s.store.GetUint64(drawName)
	if err != nil && err.Error() != "not found" {
		t.cfg.Log.Warn("the number of the ledger's log cannot be read", "err", err)
		return
	}
	err = t.cfg.Root.Draw(was, func(last bool, number uint64) error {
		if end, err := s.store.LastIndex(); !last && (err != nil || end > 0) {
			t.doubt(Doubt{Why: "the ledger's log is not the one that this data folder used last: it was put back to an old copy"})
		}
		return s.store.SetUint64(drawName, number)
	})
	if err != nil {
		t.cfg.Log.Warn("the ledger's log gets no new number, so that an old copy of it may go unnoticed", "err", err)
	}
}

// Why a seat sends nothing, or does not answer.
var (
	errStuck     = errors.New("this peer's disk is stuck")
	errStaleSeat = errors.New("this voter's log may be an old copy")
)

// seatTransport is raft's network as a seat uses it. A leader whose own log is stuck sends nothing:
// raft sends heartbeats from other goroutines than the one that waits for the disk, for ever, and
// without them the others elect another. A stale seat sends no requests for votes, and has its
// answers screened. No seat takes an entry that contradicts its log.
type seatTransport struct {
	*raft.NetworkTransport
	seat  *seat
	stale *staleness
	calls chan raft.RPC

	mu     sync.Mutex
	pulses map[raft.ServerID]*pulse // of the servers that are far away
}

var _ raft.WithPreVote = (*seatTransport)(nil)

func newSeatTransport(s *seat, t *staleness) *seatTransport {
	return &seatTransport{NetworkTransport: s.trans, seat: s, stale: t, calls: make(chan raft.RPC), pulses: map[raft.ServerID]*pulse{}}
}

// AppendEntries implements raft.Transport.
func (x *seatTransport) AppendEntries(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if _, stuck := x.seat.store.Stuck(); stuck {
		return errStuck
	}
	if isHeartbeat(req) {
		return x.heartbeat(id, to, req, resp)
	}
	return x.NetworkTransport.AppendEntries(id, to, req, resp)
}

// RequestVote implements raft.Transport.
func (x *seatTransport) RequestVote(id raft.ServerID, to raft.ServerAddress, req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if x.stale.stale() {
		return errStaleSeat
	}
	return x.NetworkTransport.RequestVote(id, to, req, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (x *seatTransport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if x.stale.stale() {
		return errStaleSeat
	}
	return x.NetworkTransport.RequestPreVote(id, to, req, resp)
}

// Consumer implements raft.Transport.
func (x *seatTransport) Consumer() <-chan raft.RPC { return x.calls }

// SetHeartbeatHandler implements raft.Transport. The heartbeats of a leader count for a stale seat
// and not for the leader: what is acknowledged by too few is not to lead.
func (x *seatTransport) SetHeartbeatHandler(handle func(raft.RPC)) {
	x.NetworkTransport.SetHeartbeatHandler(func(rpc raft.RPC) {
		if x.stale.acknowledges() {
			handle(rpc)
			return
		}
		said := make(chan raft.RPCResponse, 1)
		handle(raft.RPC{Command: rpc.Command, RespChan: said})
		x.answer(rpc, said, func(r *raft.RPCResponse) {
			if a, ok := r.Response.(*raft.AppendEntriesResponse); ok && a.Success {
				r.Error = errStaleSeat
			}
		})
	})
}

// screen passes to raft what other servers ask, as far as a stale seat may answer, until the seat's
// streams end.
func (x *seatTransport) screen() {
	for {
		select {
		case rpc := <-x.NetworkTransport.Consumer():
			x.screened(rpc)
		case <-x.seat.stream.done:
			return
		}
	}
}

func (x *seatTransport) screened(rpc raft.RPC) {
	switch q := rpc.Command.(type) {
	case *raft.RequestVoteRequest:
		if x.stale.voting.LockUntil(context.Background()) == nil {
			defer x.stale.voting.Unlock()
		}
		if !x.stale.votesFor(logEnd{q.LastLogTerm, q.LastLogIndex}) {
			rpc.Respond(&raft.RequestVoteResponse{RPCHeader: x.header(), Term: x.seat.raft.CurrentTerm()}, nil)
			return
		}
		x.relay(rpc, rpc.Command, nil)
	case *raft.RequestPreVoteRequest:
		if !x.stale.votesFor(logEnd{q.LastLogTerm, q.LastLogIndex}) {
			rpc.Respond(&raft.RequestPreVoteResponse{RPCHeader: x.header(), Term: x.seat.raft.CurrentTerm()}, nil)
			return
		}
		x.pass(rpc)
	case *raft.TimeoutNowRequest:
		if x.stale.stale() {
			rpc.Respond(&raft.TimeoutNowResponse{RPCHeader: x.header()}, errStaleSeat)
			return
		}
		x.pass(rpc)
	case *raft.AppendEntriesRequest:
		switch err := x.seat.againstEntries(q.Entries); {
		case err != nil:
			rpc.Respond(&raft.AppendEntriesResponse{RPCHeader: x.header(), Term: x.seat.raft.CurrentTerm()}, err)
		case x.stale.acknowledges():
			x.pass(rpc)
		default:
			x.appendDecided(rpc, q)
		}
	default:
		x.pass(rpc)
	}
}

// appendDecided has raft take of a leader's entries those that are decided. The leader hears that
// the others are not here.
func (x *seatTransport) appendDecided(rpc raft.RPC, q *raft.AppendEntriesRequest) {
	decided := *q
	decided.Entries = slices.Clone(q.Entries)
	decided.Entries = slices.DeleteFunc(decided.Entries, func(l *raft.Log) bool { return l.Index > q.LeaderCommitIndex })
	if len(decided.Entries) == len(q.Entries) {
		x.pass(rpc)
		return
	}
	x.relay(rpc, &decided, func(r *raft.RPCResponse) {
		if a, ok := r.Response.(*raft.AppendEntriesResponse); ok && a.Success {
			a.Success = false
		}
	})
}

// pass gives raft what it is asked.
func (x *seatTransport) pass(rpc raft.RPC) {
	select {
	case x.calls <- rpc:
	case <-x.seat.stream.done:
	}
}

// relay has raft answer a command, and passes on its answer.
func (x *seatTransport) relay(rpc raft.RPC, command any, change func(*raft.RPCResponse)) {
	said := make(chan raft.RPCResponse, 1)
	x.pass(raft.RPC{Command: command, Reader: rpc.Reader, RespChan: said})
	x.answer(rpc, said, change)
}

func (x *seatTransport) answer(rpc raft.RPC, said <-chan raft.RPCResponse, change func(*raft.RPCResponse)) {
	select {
	case r := <-said:
		if change != nil {
			change(&r)
		}
		rpc.RespChan <- r // of length one
	case <-x.seat.stream.done:
	}
}

func (x *seatTransport) header() raft.RPCHeader {
	id := []byte(x.seat.self.server())
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: id, Addr: id}
}
