package stack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
	"github.com/coveyproject/covey/testnet/history"
)

type people struct {
	w    *world
	ctx  context.Context
	end  context.CancelFunc
	busy sync.WaitGroup
	all  []*client

	mu   sync.Mutex
	jobs []*work
}

// work is one job as those who submitted it know it.
type work struct {
	job       taskstate.Job // as submitted; the submitter is whom it was handed to
	acked     bool
	heldAt    *peer // "" or who holds it
	withdrawn bool  // taken back where it was held
	cancelled bool  // acknowledged, or nobody was there to say so
}

// client is one person at a keyboard. What it draws is its own, so that nobody's luck hangs on
// another's pace.
type client struct {
	w    *world
	n    int
	rng  *rand.Rand
	at   *peer
	made int
	rows map[string]taskstate.State // of tasks as they were shown, by session and task
}

func (d *people) init(w *world) {
	d.w = w
	d.ctx, d.end = context.WithCancel(context.Background())
	for n := range 5 {
		d.all = append(d.all, &client{w: w, n: n, rng: rand.New(rand.NewPCG(w.cfg.Seed, uint64(n))), rows: map[string]taskstate.State{}})
	}
}

func (d *people) begin() {
	for _, c := range d.all {
		d.busy.Go(c.live)
	}
}

// stop has everybody finish what is under way.
func (d *people) stop() {
	d.end()
	d.busy.Wait()
}

// lost tells that what a peer held is gone with its disk. It was never accepted.
func (d *people) lost(p *peer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, j := range d.jobs {
		if j.heldAt == p {
			j.heldAt = nil
		}
	}
}

// some draws a job, rather a new one. The lock is not held.
func (d *people) some(rng *rand.Rand) *work {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.jobs)
	if n == 0 {
		return nil
	}
	if rng.IntN(2) == 0 {
		n = min(n, 6)
	}
	return d.jobs[len(d.jobs)-1-rng.IntN(n)]
}

func (c *client) live() {
	for {
		t := time.NewTimer(time.Duration(c.rng.Int64N(int64(2 * time.Second))))
		select {
		case <-c.w.people.ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		if c.at == nil || c.rng.IntN(3) == 0 {
			c.at = c.w.peers[c.rng.IntN(len(c.w.peers))]
		}
		l := c.at.usable()
		if l == nil {
			c.at = nil
			continue
		}
		switch n := c.rng.IntN(20); {
		case n < 5:
			c.submit(l, c.newJob())
		case n < 7:
			c.again(l)
		case n < 9:
			c.cancel(l, c.w.people.some(c.rng))
		case n < 11:
			c.wait(l, c.w.people.some(c.rng))
		case n < 12:
			c.peers(l)
		case n < 14:
			c.tasks(l, c.w.people.some(c.rng))
		default:
			c.read(l, c.w.people.some(c.rng))
		}
	}
}

// callLimit bounds a call as a person's patience does.
const callLimit = 20 * time.Second

// call asks a peer something, and tells whether it lived long enough for its answer to count. f
// must keep to itself what it finds if it did not.
func (c *client) call(l *life, limit time.Duration, f func(ctx context.Context)) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	done := make(chan struct{})
	c.w.all.Go(func() {
		defer close(done)
		f(ctx)
	})
	select {
	case <-done:
	case <-l.dead:
	case <-l.ended:
	}
	return !l.gone()
}

// ask is call for what answers.
func ask[A any](c *client, l *life, f func(ctx context.Context, b api.Backend) (A, error)) (a A, answered bool, err error) {
	answered = c.call(l, callLimit, func(ctx context.Context) {
		got, e := f(ctx, l.node.Backend())
		if !l.gone() {
			a, err = got, e
		}
	})
	return a, answered, err
}

// jobID is an id that tells whose the job is.
func jobID(client, n int) taskstate.JobID {
	id := []byte("cxjobaaaaa")
	id[1] = 'a' + byte(client)
	for i := len(id) - 1; n > 0; i-- {
		id[i] += byte(n % 26)
		n /= 26
	}
	return taskstate.JobID(id)
}

func (c *client) newJob() *work {
	c.made++
	j := taskstate.Job{ID: jobID(c.n, c.made), Count: 1 + c.rng.IntN(1+c.rng.IntN(10))}
	j.Name = string(j.ID)
	j.Run.Noop = &taskstate.Noop{Duration: c.rng.Int64N([...]int64{1, 100, 3000, 15000}[c.rng.IntN(4)])}
	j.Resources.MilliCPU = [...]int64{0, 500, 1000, 1000}[c.rng.IntN(4)]
	if c.rng.IntN(4) == 0 {
		j.Unreachable.Wait = true
	} else {
		j.Unreachable.ReplaceAfter = [...]int64{1, 1000, 10_000}[c.rng.IntN(3)]
	}
	j.Parallel = [...]int{0, 0, 0, 2}[c.rng.IntN(4)]
	drawFiles(c.rng, &j)
	jobfile.Defaults(&j)
	w := &work{job: j}
	d := &c.w.people
	d.mu.Lock()
	d.jobs = append(d.jobs, w)
	d.mu.Unlock()
	c.w.count(func(s *Stats) { s.Jobs++ })
	return w
}

// again hands a job in once more: the same, or another one with its id.
func (c *client) again(l *life) {
	j := c.w.people.some(c.rng)
	if j == nil {
		return
	}
	if c.rng.IntN(4) == 0 {
		other := &work{job: j.job}
		other.job.Count++
		c.hand(l, other, j)
		return
	}
	c.submit(l, j)
}

func (c *client) submit(l *life, j *work) { c.hand(l, j, j) }

// hand submits j, and keeps what comes of it with known.
func (c *client) hand(l *life, j, known *work) {
	w := c.w
	w.signed.wants(&j.job)
	o := history.Op{Kind: history.Submit, Job: string(j.job.ID), Content: fmt.Sprintf("%d slots", j.job.Count), Call: w.now()}
	var got api.Submitted
	var err error
	answered := w.cfg.Break == BreakDropAcked && c.rng.IntN(10) == 0
	if !answered {
		got, answered, err = ask(c, l, func(ctx context.Context, b api.Backend) (api.Submitted, error) {
			return b.Submit(ctx, api.Submit{Job: j.job})
		})
	}
	o.Return = w.now()
	switch {
	case !answered:
	case err == nil && !got.Held:
		o.Answer = history.Done
	case err != nil && api.AsError(err).Code == api.Conflict:
		o.Answer = history.Other
	case err != nil && api.AsError(err).Code == api.Usage:
		w.fail("bug", "job %s is refused at %s: %v", j.job.ID, l.session, err)
	}
	w.told.Add(o)
	w.tellf("client %d at %s: %v, held %t, %v", c.n, l.session, o, got.Held, err)
	d := &w.people
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case o.Answer == history.Done:
		known.acked = true
		w.count(func(s *Stats) { s.Acked++ })
	case answered && got.Held:
		known.heldAt = l.p
		w.count(func(s *Stats) { s.Held++ })
	}
}

func (c *client) cancel(l *life, j *work) {
	if j == nil {
		return
	}
	w := c.w
	o := history.Op{Kind: history.Cancel, Job: string(j.job.ID), Call: w.now()}
	var row api.Job
	var err error
	answered := w.cfg.Break == BreakSayYes && j.acked
	if !answered {
		row, answered, err = ask(c, l, func(ctx context.Context, b api.Backend) (api.Job, error) { return b.Cancel(ctx, string(j.job.ID)) })
	}
	o.Return = w.now()
	withdrawn := answered && err == nil && row.State == taskstate.Shutdown.String() && row.Ended == nil
	switch {
	case !answered || withdrawn:
	case err == nil:
		o.Answer = history.Done
	case api.AsError(err).Code == api.NotFound: // it may be behind, and did nothing
		return
	case api.AsError(err).Code == api.Conflict:
		o.Answer = history.Over
	}
	w.told.Add(o)
	w.tellf("client %d at %s: %v, withdrawn %t, %v", c.n, l.session, o, withdrawn, err)
	d := &w.people
	d.mu.Lock()
	defer d.mu.Unlock()
	j.withdrawn = j.withdrawn || withdrawn
	j.cancelled = j.cancelled || o.Answer != history.Over
	if o.Answer == history.Done {
		w.count(func(s *Stats) { s.Cancelled++ })
	}
}
