package testnet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/stack"
)

// killed is a way in which machines of a cluster go, and how soon their tasks must run elsewhere.
type killed struct {
	peers int
	who   func(boss int, n int) []int
	power bool
	limit time.Duration
}

func TestTasksOfDeadMachinesRunElsewhereInTime(t *testing.T) {
	boss := func(b, _ int) []int { return []int{b} }
	worker := func(b, n int) []int { return []int{(b + 1) % n} }
	both := func(b, n int) []int { return []int{b, (b + 1) % n} }
	for name, k := range map[string]killed{
		"a worker of three is killed":                {3, worker, false, 2500 * time.Millisecond},
		"a worker of five is killed":                 {5, worker, false, 2500 * time.Millisecond},
		"the coordinator of five is killed":          {5, boss, false, 2500 * time.Millisecond},
		"coordinator and worker of five are killed":  {5, both, false, 5 * time.Second},
		"a worker of three loses power":              {3, worker, true, 6 * time.Second},
		"a worker of five loses power":               {5, worker, true, 6 * time.Second},
		"the coordinator of three loses power":       {3, boss, true, 6 * time.Second},
		"the coordinator of five loses power":        {5, boss, true, 6 * time.Second},
		"coordinator and worker of seven lose power": {7, both, true, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if k.peers > 3 {
				long.Test(t)
			}
			t.Parallel()
			for seed := range uint64(2) {
				playScene(t, stack.Config{Seed: seed, Peers: k.peers}, func(s *stack.Scene) { killing(t, s, k) })
			}
		})
	}
}

// killing gives every peer a task, kills, and waits until every task runs on a peer that is left.
func killing(t *testing.T, s *stack.Scene, k killed) {
	s.Sleep(20 * time.Second)
	job := napJob("longlonger", k.peers, time.Hour)
	s.Submit(0, job)
	dead := map[int]bool{}
	slots := func() string {
		up := map[int]bool{}
		for id, at := range s.Running(job.ID) {
			if !dead[at] {
				up[id.Slot] = true
			}
		}
		if len(up) == k.peers {
			return ""
		}
		return fmt.Sprintf("slots %v run", up)
	}
	within(t, s, 5*time.Second, "every peer runs a task", slots)
	busy := map[int]bool{}
	for _, at := range s.Running(job.ID) {
		busy[at] = true
	}
	if len(busy) != k.peers {
		t.Errorf("the tasks are not spread: %v", busy)
	}
	for _, p := range k.who(s.Coordinator(0), k.peers) {
		dead[p] = true
		s.Kill(p, k.power)
	}
	if slots() == "" {
		t.Error("nothing is to be replaced")
	}
	within(t, s, k.limit, "what the dead ran runs elsewhere", slots)
	again(t, s, job, dead)
}

// again wants the tasks of the dead replaced, once, and no others.
func again(t *testing.T, s *stack.Scene, job taskstate.Job, dead map[int]bool) {
	s.Sleep(10 * time.Second)
	second := 0
	for id := range s.Running(job.ID) {
		if id.Attempt == 2 {
			second++
		}
		if id.Attempt > 2 {
			t.Errorf("%s: it had a place", id)
		}
	}
	if second != len(dead) {
		t.Errorf("%d tasks run for the second time, and %d machines died", second, len(dead))
	}
}
