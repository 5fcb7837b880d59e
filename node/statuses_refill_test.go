package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/sim/memledger"
)

// A replica that is far behind has more statuses waiting for their assignment than there is room
// for. What was lost then is shown all the same once the replica has caught up: the batches are
// here, and nobody will send them again.
func TestStatusesLostForWantOfRoomAreMergedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5
		lead := memledger.New("a", time.Now)
		lead.Join("w", "w-1")
		late := lead.Peer("late")
		late.SetLag(1)
		job := taskstate.Job{ID: "job", Type: taskstate.BatchJob, Count: n, Run: taskstate.Run{Noop: &taskstate.Noop{}}}
		assign := ledger.Assign{Job: "job", Peer: "w", Incarnation: "w-1", Slots: []ledger.Slots{{First: 1, N: n, Attempt: 1}}}
		if _, _, err := lead.Propose(t.Context(), []ledger.Command{{Submit: &ledger.Submit{Job: job}}}); err != nil {
			t.Fatal(err)
		}
		index, _, err := lead.Propose(t.Context(), []ledger.Command{{Assign: &assign}})
		if err != nil {
			t.Fatal(err)
		}
		table, store := taskstate.NewTable(late.Replica(), 1), digest.NewStore(0)
		s := &statuses{table: table, replica: late.Replica(), report: func([]taskstate.Status) {}, offer: store.Add, spilled: make(chan struct{}, 1)}
		late.Replica().Observe(s.keepUp)
		late.Replica().Observe(func(ledger.Event) { s.moved() })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.refill(ctx, store) }()

		for slot := 1; slot <= n; slot++ {
			b := taskstate.Batch{Author: "w", Incarnation: "w-1", Number: uint64(slot), Statuses: []taskstate.Status{
				{Task: taskstate.Task("job", slot, 1), Seq: 2, State: taskstate.Running, Index: index, Exit: taskstate.NoExit},
			}}
			body, err := taskstate.EncodeBatch(b)
			if err != nil {
				t.Fatal(err)
			}
			env, err := digest.Seal("w", "w-1", b.Number, body, func([]byte) ([]byte, error) { return []byte("s"), nil })
			if err != nil {
				t.Fatal(err)
			}
			if _, fresh, err := s.merge(env, s.offer); err != nil || !fresh {
				t.Fatal(fresh, err)
			}
		}
		late.SetLag(0)
		synctest.Wait()
		if table.Len() != n {
			t.Errorf("%d tasks are shown, %d run", table.Len(), n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
