package node

import (
	"context"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/orders"
)

// Leave implements api.AdminBackend: tasks stop and are settled, the vote is handed over, then the
// membership ends.
func (n *Node) Leave(ctx context.Context) error {
	if len(n.view.Who.Admitted()) < 2 {
		return api.Errorf(api.Conflict, "this is the only peer of its cluster. Stop it with `peer down`; to give the cluster up, remove its data folder %s", n.folder.dir)
	}
	own, _ := n.roster.Get(n.self)
	n.ending.leaving.Store(true)
	if err := n.leave(ctx); err != nil {
		n.ending.leaving.Store(false)
		n.files.printed.Stay(ctx)
		n.keeper.Moved()
		return err
	}
	if err := n.folder.setLeft(own.At); err != nil {
		n.log.Warn("the data folder could not record that this peer left; to come back, type `peer up --new-identity --join TICKET`", "err", err)
	}
	return n.Down(ctx)
}

// coordinatorAnswers tells whether a coordinator answers, now or as soon as any order waits for
// one: an election turns nobody away who leaves.
func (n *Node) coordinatorAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, far.Allow(orders.AcceptTimeout, n.ledger.Distance()))
	defer cancel()
	for n.view.AskCluster(ctx, "") == nil {
		if pause.For(ctx, 50*time.Millisecond) != nil {
			return false
		}
	}
	return true
}

func (n *Node) leave(ctx context.Context) error {
	if !n.coordinatorAnswers(ctx) {
		return api.Errorf(api.NoCoordinator, "this peer did not leave: %s", n.view.Deciders.TryAgain())
	}
	if err := n.files.kept.HandOver(ctx); err != nil {
		return err
	}
	if err := n.files.printed.HandOver(ctx, n.view.Who.Name(n.self)); err != nil {
		return err
	}
	// The worker first: one that still looks for a session would register again.
	if err := n.worker.Stop(ctx); err != nil {
		n.log.Warn("leaving before every task's end was acknowledged", "err", err)
	}
	if err := n.files.printed.HandOver(ctx, n.view.Who.Name(n.self)); err != nil { // of tasks that were stopped
		n.log.Warn("leaving with output that no other peer has", "err", err)
	}
	if err := n.orders.Order(ctx, calls.Call{Leave: &ledger.Depart{Peer: n.self}}, "this peer stopped its tasks and did not leave; stop it with `peer down`"); err != nil {
		return err
	}
	if err := n.ledger.Handover(ctx); err != nil {
		n.log.Info("vote not handed over; the others replace it", "err", err)
	}
	return n.orders.Order(ctx, calls.Call{Remove: &ledger.Remove{Peer: n.self, Reason: "left"}}, "this peer stopped its tasks but is still a member")
}
