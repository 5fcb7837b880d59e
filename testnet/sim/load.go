package sim

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// load is the people: they submit and cancel jobs, through whichever peer answers, until they are
// told that it is done.
type load struct {
	w        *world
	jobs     []*work
	byID     map[taskstate.JobID]*work
	long     []func() // lets tasks end that run until everything else has been checked
	released bool
	ended    bool                                     // nobody wants anything to go on any more
	pace     int                                      // most milliseconds between two jobs
	open     int                                      // requests nobody has answered yet
	drains   map[taskstate.PeerID]ledger.Availability // as somebody asked for, and it was decided last
}

// work is one job as those who submitted it know it.
type work struct {
	job       taskstate.Job
	long      bool
	giant     bool
	asked     time.Duration // when it was handed in first
	acked     bool
	ackedAt   time.Duration
	cancelled bool            // acknowledged
	specs     []taskstate.Job // of a lasting job: what people wanted of it, numbered by mark
	wishes    int             // of people about this job that nobody has answered yet
	retries   int             // among them
	cancels   int             // that nobody has answered yet
	retried   bool            // some of it was tried again because somebody said so
}

// need is what running one attempt takes.
type need struct {
	time time.Duration
	exit int
	long bool
	ever bool // until it is stopped
}

func (d *load) init(w *world) {
	d.w, d.byID, d.pace = w, map[taskstate.JobID]*work{}, pick(w, 3000, 16_000, 16_000)
	d.pace *= 1 + 15/w.size // a small cluster has less to give
}

func (d *load) begin() {
	d.drains = map[taskstate.PeerID]ledger.Availability{}
	d.w.after(2*time.Second, d.submit)
	d.w.after(4*time.Second, d.wish)
	d.w.after(6*time.Second, d.whim)
	if d.w.withFiles {
		d.w.after(8*time.Second, d.get)
	}
	if d.w.cfg.Seed%7 == 3 {
		d.w.after(2*time.Second, d.small)
	}
	if d.w.cfg.Seed%6 == 1 {
		d.w.after(d.w.ms(5000, 500_000), d.giant)
	}
	for range 3 {
		d.w.after(time.Duration(float64(d.w.cfg.Length)*(0.3+0.6*d.w.rng.Float64())), func() { d.add(true) })
	}
}

// submit brings a job now and then.
func (d *load) submit() {
	if d.w.calm {
		return
	}
	d.add(false)
	d.w.after(d.w.ms(500, d.pace), d.submit)
}

func (d *load) add(long bool) {
	w := d.w
	j := &work{long: long}
	j.job.Count = pick(w, 1, 1, 2, 5, 10, w.between(1, 60))
	if w.chance(0.01) {
		j.job.Count = w.between(500, 2500)
	}
	j.job.Resources.MilliCPU = pick(w, int64(0), 500, 1000, 1000)
	if w.chance(0.2) {
		j.job.Resources.Memory = 512 << 20
	}
	j.job.Run.Noop = &taskstate.Noop{Duration: int64(pick(w, 0, 10, w.between(0, 2000), w.between(0, 20000)))}
	j.job.Parallel = pick(w, 0, 0, 0, 1, 3)
	if j.job.Count > 100 {
		j.job.Run.Noop.Duration, j.job.Parallel = min(j.job.Run.Noop.Duration, 50), 0
	}
	if j.job.Parallel > 0 { // so that it ends within a minute
		j.job.Run.Noop.Duration = min(j.job.Run.Noop.Duration, int64(60_000*j.job.Parallel/j.job.Count))
	}
	j.job.MaxPerPeer = pick(w, 0, 0, 0, 0, 2)
	if w.chance(0.3) {
		for i := range j.job.Count {
			j.job.Each = append(j.job.Each, fmt.Sprintf("item %d", i+1))
		}
	}
	j.job.Unreachable.Wait = w.chance(0.25)
	if !j.job.Unreachable.Wait {
		j.job.Unreachable.ReplaceAfter = pick(w, int64(0), 1000, 10_000)
	}
	if long {
		j.job.Count = w.between(2, 8)
		j.job.Resources = taskstate.Resources{MilliCPU: pick(w, int64(0), 100, 1000)}
		j.job.Parallel, j.job.MaxPerPeer, j.job.Each = 0, 0, nil
	} else {
		d.policies(j)
	}
	d.files(j)
	d.put(j)
}

// put submits a job.
func (d *load) put(j *work) {
	w := d.w
	j.job.ID = taskstate.JobID(fmt.Sprintf("j%d", len(d.jobs)))
	if j.job.Type == "" {
		j.job.Type = taskstate.BatchJob
	}
	if j.lasts() {
		j.job.Name = string(j.job.ID)
		j.mark(&j.job)
	}
	d.jobs = append(d.jobs, j)
	d.byID[j.job.ID] = j
	j.asked = w.now()
	w.stats.Jobs++
	d.ask(&request{job: j, cmd: func() ledger.Command {
		job := j.job
		if w.cfg.Break == BreakForgetWait {
			job.Unreachable.Wait = false
		}
		return ledger.Command{Submit: &ledger.Submit{Job: *misread(w, &job)}}
	}})
}

// small brings a great many jobs, more than a ledger remembers.
func (d *load) small() {
	if d.w.calm {
		return
	}
	d.put(&work{job: taskstate.Job{Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{}}}})
	d.w.after(d.w.ms(0, 700), d.small)
}

// giant brings a job that nobody has room for, and which must be in nobody's way. It is cancelled
// in the end.
func (d *load) giant() {
	j := &work{giant: true, job: taskstate.Job{Count: 3, Resources: taskstate.Resources{MilliCPU: 1_000_000}, Run: taskstate.Run{Noop: &taskstate.Noop{}}}}
	d.put(j)
}

func (d *load) cancel(j *work) {
	if d.unhurried(j) {
		return
	}
	j.cancels++
	d.ask(&request{job: j, cancel: true, cmd: func() ledger.Command {
		return ledger.Command{Cancel: &ledger.Cancel{Job: j.job.ID, Reason: "by somebody"}}
	}})
}

// runs says what an attempt does: how long it takes differs, how it ends does not.
func (d *load) runs(launch *taskstate.Launch) need {
	t := launch.Task
	j := d.byID[t.Job]
	switch {
	case j == nil:
		return need{}
	case j.lasts():
		return d.serves(launch.Job)
	}
	h := fnv.New32a()
	fmt.Fprint(h, t.Job, t.Slot)
	if j.job.Restart != nil {
		fmt.Fprint(h, ".", t.Attempt)
	}
	n := need{time: millis(j.job.Run.Noop.Duration), long: j.long}
	if h.Sum32()%10 == 0 {
		n.exit = 3
	}
	if d.w.chance(0.3) {
		n.time = n.time * time.Duration(d.w.between(1, 20)) / 10
	}
	return n
}

// request is something a person wants decided, until it is.
type request struct {
	job    *work
	cancel bool
	cmd    func() ledger.Command
	told   func(ledger.Result) // of what is neither a submission nor a cancel
	via    *peer
	since  time.Duration
	try    uint64
	done   bool
}

func (d *load) ask(r *request) {
	d.open++
	r.since = d.w.now()
	d.again(r, 0)
}

// again tries once more, through the same peer or another one.
func (d *load) again(r *request, after time.Duration) {
	w := d.w
	r.try++
	n := r.try
	w.after(after, func() {
		if r.done || r.try != n {
			return
		}
		if r.via == nil || w.chance(0.3) {
			r.via = w.peers[w.rng.IntN(len(w.peers))]
		}
		w.after(10*time.Second, func() { // no answer
			if !r.done && r.try == n {
				d.again(r, 0)
			}
		})
		d.send(r, n)
	})
}

// send goes through a peer to whom that takes for the coordinator.
func (d *load) send(r *request, n uint64) {
	w := d.w
	retry := func() { d.again(r, w.ms(50, 1500)) }
	via := r.via.life
	if via == nil || !w.quorum.isMember(r.via) || r.via.frozen > w.now() || via.hint.peer == nil {
		retry()
		return
	}
	to := via.hint.peer
	if !w.net.both(r.via, to) || to.life == nil {
		w.after(w.ms(10, 3000), func() {
			if r.try == n {
				retry()
			}
		})
		return
	}
	at := to.life
	at.after(w.net.delay(r.via, to), func() {
		if at.leading == nil {
			if r.try == n {
				retry()
			}
			return
		}
		if to.withholds > 0 {
			return
		}
		cmd := w.orders.sign(r.via, r.cmd())
		if w.cfg.Break == BreakSayYes && r.cancel && !r.job.keeps() {
			cmd = ledger.Command{Lead: &ledger.Lead{Chain: true}}
		}
		w.quorum.propose(at, []ledger.Command{cmd}, func(results []ledger.Result, ok bool) {
			back := w.net.delay(to, r.via)
			via.after(back, func() {
				if r.try != n || r.done || !w.net.passes(to, r.via) {
					return
				}
				if !ok || results[0].Refused == ledger.CodeStale || results[0].Refused == ledger.CodeLate {
					retry()
					return
				}
				d.answered(r, results[0])
			})
		})
	})
}

func (d *load) answered(r *request, res ledger.Result) {
	w := d.w
	r.done = true
	d.open--
	j := r.job
	if r.told != nil {
		r.told(res)
		return
	}
	w.reader.answered(r, res)
	if r.cancel {
		j.cancels--
		j.cancelled = res.Refused == ledger.CodeNone
		if _, ended := w.check.over[j.job.ID]; !ended && res.Refused != ledger.CodeNone {
			w.fail("I1", "to cancel job %s, which was acknowledged, is refused: %s", j.job.ID, res.Refused)
		}
		return
	}
	if res.Missing != "" && w.check.over[res.Missing] { // what it comes after is forgotten
		j.job.After = nil
		d.ask(&request{job: j, cmd: r.cmd})
		return
	}
	if forgotten := res.Existed && w.check.over[j.job.ID]; res.Refused != ledger.CodeNone && !forgotten {
		w.fail("I1", "job %s is refused: %s", j.job.ID, res.Refused)
		return
	}
	j.acked, j.ackedAt = true, w.now()
	w.stats.Acked++
	if w.tracing() {
		w.tracef("job %s is acknowledged: %d slots, %+v, %+v", j.job.ID, j.job.Count, j.job.Resources, j.job.Unreachable)
	}
	odds, within := 0.25, 20_000
	if j.keeps() {
		odds, within = 0.15, 300_000
	}
	if !j.long && !j.giant && w.chance(odds) {
		w.after(w.ms(0, within), func() {
			d.cancel(j)
		})
	}
}

// release lets the tasks end that were kept running.
func (d *load) release() {
	d.released = true
	for _, j := range d.jobs {
		if j.giant {
			d.cancel(j)
		}
	}
	for _, f := range d.long {
		f()
	}
	d.long = nil
}
