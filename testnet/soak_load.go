package testnet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

const (
	soakClients    = 3
	soakThink      = 1500 * time.Millisecond // longest rest of a client between two jobs
	soakUnfinished = 40                      // jobs under way, above which clients wait
	commandLimit   = 30 * time.Second        // a command that takes longer hangs: no pause of a peer lasts so long
	retryLimit     = 2 * time.Minute         // a client that got no good answer from any peer for so long was let down
)

// soakJob is one job as its client sees it.
type soakJob struct {
	kind     string
	job      taskstate.Job
	end      string // the state it must end in; "" means any
	exit     int    // the exit code, if end is failed
	wait     bool   // must not run twice
	marks    bool   // its processes leave marks
	size     int    // of what its tasks leave, if it has outputs
	cancel   bool   // the client cancels it
	accepted bool   // the client was told that it is
	told     bool   // the client was told that it is cancelled
	ended    *api.Job
}

func (s *soak) drawJob(r *rand.Rand) *soakJob {
	j := taskstate.Job{ID: taskstate.NewJobID()}
	x := &soakJob{end: "complete"}
	sh := func(line string) {
		x.marks = true
		mark := fmt.Sprintf(`echo "$COVEY_SLOT $COVEY_ATTEMPT $COVEY_PEER $COVEY_EPOCH" >> '%s'; `, filepath.Join(s.marks(), string(j.ID)))
		j.Run.Process = &taskstate.Process{Command: []string{mark + line}, Shell: true}
		j.Resources.MilliCPU = 500
	}
	kind := r.IntN(9)
	if runtime.GOOS == "windows" {
		kind %= 2
	}
	switch kind {
	case 0:
		x.kind, j.Count = "noops", 1+r.IntN(400)
		j.Run.Noop = &taskstate.Noop{}
	case 1:
		x.kind, j.Count = "naps", 1+r.IntN(20)
		j.Run.Noop = &taskstate.Noop{Duration: 50 + r.Int64N(950)}
	case 2, 3:
		x.kind, j.Count = "processes", 1+r.IntN(6)
		sh("echo out $COVEY_SLOT")
	case 4:
		x.kind, j.Count = "sleeps", 1+r.IntN(4)
		sh(fmt.Sprintf("sleep %d.%d", r.IntN(4), r.IntN(10)))
	case 5:
		x.kind, j.Count, x.wait, x.end = "once", 1+r.IntN(3), true, ""
		sh(fmt.Sprintf("sleep %d.%d", r.IntN(3), r.IntN(10)))
	case 6:
		x.kind, j.Count, x.end, x.exit = "failures", 1, "failed", 7
		sh("exit 7")
	case 7:
		x.kind, j.Count, x.end, x.cancel = "cancelled", 1+r.IntN(3), "shutdown", true
		sh("exec sleep " + s.longSleep())
	case 8:
		x.kind, j.Count, x.size = "files", 1+r.IntN(5), soakSizes[r.IntN(len(soakSizes))]
		j.Outputs = &taskstate.Outputs{Globs: []string{"out"}, Keep: r.IntN(4)}
		sh(fileLine(j.ID, x.size))
	}
	j.Name = "soak-" + x.kind
	jobfile.Defaults(&j)
	j.Unreachable = taskstate.Unreachable{Wait: x.wait}
	if !x.wait {
		j.Unreachable.ReplaceAfter = []int64{1, 1000, taskstate.DefaultReplaceAfter.Milliseconds()}[r.IntN(3)]
	}
	x.job = j
	return x
}

// longSleep is a sleep that never ends by itself and is recognised among the system's processes.
func (s *soak) longSleep() string {
	return fmt.Sprintf("3600.%d", s.cfg.Seed%1e6*1e6+uint64(os.Getpid()))
}

// client submits jobs through whichever peer until loading ends; what it began it brings to an
// answer.
func (s *soak) client(loading, ctx context.Context, w int) {
	r := rand.New(rand.NewPCG(s.cfg.Seed, uint64(100+w)))
	for pause.For(loading, between(r, 0, soakThink)) == nil {
		if s.unfinished() >= soakUnfinished {
			continue
		}
		x := s.drawJob(r)
		s.submit(ctx, r, x)
		if x.cancel && x.accepted {
			_ = pause.For(ctx, between(r, 0, 3*time.Second))
			s.cancel(ctx, r, x)
		}
		if r.IntN(3) == 0 {
			s.look(ctx, r, x)
		}
	}
}

func (s *soak) unfinished() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.jobs {
		if x.accepted && x.ended == nil {
			n++
		}
	}
	return n
}

func (s *soak) submit(ctx context.Context, r *rand.Rand, x *soakJob) {
	id := string(x.job.ID)
	s.mu.Lock()
	s.jobs[id] = x
	s.order = append(s.order, id)
	s.mu.Unlock()
	err := s.retry(ctx, r, "submit", func(ctx context.Context, c *client.Client) error {
		sub, err := c.Submit(ctx, api.Submit{Job: x.job})
		if err == nil && sub.ID != id {
			s.trouble("job %s was accepted as %s", id, sub.ID)
		}
		if err == nil && sub.Held {
			s.count(&s.report.Held)
		}
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		x.accepted = true
		s.report.Accepted++
	}
}

func (s *soak) cancel(ctx context.Context, r *rand.Rand, x *soakJob) {
	err := s.retry(ctx, r, "cancel", func(ctx context.Context, c *client.Client) error {
		_, err := c.Cancel(ctx, string(x.job.ID))
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		x.told = true
		s.report.Cancels++
	}
}

func (s *soak) look(ctx context.Context, r *rand.Rand, x *soakJob) {
	asks := []struct {
		what string
		ask  func(context.Context, *client.Client) error
	}{
		{"peers", func(ctx context.Context, c *client.Client) error { _, err := c.Peers(ctx); return err }},
		{"jobs", func(ctx context.Context, c *client.Client) error { _, err := c.Jobs(ctx); return err }},
		{"job", func(ctx context.Context, c *client.Client) error { _, err := c.Job(ctx, string(x.job.ID)); return err }},
		{"tasks", func(ctx context.Context, c *client.Client) error {
			_, err := c.Tasks(ctx, string(x.job.ID))
			return err
		}},
	}
	a := asks[r.IntN(len(asks))]
	_ = s.once(ctx, r, a.what, a.ask) // a refusal is an answer
}

// retry asks random peers until one gives a good answer.
func (s *soak) retry(ctx context.Context, r *rand.Rand, what string, f func(context.Context, *client.Client) error) error {
	began := time.Now()
	for {
		err := s.once(ctx, r, what, f)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if time.Since(began) > retryLimit {
			s.count(&s.report.Hung)
			s.trouble("%s: no good answer from any peer for %s: %v", what, retryLimit, err)
			return err
		}
		if err := pause.For(ctx, between(r, 100*time.Millisecond, 500*time.Millisecond)); err != nil {
			return err
		}
	}
}

var errNobodyUp = errors.New("no peer runs")

// once asks one random running peer and takes the time.
func (s *soak) once(ctx context.Context, r *rand.Rand, what string, f func(context.Context, *client.Client) error) error {
	var up []int
	for k := 1; k <= s.net.N(); k++ {
		if s.net.Running(k) {
			up = append(up, k)
		}
	}
	if len(up) == 0 {
		return errNobodyUp
	}
	k := up[r.IntN(len(up))]
	quiet, touched := s.untouched(k)
	limited, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	began := time.Now()
	err := f(limited, s.net.Client(k))
	took := time.Since(began)
	if limited.Err() != nil && ctx.Err() == nil {
		s.count(&s.report.Hung)
		s.trouble("%s asked of peer %d was not answered within %s", what, k, commandLimit)
	}
	still, after := s.untouched(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if quiet && still && touched == after && took.Seconds() > s.report.Slowest {
		s.report.Slowest, s.report.SlowWhat = took.Seconds(), fmt.Sprintf("%s at peer %d, %.0f s after the start", what, k, began.Sub(s.began).Seconds())
	}
	return err
}

// untouched tells whether nothing is being done to peer k, and how often something was.
func (s *soak) untouched(k int) (bool, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hurting[k-1] == 0, s.touched[k-1]
}
