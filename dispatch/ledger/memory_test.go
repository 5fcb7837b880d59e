package ledger_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/sim/memledger"
)

var _ ledger.Ledger = (*memledger.Ledger)(nil)

// clock is a clock that stands still.
func clock() func() time.Time {
	at := time.UnixMilli(1_795_255_000_000)
	return func() time.Time { return at }
}

func propose(t *testing.T, l ledger.Ledger, c ...ledger.Command) uint64 {
	t.Helper()
	index, results, err := l.Propose(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Refused != "" {
			t.Fatalf("refused: %+v", r)
		}
	}
	return index
}

func TestAMemoryBeginsFoundedAndLed(t *testing.T) {
	m := memledger.New("p1", clock())
	peer, epoch, ok := m.Coordinator()
	if peer != "p1" || epoch != taskstate.At(1, 1) || !ok {
		t.Errorf("coordinator %s in %v (%t)", peer, epoch, ok)
	}
	m.Replica().Read(func(s *ledger.State) {
		if s.Cluster() == "" || s.Generation() != 1 || s.Index() != 1 || s.Coordinator() != "p1" {
			t.Errorf("cluster %q, generation %d, index %d", s.Cluster(), s.Generation(), s.Index())
		}
	})
}

func TestOnlyTheLeaderProposesAndOthersAreSentToIt(t *testing.T) {
	m := memledger.New("p1", clock())
	other := m.Peer("p2")
	_, _, err := other.Propose(context.Background(), []ledger.Command{submit("j", 1)})
	var not ledger.ErrNotCoordinator
	if !errors.As(err, &not) || not.Hint != "p1" {
		t.Fatalf("answered %v", err)
	}
	if e := other.Lead(); e != taskstate.At(1, 2) {
		t.Errorf("leads in %v", e)
	}
	propose(t, other, submit("j", 1))
	if _, _, err := m.Propose(context.Background(), nil); !errors.As(err, &not) || not.Hint != "p2" {
		t.Errorf("the old leader: %v", err)
	}
	other.Unlead()
	if _, _, err := other.Propose(context.Background(), nil); !errors.As(err, &not) || not.Hint != "" {
		t.Errorf("with nobody leading: %v", err)
	}
	if _, _, ok := m.Coordinator(); ok {
		t.Error("somebody still coordinates")
	}
}

func TestAnEpochThatIsSetMarksWhatFollows(t *testing.T) {
	m := memledger.New("p1", clock())
	m.SetEpoch(taskstate.At(3, 7))
	propose(t, m, submit("j", 1))
	m.SetEpoch(taskstate.At(3, 6))
	_, results, err := m.Propose(context.Background(), []ledger.Command{submit("k", 1)})
	if err != nil || results[0].Refused != ledger.CodeStale {
		t.Errorf("an older epoch: %+v, %v", results, err)
	}
}

func TestAViewLagsAsFarAsItIsTold(t *testing.T) {
	m := memledger.New("p1", clock())
	far := m.Peer("p2")
	far.SetLag(2)
	for _, id := range []taskstate.JobID{"a", "b", "c"} {
		propose(t, m, submit(id, 1))
	}
	if a, b := m.Replica().Applied(), far.Replica().Applied(); a != 4 || b != 2 {
		t.Errorf("applied %d and %d", a, b)
	}
	far.SetLag(0)
	if far.Replica().Applied() != 4 || m.Peer("p2") != far || m.Peer("p9").Replica().Applied() != 4 {
		t.Error("did not catch up")
	}
	far.SetLag(3)
	propose(t, m, submit("d", 1))
	if far.Lead(); far.Replica().Applied() != 6 {
		t.Errorf("who leads has everything, not up to %d", far.Replica().Applied())
	}
	if len(m.Entries()) != 6 {
		t.Errorf("%d entries", len(m.Entries()))
	}
}

func TestManyMayProposeAtOnce(t *testing.T) {
	m := memledger.New("p1", clock())
	m.Join("p2", "i1")
	m.Peer("p2")
	propose(t, m, submit("j", 100))
	var wg sync.WaitGroup
	for n := 1; n <= 100; n++ {
		wg.Go(func() {
			if _, _, err := m.Propose(context.Background(), []ledger.Command{assign("j", "p2", run(n, 1, 1))}); err != nil {
				t.Error(err)
			}
			m.Peer("p2").Replica().Read(func(s *ledger.State) { _ = show(s) })
		})
	}
	wg.Wait()
	m.Peer("p2").Replica().Read(func(s *ledger.State) {
		if j, _ := s.Job("j"); j.Counts().Open != 100 {
			t.Errorf("counts %+v", j.Counts())
		}
	})
}

func TestAProposalWhoseTimeIsOverIsNotMade(t *testing.T) {
	m := memledger.New("p1", clock())
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, _, err := m.Propose(ctx, []ledger.Command{submit("j", 1)}); !errors.Is(err, context.Canceled) {
		t.Errorf("answered %v", err)
	}
}
