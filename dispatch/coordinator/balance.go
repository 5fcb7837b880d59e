package coordinator

import (
	"context"
	"slices"

	"covey/dispatch/rollout"
	"covey/taskstate"
)

// Move is a task of a service that would be better elsewhere.
type Move struct {
	Slot    int              `cbor:"1,keyasint"`
	Attempt int              `cbor:"2,keyasint"`
	From    taskstate.PeerID `cbor:"3,keyasint"`
	To      taskstate.PeerID `cbor:"4,keyasint"` // as it looks now: where it goes is decided when it has ended
}

func (u *upkeep) rebalance(id taskstate.JobID) (moves []Move, busy bool) {
	j := u.jobs.of(id)
	if j == nil || j.lasting == nil || j.job.Type != taskstate.ServiceJob || j.cancelled {
		return nil, false
	}
	if len(j.leaving)+len(j.inflight)+j.pending() > 0 || u.peers.undecided(id) {
		return nil, true
	}
	var out []Move
	for _, m := range u.placer.rebalance(j) {
		h := u.peers.of(m.From).holds[id]
		if h == nil {
			continue
		}
		slots := h.sorted(func(r rec) bool { return !r.is(ended | stopped | deciding) })
		slices.Reverse(slots)
		for _, n := range slots {
			taken := slices.ContainsFunc(out, func(x Move) bool { return x.Slot == n })
			if m.N > 0 && !taken && !j.leaves(n) {
				out = append(out, Move{Slot: n, Attempt: int(h.slots[n].attempt), From: m.From, To: m.To})
				m.N--
			}
		}
	}
	slices.SortFunc(out, func(a, b Move) int { return a.Slot - b.Slot })
	return out, false
}

func (u *upkeep) onBalance(b Balance) {
	if j := u.jobs.of(b.Job); j != nil && j.lasting != nil {
		j.lasting.moving, j.lasting.stale = b.Moves, true
	}
}

// balance goes on moving tasks of a service, no more at once than its update may, and only when
// those before have run for as long as an update would watch them. It looks anew each time where
// tasks should be, and never moves more than it was asked to.
func (u *upkeep) balance(j *jobState, in rollout.Input) {
	l := j.lasting
	if l.moving == 0 {
		return
	}
	if in.Phase.Active() {
		l.moving = 0 // the update gives every task its place
		return
	}
	room, wake := u.mayMove(in)
	if wake > 0 {
		u.stepAgain(l, wake)
	}
	if room <= 0 {
		return
	}
	moves, busy := u.rebalance(j.id)
	if busy {
		u.stepAgain(l, u.clock.Elapsed(u.clock.Now().Add(refusedPause)))
		return
	}
	moves = moves[:min(len(moves), room, l.moving)]
	if l.moving -= len(moves); len(moves) == 0 {
		l.moving = 0
	}
	var slots []int
	for _, m := range moves {
		slots = append(slots, m.Slot)
	}
	u.renew(j, slots, 0, taskstate.ReasonMoved)
}

// mayMove is how many slots may be stopped now so that no more are down than an update may have
// down, and when to ask again, 0 if time alone changes nothing.
func (u *upkeep) mayMove(in rollout.Input) (room int, wake int64) {
	room = in.Update.Parallelism
	if room <= 0 {
		room = len(in.Slots)
	}
	for _, s := range in.Slots {
		settled := s.Since + in.Update.Monitor + in.Update.Delay
		switch {
		case s.Done && !s.Leaving:
		case s.Leaving || !s.Running:
			room--
		case in.Now < settled:
			if room--; wake == 0 || settled < wake {
				wake = settled
			}
		}
	}
	return room, wake
}

// Rebalance tells which tasks of a service to move; see Core.Rebalance.
func (c *Loop) Rebalance(ctx context.Context, id taskstate.JobID) (moves []Move, busy bool, err error) {
	_, err = ask(ctx, c, func(core *Core) bool { moves, busy = core.Rebalance(id); return true })
	return moves, busy, err
}

// Balance begins to move tasks of a service as Rebalance says, no more at once than its update may.
// What is left to move when another peer comes to coordinate stays where it is.
func (c *Loop) Balance(ctx context.Context, id taskstate.JobID) (moves []Move, busy bool, err error) {
	moves, busy, err = c.Rebalance(ctx, id)
	if err != nil || busy || len(moves) == 0 {
		return moves, busy, err
	}
	return moves, false, c.tell(Balance{Job: id, Moves: len(moves)})
}
