package quorum_test

import (
	"context"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"
)

func founding(self string) ledger.Found {
	return ledger.Found{Cluster: "clusterclusterclu", Generation: 1, Founder: admission.Entry{Cluster: "clusterclusterclu", Peer: self, Roles: admission.AllRoles(), By: self}}
}

func TestAFounderAloneDecidesAtOnceAndFindsItsDecisionsAgain(t *testing.T) {
	netw := memnet.New()
	dir := t.TempDir()
	start := time.Now()
	var first uint64
	for life := range 3 {
		n, err := quorum.Open(quorum.Config{Net: netw.Host("a"), Self: "a", Incarnation: "1", Draw: firstSeat, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		if life == 0 {
			if err := n.Found(ctx, founding("a")); err != nil {
				t.Fatal(err)
			}
		}
		led := make(chan taskstate.Epoch, 1)
		ran := make(chan error, 1)
		go func() { ran <- n.Run(ctx, func(ctx context.Context, e taskstate.Epoch) { led <- e; <-ctx.Done() }) }()
		e := <-led
		t.Log(life, e, time.Since(start))
		job := taskstate.Job{ID: "abcdefghij", Name: "x", Type: taskstate.BatchJob, Count: 3, Run: taskstate.Run{Noop: &taskstate.Noop{}}}
		i, res, err := n.Propose(ctx, []ledger.Command{{Submit: &ledger.Submit{Job: job}}})
		if err != nil || len(res) != 1 || res[0].Existed != (life > 0) {
			t.Fatalf("life %d: %v %v %v", life, i, res, err)
		}
		if first == 0 {
			first = i
		}
		cancel()
		<-ran
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		t.Log("closed", time.Since(start))
	}
}
