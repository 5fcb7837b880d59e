package testnet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/taskstate"
)

// kills: the coordinator, then a worker, each several times, the dead one restarted in between.
func (b *bench) kills(ctx context.Context) error {
	if err := b.revive(ctx); err != nil { // a founder that is killed before others vote takes the decisions with it
		return err
	}
	boss, err := repeat(b.cfg.Rounds, func() (time.Duration, error) { return b.killCoordinator(ctx) })
	if err != nil {
		return err
	}
	b.add(spreadOf("kill -9 coordinator to next job done", boss))
	worker, err := repeat(b.cfg.Rounds, func() (time.Duration, error) { return b.killWorker(ctx, false) })
	if err != nil {
		return err
	}
	b.add(spreadOf("kill -9 worker to its task running elsewhere", worker))
	return nil
}

// settleAfterKill is how long the peers are left alone between two kills.
const settleAfterKill = 2 * time.Second

// killCoordinator measures from the kill to the end of a job submitted right after it through
// another peer.
func (b *bench) killCoordinator(ctx context.Context) (time.Duration, error) {
	boss, err := b.coordinator(ctx)
	if err != nil {
		return 0, err
	}
	through := b.notOneOf(boss)
	dead := time.Now()
	if err := b.net.Kill(boss); err != nil {
		return 0, err
	}
	if _, err := runJob(ctx, b.net.Client(through), noopJob(1)); err != nil {
		return 0, err
	}
	took := time.Since(dead)
	return took, b.revive(ctx, boss)
}

// coordinator is who every running peer agrees coordinates.
func (b *bench) coordinator(ctx context.Context) (int, error) {
	for k := 1; k <= b.net.N(); k++ {
		if b.net.Running(k) {
			return b.net.Coordinator(ctx, k)
		}
	}
	return 0, errors.New("no peer runs")
}

func (b *bench) notOneOf(out ...int) int {
next:
	for k := 1; k <= b.net.N(); k++ {
		for _, o := range out {
			if k == o {
				continue next
			}
		}
		return k
	}
	return 0
}

func (b *bench) revive(ctx context.Context, ks ...int) error {
	for _, k := range ks {
		if err := b.net.Restart(ctx, k); err != nil {
			return err
		}
	}
	if err := b.net.AwaitReady(ctx); err != nil {
		return err
	}
	// Back means back: connected to each other again, not only seen.
	if err := pause.For(ctx, settleAfterKill); err != nil {
		return err
	}
	// Voters that came back must have caught up before the next kill, or it would be of a majority.
	return b.net.await(ctx, func() bool {
		boss, err := b.coordinator(ctx)
		return err == nil && b.net.seated(ctx, boss)
	})
}

// killWorker starts a task that sleeps, kills the peer that runs it, and measures until another
// attempt runs elsewhere. With both, the task runs on a peer that is not the coordinator, and the
// coordinator is killed in the same moment.
func (b *bench) killWorker(ctx context.Context, both bool) (time.Duration, error) {
	boss, err := b.coordinator(ctx)
	if err != nil {
		return 0, err
	}
	job, victim, err := b.sleeper(ctx, boss)
	if err != nil {
		return 0, err
	}
	dead := []int{victim}
	if both {
		dead = append(dead, boss)
	}
	witness := b.net.Client(b.notOneOf(append(dead, boss)...))
	at := time.Now()
	var wg sync.WaitGroup
	errs := make([]error, len(dead))
	for i, k := range dead {
		wg.Go(func() { errs[i] = b.net.Kill(k) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	err = b.net.await(ctx, func() bool {
		t, ok := onlyTask(ctx, witness, job)
		return ok && t.Attempt > 1 && t.State == "running"
	})
	took := time.Since(at)
	if err != nil {
		return 0, fmt.Errorf("the task did not run elsewhere: %w", err)
	}
	if _, err := witness.Cancel(ctx, job); err != nil {
		return 0, err
	}
	return took, b.revive(ctx, dead...)
}

func onlyTask(ctx context.Context, c *client.Client, job string) (api.Task, bool) {
	ts, err := c.Tasks(ctx, job)
	if err != nil || len(ts.Tasks) != 1 {
		return api.Task{}, false
	}
	return ts.Tasks[0], true
}

// sleeper runs a long task on a peer that does not coordinate and returns once it runs.
func (b *bench) sleeper(ctx context.Context, boss int) (job string, on int, err error) {
	for range 20 {
		j := processJob(1, "sleep", "600")
		j.Unreachable = taskstate.Unreachable{ReplaceAfter: 1}
		through := b.net.Client(b.notOneOf(boss))
		sub, err := through.Submit(ctx, api.Submit{Job: j})
		if err != nil {
			return "", 0, err
		}
		var t api.Task
		if err := b.net.await(ctx, func() bool {
			got, ok := onlyTask(ctx, through, sub.ID)
			t = got
			return ok && t.State == "running"
		}); err != nil {
			return "", 0, err
		}
		if k := b.net.Number(t.Peer); k != boss {
			return sub.ID, k, nil
		}
		if _, err := through.Cancel(ctx, sub.ID); err != nil {
			return "", 0, err
		}
	}
	return "", 0, errors.New("twenty tasks in a row were placed on the coordinator")
}

// killBoth: coordinator and worker in the same moment, five peers.
func (b *bench) killBoth(ctx context.Context) error {
	if err := b.revive(ctx); err != nil {
		return err
	}
	took, err := repeat(b.cfg.Rounds, func() (time.Duration, error) { return b.killWorker(ctx, true) })
	if err != nil {
		return err
	}
	b.add(spreadOf("kill -9 both to its task running elsewhere (5 peers)", took))
	return nil
}
