package logreplica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/mailbox"
	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/node/care"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/node/tasklog"
	"github.com/coveyproject/covey/taskstate"
)

const (
	gather    = 50 * time.Millisecond // tasks that end meanwhile are copied together
	lookEvery = 10 * time.Second
	handEvery = 100 * time.Millisecond // whether all has been handed over is looked at
	sendStall = 30 * time.Second       // without progress, and a peer is given up
)

// Config joins a Replicator with the rest of a peer.
type Config struct {
	Self    taskstate.PeerID
	Tasks   string // the tasks folder
	Store   *Store
	Logs    *tasklog.Store // reads both
	Net     keep.Dialer
	Replica *ledger.Replica
	Current func() bool // this peer's copy of the ledger is current: until then it may lack jobs
	Live    func(taskstate.TaskID) (over <-chan struct{}, limit int64, running bool)
	Peers   func() map[taskstate.PeerID]care.Peer // all members
	May     func(taskstate.PeerID, taskstate.JobID) (may, known bool)
	Name    func(taskstate.PeerID) string
	Now     func() time.Time
	Log     *slog.Logger
}

// Replicator has other peers keep what tasks printed here, and keeps theirs.
type Replicator struct {
	cfg   Config
	ended *mailbox.Box[taskstate.RunReport]
	news  wake.Signal
	asked chan func() // to be done by the loop
	over  chan struct{}

	results chan result // from here on: the loop's
	core    *Core
	lanes   map[bool]bool // those that send
	gathers bool
	early   []taskstate.RunReport // ends of tasks that this peer's copy of the ledger lacks
	scanned bool
	leaves  bool // it was said to leave
	gone    bool // it is drained, or leaves, and all was looked at since
	wg      sync.WaitGroup
}

type result struct {
	Batch
	lacks []int
	gone  []taskstate.TaskID // not here any more
	err   error
}

// New makes a Replicator; Run brings it to life.
func New(cfg Config) *Replicator {
	return &Replicator{
		cfg: cfg, ended: mailbox.New[taskstate.RunReport](), news: wake.New(), asked: make(chan func()), over: make(chan struct{}),
		results: make(chan result), core: NewCore(cfg.Self), lanes: map[bool]bool{},
	}
}

// Ended notes that a task has ended here. It does not block.
func (r *Replicator) Ended(rep taskstate.RunReport) {
	if rep.State.Final() && rep.State != taskstate.Rejected {
		r.ended.Put(rep)
	}
}

// News notes that members may have come or gone.
func (r *Replicator) News() { r.news.Set() }

// Run copies what tasks print until ctx ends. It is called once.
func (r *Replicator) Run(ctx context.Context) error {
	defer close(r.over)
	ctx, cancel := context.WithCancel(ctx)
	defer r.wg.Wait()
	defer cancel()
	t := time.NewTimer(0)
	defer t.Stop()
	soon := func() {
		if !r.gathers {
			r.gathers = true
			t.Reset(gather)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.ended.News():
			soon()
			continue
		case <-r.news:
			soon()
			continue
		case f := <-r.asked:
			r.look(ctx)
			f()
		case res := <-r.results:
			r.lanes[res.Large] = false
			r.core.Done(res.Batch, res.lacks, res.err, r.cfg.Name(res.Peer), r.cfg.Now())
			r.core.Drop(res.gone)
		case <-t.C:
		}
		r.look(ctx)
		wait := lookEvery
		if len(r.early) > 0 {
			wait = time.Second
		}
		if at := r.core.Wake(); !at.IsZero() {
			wait = min(wait, max(gather, at.Sub(r.cfg.Now())))
		}
		t.Reset(wait)
	}
}

// look takes in what happened, and begins what is to be sent.
func (r *Replicator) look(ctx context.Context) {
	now := r.cfg.Now()
	r.gathers = false
	peers := r.cfg.Peers()
	scan := r.core.Sees(peers, now)
	if leaving := r.leaves || peers[r.cfg.Self].Drained; leaving != r.gone {
		r.gone = leaving
		r.core.Leave(leaving)
		scan = true
	}
	if scan || !r.scanned && r.cfg.Current() {
		r.scanned = r.cfg.Current()
		r.scan(now)
	}
	r.take(append(r.early, r.ended.Take()...), now)
	r.cfg.Replica.Read(func(s *ledger.State) {
		r.core.Retain(func(id taskstate.JobID) bool { _, ok := s.Job(id); return ok })
	})
	for _, large := range []bool{false, true} {
		if r.lanes[large] {
			continue
		}
		if b, ok := r.core.Next(large, now); ok {
			r.lanes[large] = true
			r.wg.Go(func() { r.send(ctx, b) })
		}
	}
}

// take takes in what tasks printed that have just ended.
func (r *Replicator) take(ended []taskstate.RunReport, now time.Time) {
	r.early = nil
	var out []Output
	of := map[taskstate.TaskID]taskstate.RunReport{}
	for _, rep := range ended {
		if rep.Saved == nil {
			of[rep.Task] = rep
			out = append(out, Output{Task: rep.Task, Failed: rep.State != taskstate.Complete, Fresh: true})
		}
	}
	for _, task := range r.add(out, func(o *Output, _ taskstate.PeerID) bool {
		p, there := printedIn(r.cfg.Tasks, o.Task)
		o.Out, o.Err = p.Out, p.Err
		return there && p.Bytes() > 0
	}) {
		if rep := of[task]; now.Sub(time.UnixMilli(rep.At)) < time.Minute {
			r.early = append(r.early, rep)
		}
	}
}

// scan finds all output here that may have one copy, and forgets what was taken for that before:
// a peer that has just started knows no other peer yet.
func (r *Replicator) scan(now time.Time) {
	var all []Output
	at := map[taskstate.TaskID]bool{} // it ran here
	for _, dir := range []string{r.cfg.Tasks, r.cfg.Store.Dir} {
		for task, p := range outputsBelow(dir) {
			if _, _, runs := r.cfg.Live(task); runs || at[task] {
				continue
			}
			at[task] = dir == r.cfg.Tasks
			all = append(all, Output{Task: task, Out: p.Out, Err: p.Err})
		}
	}
	var safe []taskstate.TaskID
	r.add(all, func(o *Output, maker taskstate.PeerID) bool {
		sole := (r.gone || o.Out+o.Err > 0) && (at[o.Task] || !r.core.Counts(maker, now))
		if !sole {
			safe = append(safe, o.Task)
		}
		return sole
	})
	r.core.Drop(safe)
}

// readAtOnce bounds how long the replica is held up.
const readAtOnce = 1000

// add gives the core what passes and is of a job whose output is kept twice. It returns the tasks
// that this peer's copy of the ledger has not.
func (r *Replicator) add(all []Output, passes func(o *Output, maker taskstate.PeerID) bool) (unknown []taskstate.TaskID) {
	var found []Output
	for some := range slices.Chunk(all, readAtOnce) {
		var known []Output
		var makers []taskstate.PeerID
		r.cfg.Replica.Read(func(s *ledger.State) {
			for _, o := range some {
				j, ok := s.Job(o.Task.Job)
				if ok && !j.Job().PrintsTwice() {
					continue
				}
				maker, failed := makerOf(j, o.Task)
				if maker == "" {
					unknown = append(unknown, o.Task)
					continue
				}
				o.Submitter, o.Failed = j.Job().Submitter, o.Failed || failed
				known, makers = append(known, o), append(makers, maker)
			}
		})
		for i := range known {
			if passes(&known[i], makers[i]) {
				found = append(found, known[i])
			}
		}
	}
	r.core.Add(found)
	return unknown
}

// makerOf is the peer that ran a task, "" if that is not remembered, and whether the task failed.
func makerOf(j *ledger.JobRecord, task taskstate.TaskID) (peer taskstate.PeerID, failed bool) {
	if j == nil || task.Slot > j.Slots() {
		return "", false
	}
	if now := j.Slot(task.Slot); now.Attempt == task.Attempt {
		return now.Peer, now.Final != nil && now.Final.State != taskstate.Complete
	}
	for _, p := range j.Past(task.Slot) {
		if p.Attempt == task.Attempt {
			return p.Peer, true
		}
	}
	return "", false
}

// send sends a batch, small output with it.
func (r *Replicator) send(ctx context.Context, b Batch) {
	res := result{Batch: b}
	b.Tasks = slices.Clone(b.Tasks)
	for i := range b.Tasks {
		task := b.Task(i)
		_, ran := printedIn(r.cfg.Tasks, task)
		_, copied := printedIn(r.cfg.Store.Dir, task)
		switch {
		case !ran && !copied: // room was made (package sweep)
			res.gone = append(res.gone, task)
		case !b.Offer && !b.Large:
			r.inline(ctx, task, &b.Tasks[i])
		}
	}
	limited, cancel := context.WithCancelCause(ctx)
	stall := time.AfterFunc(sendStall, func() { cancel(errors.New("it did not answer in time")) })
	res.lacks, res.err = keep.Send(limited, r.cfg.Net, b.Peer, b.Batch, func(int64) { stall.Reset(sendStall) })
	stall.Stop()
	if res.err != nil && limited.Err() != nil {
		res.err = context.Cause(limited)
	}
	cancel(nil)
	select {
	case r.results <- res:
	case <-ctx.Done():
	}
}

// inline reads the output of a task into what is sent. Where that is not what it was – its folder
// was removed – the keeper is left to find that out.
func (r *Replicator) inline(ctx context.Context, task taskstate.TaskID, p *keep.Printed) {
	var text [2][]byte
	err := r.cfg.Logs.Copy(ctx, tasklog.AllOutput(task, false), func(c tasklog.Chunk) error {
		i := 0
		if c.Stream == tasklog.Stderr {
			i = 1
		}
		if text[i] = append(text[i], c.Data...); len(text[i]) > smallOutput {
			return errors.New("it has grown")
		}
		return nil
	})
	if err == nil && int64(len(text[0])) == p.Out && int64(len(text[1])) == p.Err {
		p.Stdout, p.Stderr = text[0], text[1]
	}
}

// Take implements keep.PrintedKeeper.
func (r *Replicator) Take(ctx context.Context, peer string, b keep.Batch, going func(bytes int64) error) (lacks []int, err error) {
	var there []taskstate.TaskID
	came, told := int64(0), r.cfg.Now()
	moved := func(n int) error {
		if came += int64(n); r.cfg.Now().Sub(told) < time.Second {
			return ctx.Err()
		}
		told = r.cfg.Now()
		return going(came)
	}
	if err := r.mayTake(ctx, peer, &b); err != nil {
		return nil, err
	}
	for i := range b.Tasks {
		task, p := b.Task(i), &b.Tasks[i]
		switch _, here := printedIn(r.cfg.Tasks, task); {
		case here: // it ran here: a peer gives back what it kept
			continue
		case r.cfg.Store.Has(task, p):
		case b.Offer:
			lacks = append(lacks, i)
			continue
		default:
			if err := r.keep(ctx, peer, task, p, b.Flush, moved); err != nil {
				r.cfg.Log.Debug("what a task printed was not copied", "task", task, "from", peer, "err", err)
				lacks = append(lacks, i)
				continue
			}
		}
		there = append(there, task)
		if err := moved(0); err != nil {
			return nil, err
		}
	}
	if b.Flush {
		err = r.flush(there)
	}
	return lacks, err
}

// flush brings copies to the disk, several at once: one write of the file system's journal is then
// for many.
func (r *Replicator) flush(tasks []taskstate.TaskID) (err error) {
	const atOnce = 16
	var wg sync.WaitGroup
	errs := make([]error, atOnce)
	for n := range atOnce {
		wg.Go(func() {
			for i := n; i < len(tasks); i += atOnce {
				errs[n] = errors.Join(errs[n], r.cfg.Store.Flush(tasks[i]))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// How long a keeper waits for the ledger to have what a peer sends the output of.
const (
	jobWait = 5 * time.Second
	jobLook = 20 * time.Millisecond
)

// mayTake refuses what this peer may not read, and what the sender has no business with: it sends
// what ran there, or what it kept for a peer that is gone and may read itself.
func (r *Replicator) mayTake(ctx context.Context, peer string, b *keep.Batch) error {
	for waited := time.Duration(0); ; waited += jobLook {
		may, known := r.cfg.May(r.cfg.Self, b.Job)
		if known && !may {
			return &keep.Refused{Code: keep.CodeNone}
		}
		reads, _ := r.cfg.May(peer, b.Job)
		peers, makers := r.cfg.Peers(), map[taskstate.PeerID]bool{}
		r.cfg.Replica.Read(func(s *ledger.State) {
			if j, ok := s.Job(b.Job); ok && j.Job().PrintsTwice() {
				for i := range b.Tasks {
					maker, _ := makerOf(j, b.Task(i))
					makers[maker] = true
				}
			}
		})
		ok := len(makers) > 0
		for maker := range makers {
			ok = ok && maker != "" && (maker == peer || reads && !counts(peers[maker], r.cfg.Now()))
		}
		if ok {
			return nil
		}
		if waited >= jobWait {
			return &keep.Refused{Code: keep.CodeBusy, Message: "it does not know that these tasks ran there"}
		}
		t := time.NewTimer(jobLook)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

// keep copies the output of one task: what came along, or what is read where it is.
func (r *Replicator) keep(ctx context.Context, peer string, task taskstate.TaskID, p *keep.Printed, leaving bool, moved func(int) error) error {
	inline := map[string][]byte{tasklog.Stdout: p.Stdout, tasklog.Stderr: p.Stderr}
	want := map[string]int64{tasklog.Stdout: p.Out, tasklog.Stderr: p.Err}
	return r.cfg.Store.Keep(task, p, leaving, func(stream string, to *os.File) error {
		if p.Inline() {
			_, err := to.Write(inline[stream])
			return errors.Join(err, moved(len(inline[stream])))
		}
		left := want[stream]
		req := tasklog.Request{Task: task, Parts: []tasklog.Part{{Stream: stream}}}
		err := tasklog.Fetch(ctx, r.cfg.Net, peer, req, func(c tasklog.Chunk) error {
			data := c.Data[:min(int64(len(c.Data)), left)]
			left -= int64(len(data))
			_, err := to.Write(data)
			return errors.Join(err, moved(len(data)))
		})
		if err == nil && left > 0 {
			err = fmt.Errorf("its %s has %d bytes less than was said", stream, left)
		}
		return err
	})
}

// Holders are the peers that may have a copy of what tasks of a job printed, the likeliest first.
func (r *Replicator) Holders(job taskstate.JobID, submitter taskstate.PeerID) []taskstate.PeerID {
	var may []taskstate.PeerID
	for id, p := range r.cfg.Peers() {
		if p.Here && (!p.Blind || id == submitter) {
			may = append(may, id)
		}
	}
	return keep.Order(taskstate.TaskID{Job: job}, submitter, may)
}
