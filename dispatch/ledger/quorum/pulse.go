package quorum

import (
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/internal/far"
)

// pulse is how a leader hears of a server that is far away, in one term.
type pulse struct {
	term  uint64
	heard time.Time     // when it answered last, or when the term began: it is among those that elected
	under chan struct{} // closed when the heartbeat under way has an outcome; nil: there is none
	resp  raft.AppendEntriesResponse
	err   error // of the last one
}

// isHeartbeat reports whether raft sends nothing but a sign of life.
func isHeartbeat(req *raft.AppendEntriesRequest) bool {
	return len(req.Entries) == 0 && req.PrevLogEntry == 0 && req.PrevLogTerm == 0 && req.LeaderCommitIndex == 0
}

// heartbeat sends a heartbeat. Raft's lease is as long as suits fast links, and cannot be changed
// while raft runs: a leader would give up before the first heartbeat over a far link is answered.
// So for a server that is far away raft gets a success at once, as long as the server has answered
// within some round trips, and the heartbeat under way goes on. Raft's safety does not rest on the
// lease: a leader that was deposed meanwhile decides nothing, since no majority takes its entries.
func (x *seatTransport) heartbeat(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	lease := x.lease(to)
	if lease <= raftLease {
		return x.NetworkTransport.AppendEntries(id, to, req, resp)
	}
	p, under := x.beat(id, to, req)
	soon := time.NewTimer(raftLease / 8)
	defer soon.Stop()
	select {
	case <-under:
	case <-soon.C:
	}
	x.mu.Lock()
	waits := p.under == under && time.Since(p.heard) >= lease
	x.mu.Unlock()
	if waits {
		<-under
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if p.under == under {
		*resp = raft.AppendEntriesResponse{RPCHeader: x.header(), Term: req.Term, Success: true}
		return nil
	}
	*resp = p.resp
	return p.err
}

// lease is how long a leader may go without an answer of a server.
func (x *seatTransport) lease(to raft.ServerAddress) time.Duration {
	peer, _, err := parseServer(string(to))
	if err != nil {
		return raftLease
	}
	return far.For(x.seat.stream.net, peer, raftLease)
}

// beat has a heartbeat under way to a server, and no more than one.
func (x *seatTransport) beat(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest) (*pulse, chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.pulses[id]
	if p == nil || p.term != req.Term {
		p = &pulse{term: req.Term, heard: time.Now()}
		x.pulses[id] = p
	}
	if p.under != nil {
		return p, p.under
	}
	under, again := make(chan struct{}), *req
	p.under = under
	go func() { // ends with its deadline, or with the seat's streams
		defer close(under)
		var resp raft.AppendEntriesResponse
		err := x.NetworkTransport.AppendEntries(id, to, &again, &resp)
		x.mu.Lock()
		defer x.mu.Unlock()
		if p.under, p.resp, p.err = nil, resp, err; err == nil {
			p.heard = time.Now()
		}
	}()
	return p, under
}
