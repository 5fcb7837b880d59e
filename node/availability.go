package node

import (
	"context"
	"fmt"
	"math"
	"time"

	"covey/dispatch/ledger"
	"covey/membership"
	"covey/node/api"
	"covey/taskstate"
)

// selfWord is what a person types for the peer that is asked.
const selfWord = "self"

// maxGrace bounds --grace: what is meant to be for ever is long enough.
const maxGrace = 10 * 365 * 24 * time.Hour

// meantPeer finds the peer a person means: findPeer, or self.
func (n *Node) meantPeer(text string) (taskstate.PeerID, error) {
	if text == selfWord {
		return n.self, nil
	}
	return n.findPeer(text)
}

// Peer implements api.PeerKeeper.
func (n *Node) Peer(ctx context.Context, peer string) (api.PeerAnswer, error) {
	id, err := n.meantPeer(peer)
	if err != nil {
		return api.PeerAnswer{}, err
	}
	return n.answerPeer(ctx, id)
}

// answerPeer is the row of one peer as it is now.
func (n *Node) answerPeer(ctx context.Context, id taskstate.PeerID) (api.PeerAnswer, error) {
	all, err := n.Peers(ctx)
	if err != nil {
		return api.PeerAnswer{}, err
	}
	for _, p := range all.Peers {
		if p.ID == id {
			return api.PeerAnswer{Peer: p, AsOf: all.AsOf}, nil
		}
	}
	return api.PeerAnswer{}, refusedPeer(id, ledger.CodeUnknown)
}

// SetAvailability implements api.PeerKeeper.
func (n *Node) SetAvailability(ctx context.Context, peer string, a api.Availability) (api.PeerAnswer, error) {
	id, err := n.meantPeer(peer)
	if err != nil {
		return api.PeerAnswer{}, err
	}
	cmd := ledger.Avail{Peer: id, Availability: ledger.Availability(a.Availability), Reason: a.Reason}
	switch {
	case a.Availability != api.Active && a.Availability != api.Paused && a.Availability != api.Drained:
		return api.PeerAnswer{}, api.Errorf(api.Usage, "availability %q: want active, pause or drain", a.Availability)
	case math.IsNaN(a.Grace) || a.Grace < 0 || a.Grace > maxGrace.Seconds():
		return api.PeerAnswer{}, api.Errorf(api.Usage, "the grace is 0 s to ten years")
	case a.Grace > 0 && a.Availability != api.Drained:
		return api.PeerAnswer{}, api.Errorf(api.Usage, "a grace goes with drain: pause stops nothing")
	case len(a.Reason) > maxCallReason:
		return api.PeerAnswer{}, api.Errorf(api.Usage, "the reason has %d bytes, at most %d are kept", len(a.Reason), maxCallReason)
	}
	cmd.Grace = int64(a.Grace * 1000)
	if err := n.order(ctx, call{Avail: &cmd}, n.called(id)+" goes on as before"); err != nil {
		return api.PeerAnswer{}, err
	}
	return n.answerPeer(ctx, id)
}

// ofItself tells whether a peer asks for something about itself that is its owner's to say, whatever roles it was given.
func (c *call) ofItself() bool {
	return c.Avail != nil && c.Avail.Peer == c.From || c.Label != nil && c.Label.Peer == c.From || c.Remove != nil && c.Remove.Peer == c.From
}

// refusedPeer says why the ledger did not change what a peer is for.
func refusedPeer(id taskstate.PeerID, code ledger.Code) *api.Error {
	switch code {
	case ledger.CodeUnknown:
		return api.Errorf(api.NotFound, "no peer %s; see `peer peers`", id)
	case ledger.CodeInvalid:
		return api.Errorf(api.Usage, "the ledger takes no such change of peer %s", id)
	}
	return api.Errorf(api.Conflict, "the coordinator refused: %s", code)
}

const (
	drainShown = 20 // tasks that a line about a drain lists
	drainPause = 250 * time.Millisecond
	drainTick  = 2 * time.Second // looks again though nothing was heard: what keeps a task may be the peer
)

// Draining implements api.PeerKeeper. The ledger refuses every assignment that is decided after the drain, so that what is open there
// can only become less; a task is open until its last status was settled, which is what acknowledging it means. Nothing open is therefore
// all there is to wait for: nobody else has to be asked, and it stays true.
func (n *Node) Draining(ctx context.Context, peer string, send func(api.Draining) error) error {
	id, err := n.meantPeer(peer)
	if err != nil {
		return err
	}
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	told := ""
	for {
		_, _, more := n.hub.after(n.hub.last())
		line, err := n.drainNow(id)
		if err != nil {
			return err
		}
		if now := fmt.Sprintf("%+v", line.Tasks) + line.Note; now != told || line.Left == 0 {
			told = now
			if err := send(line); err != nil || line.Left == 0 {
				return err
			}
		}
		select {
		case <-more:
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		pause := time.NewTimer(drainPause) // one line says what many events changed
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
}

// drainNow says what is left on a drained peer.
func (n *Node) drainNow(id taskstate.PeerID) (api.Draining, error) {
	out := api.Draining{Peer: id, Name: n.called(id)}
	var open []taskstate.TaskID
	var m ledger.Member
	var batch bool
	n.replica.Read(func(s *ledger.State) {
		m, _ = s.Member(id)
		for t := range s.OpenOn(id) {
			if out.Left++; len(open) < drainShown {
				open = append(open, t)
			}
			if j, ok := s.Job(t.Job); ok && !j.Job().Type.Lasts() {
				batch = true
			}
		}
	})
	if m.In() && m.Availability != ledger.AvailDrain {
		return out, api.Errorf(api.Conflict, "%s is not drained; `peer drain %s` drains it", out.Name, out.Name)
	}
	for _, t := range open {
		rows, err := n.taskRows(t.Job, []int{t.Slot})
		if err == nil && len(rows) == 1 && rows[0].Attempt == t.Attempt {
			out.Tasks = append(out.Tasks, rows[0])
		}
	}
	if end := m.AvailSince + m.Grace; batch && m.Grace > 0 && end > n.now() {
		until := stamp(end)
		out.Until = &until
	}
	if out.Left > 0 {
		out.Note = n.whyLeft(id)
	}
	return out, nil
}

// whyLeft says what keeps the tasks of a drained peer where it is not they themselves.
func (n *Node) whyLeft(id taskstate.PeerID) string {
	if _, _, ok := n.coordinator(); !ok {
		if w := n.waitingFor(); w != "" {
			return "no coordinator: waiting for " + w
		}
		return "no coordinator yet: one is being elected"
	}
	if got, ok := n.members.View().Get(id); !ok || got.Verdict == membership.Dead {
		return "the peer is away: its tasks go elsewhere as their jobs allow, or are stopped when it is back"
	}
	return ""
}

// showAvailability puts what people said about giving a peer tasks into its row.
func (n *Node) showAvailability(p *api.Peer, m ledger.Member) {
	p.Availability = api.Active
	if m.Takes() {
		return
	}
	p.Availability, p.AvailabilityReason = string(m.Availability), m.AvailReason
	if m.Availability == ledger.AvailDrain {
		left := 0
		n.replica.Read(func(s *ledger.State) {
			for range s.OpenOn(p.ID) {
				left++
			}
		})
		p.TasksLeft = &left
	}
}
