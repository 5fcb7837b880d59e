package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/membership/verdict"
	"github.com/coveyproject/covey/node/runner/process"
	"github.com/coveyproject/covey/taskstate"
)

func withInputs(j *taskstate.Job) { j.Inputs = []taskstate.Input{{Name: "in"}} }

// nonePassedOver fails if the coordinator passes a peer over, at any time of the next while.
func (f *cluster) nonePassedOver(while time.Duration) {
	f.t.Helper()
	for began := time.Now(); time.Since(began) < while; time.Sleep(time.Second) {
		peers, err := f.boss.coord.Peers(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		for _, p := range peers {
			if p.PassedOver {
				f.t.Fatalf("%s is passed over after %v", p.Peer, time.Since(began))
			}
		}
	}
}

// startedIn counts how often each attempt of a job was started.
func (f *cluster) startedIn(job string) (attempts map[taskstate.TaskID]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	attempts = map[taskstate.TaskID]int{}
	for task, n := range f.ran {
		if task.Job == taskstate.JobID(job) {
			attempts[task] += n
		}
	}
	return attempts
}

// A worker is restarted meanwhile: what was being placed there is placed again, and has not begun.
func TestTasksWhoseInputsTakeLongToPlaceRunOnceOnThePeerThatHasThemFirst(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, f *cluster) {
		f.awaitReady()
		f.submit("job", 6, time.Second, withInputs, oneCPU, func(j *taskstate.Job) { j.Unreachable.ReplaceAfter = time.Minute.Milliseconds() })
		f.submit("once", 6, time.Second, withInputs, oneCPU, mustNotRunTwice)
		f.nonePassedOver(45 * time.Second)
		f.peers[2].kill()
		time.Sleep(500 * time.Millisecond) // nobody has missed it yet
		f.peers[2].restart()
		time.Sleep(time.Second)
		f.peers[2].verdict(verdict.Alive) // after the one that it was killed has come
		f.nonePassedOver(2 * time.Minute)
		for _, job := range []string{"job", "once"} {
			if c := f.finish(job, time.Second); c.Complete != 6 {
				t.Errorf("%s: %+v", job, c)
			}
			for task, n := range f.startedIn(job) {
				if n != 1 || task.Attempt != 1 {
					t.Errorf("%s was started %d times", task, n)
				}
			}
		}
	})
}

// slowPlacing takes its time to place the inputs of a task.
type slowPlacing struct {
	takes  time.Duration
	placed *atomic.Int64
}

func (s slowPlacing) Place(ctx context.Context, _ taskstate.Launch, _ string, _ func(string)) error {
	s.placed.Add(1)
	return pause.For(ctx, s.takes)
}

// runsProcesses has a peer run tasks as processes, and places inputs one after the other.
func runsProcesses(in process.Inputs) func(*clusterPeer) {
	return func(p *clusterPeer) {
		x, err := process.New(process.Config{Dir: p.f.t.TempDir(), InProcess: true, Starters: 1, Inputs: in, Report: func(reports ...taskstate.RunReport) {
			for _, r := range reports {
				p.worker.Report(r)
			}
		}})
		if err != nil {
			p.f.t.Fatal(err)
		}
		p.runs, p.within = x, 2*time.Second
	}
}

func asProcess(j *taskstate.Job) {
	j.Run = taskstate.Run{Process: &taskstate.Process{Command: []string{"true"}}}
}

// In real time: the operating system's processes know no other.
func TestProcessesWhoseInputsTakeLongToPlaceRunOnThePeerThatHasThemFirst(t *testing.T) {
	long.Test(t)
	t.Parallel()
	placed := new(atomic.Int64)
	f := newCluster(t, 3, runsProcesses(slowPlacing{12 * time.Second, placed}))
	f.awaitReady()
	f.submit("job", 3, 0, withInputs, asProcess, oneCPU)
	f.submit("once", 3, 0, withInputs, asProcess, oneCPU, mustNotRunTwice)
	f.nonePassedOver(2 * time.Second)
	f.submit("quick", 3, 0, asProcess, oneCPU)
	f.nonePassedOver(4 * time.Second)
	if c, over := f.counts("quick"); !over || c.Complete != 3 {
		t.Errorf("tasks without inputs: %+v", c)
	}
	for _, job := range []string{"job", "once"} {
		for over := false; !over; _, over = f.counts(job) {
			f.nonePassedOver(time.Second)
		}
		if c, _ := f.counts(job); c.Complete != 3 {
			t.Errorf("%s: %+v", job, c)
		}
	}
	if n := placed.Load(); n != 6 {
		t.Errorf("the inputs of 6 tasks were placed %d times", n)
	}
	for _, p := range f.peers {
		if err := p.runs.(*process.Executor).Close(); err != nil {
			t.Error(err)
		}
	}
	f.close()
}
