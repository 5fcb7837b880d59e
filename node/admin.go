package node

import (
	"context"
	"errors"
	"fmt"
	"io"

	"covey/dispatch/ledger"
	"covey/dispatch/ledger/quorum"
	"covey/membership"
	"covey/node/api"
	"covey/node/calls"
	"covey/node/stdin"
	"covey/p2p/admission"
	"covey/taskstate"
)

// Leave implements api.AdminBackend: tasks stop and are settled, the vote is handed over, then the
// membership ends.
func (n *Node) Leave(ctx context.Context) error {
	if len(n.view.Who.Admitted()) < 2 {
		return api.Errorf(api.Conflict, "this is the only peer of its cluster. Stop it with `peer down`; to give the cluster up, remove its data folder %s", n.folder.dir)
	}
	n.leaving.Store(true)
	if err := n.leave(ctx); err != nil {
		n.leaving.Store(false)
		n.keeper.Moved()
		return err
	}
	return n.Down(ctx)
}

func (n *Node) leave(ctx context.Context) error {
	if n.view.AskCluster(ctx, "") == nil {
		return api.Errorf(api.NoCoordinator, "this peer did not leave: %s", n.view.Deciders.TryAgain())
	}
	if err := n.files.handOver(ctx); err != nil {
		return err
	}
	// The worker first: one that still looks for a session would register again.
	if err := n.worker.Stop(ctx); err != nil {
		n.log.Warn("leaving before every task's end was acknowledged", "err", err)
	}
	if err := n.orders.Order(ctx, calls.Call{Leave: &ledger.Depart{Peer: n.self}}, "this peer stopped its tasks and did not leave; stop it with `peer down`"); err != nil {
		return err
	}
	if err := n.ledger.Handover(ctx); err != nil {
		n.log.Info("vote not handed over; the others replace it", "err", err)
	}
	return n.orders.Order(ctx, calls.Call{Remove: &ledger.Remove{Peer: n.self, Reason: "left"}}, "this peer stopped its tasks but is still a member")
}

// candidates are the peers that may vote, and how they are, for the coordinator.
func (n *Node) candidates() []quorum.Candidate {
	view := n.members.View()
	var out []quorum.Candidate
	for _, m := range n.view.Who.Admitted() {
		got, ok := view.Get(m.Entry.Peer)
		seat := got.Seat
		if m.Entry.Peer == n.self {
			seat = n.ledger.SeatIncarnation()
		}
		out = append(out, quorum.Candidate{
			Peer: m.Entry.Peer, Incarnation: seat, Alive: ok && got.Verdict == membership.Alive, Since: got.Since,
			Eligible: m.Entry.Has(admission.Voter) && !m.Left, RTT: got.RTT,
		})
	}
	return out
}

// Stdin implements api.JobBackend.
func (n *Node) Stdin(ctx context.Context, id string, r io.Reader) error {
	err := n.feeds.spools.Give(ctx, taskstate.JobID(id), r)
	var told *stdin.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &told):
		return api.Errorf(api.Conflict, "%s", told.Message)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return api.Errorf(api.Failed, "the stdin of job %s was not passed on to its end: %v", id, err)
}

// forgetStdins lets go of the stdins of jobs that nobody will run.
func (n *Node) forgetStdins() {
	n.feeds.spools.Forget(func(id taskstate.JobID) (over bool) {
		over = !n.held.Has(id)
		n.replica.Read(func(s *ledger.State) {
			if j, ok := s.Job(id); ok {
				_, over = j.Ended()
			} else if current, _ := n.ledger.InSync(); !current {
				over = false
			}
		})
		return over
	})
}

// ticketDoors is how many peers a ticket names: enough that some of them are up.
const ticketDoors = 4

// openDoors are addresses of this peer and of some that are alive, to be found by who joins.
func (n *Node) openDoors() []admission.PeerAddr {
	doors := []admission.PeerAddr{{ID: n.self, Addrs: n.host.Addrs()}}
	for m := range n.members.View().Alive() {
		if m.ID != n.self && len(doors) < ticketDoors && len(m.Addrs) > 0 {
			doors = append(doors, admission.PeerAddr{ID: m.ID, Addrs: m.Addrs})
		}
	}
	return doors
}

// Admit implements admission.Admitter: any peer may be dialled by a stranger, the coordinator
// decides.
func (n *Node) Admit(ctx context.Context, from string, req admission.JoinRequest) (admission.JoinAnswer, error) {
	r, err := n.line.Decide(ctx, calls.Call{Join: &calls.JoinCall{Peer: from, Request: req}})
	if err != nil || r.Join == nil {
		return admission.JoinAnswer{}, fmt.Errorf("no coordinator can decide about newcomers now: %w", err)
	}
	return *r.Join, nil
}
