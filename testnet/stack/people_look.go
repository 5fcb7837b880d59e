package stack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/history"
)

// saw records what a peer said about a job. What it holds itself is nobody's decision yet.
func (c *client) saw(l *life, id taskstate.JobID, call time.Duration, row api.Job, err error, fresh bool) {
	v := history.View{Known: err == nil, Cancelled: row.Cancelled != ""}
	switch {
	case err != nil && api.AsError(err).Code != api.NotFound:
		return
	case err == nil && (row.State == "held" || row.State == taskstate.Shutdown.String() && row.Ended == nil):
		return
	case row.Over():
		v.End = row.State
	case c.w.cfg.Break == BreakAhead && v.Known && c.rng.IntN(5) == 0:
		v.End = "complete"
	}
	c.w.told.Add(history.Op{
		Kind: history.Read, Job: string(id), View: v, Session: fmt.Sprintf("client %d at %s", c.n, l.session), Fresh: fresh, Call: call, Return: c.w.now(),
	})
}

func (c *client) read(l *life, j *work) {
	if j != nil {
		c.look(l, j, false)
	}
}

func (c *client) look(l *life, j *work, fresh bool) {
	begin := c.w.now()
	a, answered, err := ask(c, l, func(ctx context.Context, b api.Backend) (api.JobAnswer, error) { return b.Job(ctx, string(j.job.ID)) })
	if answered {
		c.w.count(func(s *Stats) { s.Reads++ })
		c.saw(l, j.job.ID, begin, a.Job, err, fresh)
	}
}

// wait follows a job to its end, for a while.
func (c *client) wait(l *life, j *work) {
	if j == nil {
		return
	}
	begin := c.w.now()
	var mu sync.Mutex
	var last *api.Job
	var err error
	ok := c.call(l, time.Duration(c.rng.Int64N(int64(callLimit))), func(ctx context.Context) {
		e := l.node.Backend().Follow(ctx, string(j.job.ID), false, func(p api.Progress) error {
			mu.Lock()
			defer mu.Unlock()
			last = &p.Job
			return nil
		})
		mu.Lock()
		defer mu.Unlock()
		err = e
	})
	mu.Lock()
	defer mu.Unlock()
	if !ok || last == nil {
		return
	}
	c.w.count(func(s *Stats) { s.Waits++ })
	if err == nil && !last.Over() && last.State != "held" {
		c.w.fail("clients", "to wait for %s at %s came to an end, and the job did not: %+v", j.job.ID, l.session, *last)
	}
	c.saw(l, j.job.ID, begin, *last, nil, false)
}

func (c *client) peers(l *life) {
	ps, answered, err := ask(c, l, func(ctx context.Context, b api.Backend) (api.Peers, error) { return b.Peers(ctx) })
	if answered && err == nil {
		c.w.check.asked(l, ps)
	}
}

// tasks is I2 as a list of tasks shows it: in one life of a peer no task goes backwards.
func (c *client) tasks(l *life, j *work) {
	if j == nil {
		return
	}
	ts, answered, err := ask(c, l, func(ctx context.Context, b api.Backend) (api.Tasks, error) { return b.Tasks(ctx, string(j.job.ID)) })
	if !answered || err != nil {
		return
	}
	for _, t := range ts.Tasks {
		var s taskstate.State
		if s.UnmarshalText([]byte(t.State)) != nil {
			c.w.fail("bug", "%s shows %s in the state %q", l.session, t.ID, t.State)
			return
		}
		k := l.session + " " + t.ID
		if was, ok := c.rows[k]; ok && (s < was || was.Final() && s != was) {
			c.w.fail("I2", "%s shows %s as %s, and showed it as %s before", l.session, t.ID, s, was)
		}
		c.rows[k] = s
	}
}

func names(jobs []taskstate.JobID) string {
	slices.Sort(jobs)
	var s []string
	for _, j := range jobs[:min(len(jobs), 8)] {
		s = append(s, string(j))
	}
	if len(jobs) > 8 {
		s = append(s, fmt.Sprintf("… (%d)", len(jobs)))
	}
	return strings.Join(s, " ")
}
