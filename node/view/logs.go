package view

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/tasklog"
	"github.com/coveyproject/covey/taskstate"
)

// logFanOut is how many tasks' logs are followed at once; the others wait for their turn.
const logFanOut = 64

// A log stream that broke, or that was asked for before the task began, is opened again after a
// wait that doubles.
const (
	logRetryFirst = 5 * time.Millisecond
	logRetryMost  = 500 * time.Millisecond
)

// meetLimit is how long a reader waits for news of where a peer is that gossip has not brought yet.
const meetLimit = 5 * time.Second

// Logs implements api.JobBackend.
func (v *View) Logs(ctx context.Context, id string, q api.LogQuery, send func(api.LogChunk) error) error {
	find := v.Find
	if q.Follow {
		find = v.FindLive
	}
	job, slot, attempt, held, err := v.FindTask(ctx, id, find)
	switch {
	case err != nil:
		return err
	case slot > 0 && q.Slot > 0 && slot != q.Slot:
		return api.Errorf(api.Usage, "slot %d by its id and slot %d besides: only one can be shown", slot, q.Slot)
	case attempt > 0:
		q.Task = taskstate.Task(job, slot, attempt).String()
	case slot > 0:
		q.Slot = slot
	}
	if held != nil {
		if !q.Follow {
			return api.Errorf(api.NotFound, "job %s is held here and has no output yet: %s", job, v.Deciders.WhoIsMissing())
		}
		if _, err := v.followHeld(ctx, job, func(api.Progress) error { return nil }); err != nil {
			return err
		}
	}
	slots, attempt, err := v.logSlots(job, q)
	if err != nil || len(slots) == 0 {
		return err
	}
	l := &logReader{view: v, job: job, named: v.namesOf(job), q: q, attempt: attempt, meetBy: time.Now().Add(meetLimit), send: send}
	if len(slots) == 1 || !q.Follow {
		for _, slot := range slots {
			if err := l.slot(ctx, slot); err != nil {
				return err
			}
		}
		return nil
	}
	return l.all(ctx, slots)
}

// logSlots are the slots a query means; attempt is set when it means one certain attempt.
func (v *View) logSlots(job taskstate.JobID, q api.LogQuery) (slots []int, attempt int, err error) {
	slot := q.Slot
	if q.Task != "" {
		t, err := taskstate.ParseTaskID(q.Task)
		if err != nil {
			return nil, 0, api.Errorf(api.Usage, "%v", err)
		}
		slot, attempt = t.Slot, t.Attempt
	}
	count, silent := 0, false
	var shown []int
	v.cfg.Replica.Read(func(s *ledger.State) {
		j, ok := s.Job(job)
		if !ok {
			return
		}
		count, silent = j.Slots(), j.Job().Run.Noop != nil
		if slot <= 0 { // a caller that wants one slot asks so for each of a large job
			shown = shownSlots(j)
		}
	})
	switch {
	case slot > count:
		return nil, 0, api.Errorf(api.NotFound, "job %s has slots 1 to %d, there is no slot %d", job, count, slot)
	case silent: // no-ops say nothing
		return nil, 0, nil
	case slot > 0:
		return []int{slot}, attempt, nil
	}
	return shown, 0, nil
}

// logReader sends the logs of one job's tasks to one client.
type logReader struct {
	view    *View
	job     taskstate.JobID
	named   func(taskstate.TaskID) string
	q       api.LogQuery
	attempt int // 0: the newest, and those that follow it
	meetBy  time.Time

	mu     sync.Mutex // guards what follows: many slots, one client
	send   func(api.LogChunk) error
	copied taskstate.PeerID // had a copy of what another task printed
}

func (l *logReader) emit(c api.LogChunk) error {
	if id, err := taskstate.ParseTaskID(c.Task); err == nil {
		c.Named = l.named(id)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.send(c)
}

// all follows many slots side by side.
func (l *logReader) all(ctx context.Context, slots []int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	places := make(chan struct{}, logFanOut)
	for _, slot := range slots {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-places }()
			if err := l.slot(ctx, slot); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return nil
}

// slot sends one slot's log: of the attempt asked for, or of the newest and, following, of those
// that replace it.
func (l *logReader) slot(ctx context.Context, slot int) error {
	shown := 0
	for {
		r, jobOver, err := l.attemptNow(ctx, slot, shown)
		if err != nil || r.Peer == "" {
			return err
		}
		shown = r.Attempt
		if err := l.task(ctx, r); err != nil {
			return err
		}
		if !l.q.Follow || jobOver || l.attempt > 0 {
			return nil
		}
	}
}

// attemptNow finds the attempt to show after the one shown last; following, it waits for one. No
// peer in the record means that there is none. While a slot waits for its next attempt, what the
// one before said is what a person wants to read.
func (l *logReader) attemptNow(ctx context.Context, slot, shown int) (rec ledger.SlotRecord, over bool, err error) {
	for {
		var before ledger.SlotRecord
		seen := l.view.hub.last()
		_, _, more := l.view.hub.after(seen)
		err = ErrNoJob(string(l.job))
		l.view.cfg.Replica.Read(func(s *ledger.State) {
			if j, ok := s.Job(l.job); ok {
				rec, err = j.Slot(slot), nil
				if l.attempt > 0 && l.attempt < rec.Attempt {
					rec = earlierAttempt(j, slot, l.attempt, rec)
				}
				before, over = lastEnded(j, slot), rec.Final != nil
				if _, ended := j.Ended(); ended {
					over = true
				}
			}
		})
		if err != nil {
			return rec, over, err
		}
		if l.attempt > 0 && l.attempt != rec.Attempt {
			return rec, over, api.Errorf(api.NotFound, "task %s is not the newest attempt of its slot (that is %d), nor one that is remembered; see `peer tasks %s --all`",
				taskstate.Task(l.job, slot, l.attempt), rec.Attempt, l.job)
		}
		if rec.Peer != "" && rec.Attempt > shown {
			return rec, over, nil
		}
		if rec.Peer == "" && shown == 0 && l.attempt == 0 && before.Peer != "" {
			return before, over, nil
		}
		if over || !l.q.Follow {
			return ledger.SlotRecord{}, over, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return rec, over, ctx.Err()
		}
	}
}

// task sends one attempt's log from the peer that has it. Following, a broken stream is opened
// again where it broke, as long as the attempt lives and its peer is not dead.
func (l *logReader) task(ctx context.Context, r ledger.SlotRecord) error {
	task := taskstate.Task(l.job, r.Slot, r.Attempt)
	req := tasklog.AllOutput(task, l.q.Follow)
	req.Tail, req.Times = l.q.Tail, l.q.Times
	if !l.q.Since.IsZero() {
		req.Since = max(1, l.q.Since.UnixMilli())
	}
	if l.q.Stream != "" {
		req.Parts = []tasklog.Part{{Stream: l.q.Stream}}
	}
	wait := logRetryFirst
	read := func(c tasklog.Chunk) error {
		wait = logRetryFirst
		return l.chunk(task, &req, c)
	}
	for ; ; wait = min(2*wait, logRetryMost) {
		_, over, _ := l.attemptOf(r.Slot)
		err := l.fetch(ctx, r.Peer, req, read)
		if err != nil && ctx.Err() == nil && !tasklog.Refused(err) {
			end := l.endOf(r)
			switch {
			case end != nil && keepsLogs(end): // no need to wait for its peer
				if l.view.cfg.Kept().Logs(ctx, end.Saved, end.At, req, read) == nil {
					err = nil
				}
			case (end != nil || r.Final != nil) && l.fromCopy(ctx, r.Peer, &req, read):
				err = nil
			}
		}
		switch {
		case err == nil:
			return l.emit(api.LogChunk{Task: task.String(), EOF: true})
		case ctx.Err() != nil:
			return ctx.Err()
		case l.q.Follow && l.worthRetrying(err, r, over):
			if err := pause.For(ctx, wait); err != nil {
				return err
			}
			continue
		case tasklog.NotFound(err) && !over && r.Final == nil:
			now, ended, err := l.attemptOf(r.Slot)
			if err == nil && now.Attempt == r.Attempt && ended {
				continue // it began and ended while its peer said so
			} else if err == nil && now.Attempt == r.Attempt {
				return l.emit(api.LogChunk{Task: task.String(), EOF: true, Note: l.view.Who.Called(r.Peer) + " has not begun it yet"})
			}
		}
		return l.emit(api.LogChunk{Task: task.String(), EOF: true, Error: l.wordLogError(err, r)})
	}
}

// chunk sends what was read, and notes where a later request goes on.
func (l *logReader) chunk(task taskstate.TaskID, req *tasklog.Request, c tasklog.Chunk) error {
	if c.Dropped > 0 {
		note := fmt.Sprintf("%d bytes of its %s before this are not kept: of a service only the newest output is (max_output)", c.Dropped, c.Stream)
		if err := l.emit(api.LogChunk{Task: task.String(), Stream: c.Stream, Note: note}); err != nil {
			return err
		}
	}
	if len(c.Data) == 0 {
		return nil
	}
	for i := range req.Parts {
		if req.Parts[i].Stream == c.Stream {
			req.Parts[i].Offset = c.Offset + int64(len(c.Data))
		}
	}
	out := api.LogChunk{Task: task.String(), Stream: c.Stream, Data: c.Data}
	if c.At > 0 {
		out.At = new(time.UnixMilli(c.At))
	}
	return l.emit(out)
}

// fetch reads from this peer's own store, or from another peer.
func (l *logReader) fetch(ctx context.Context, peer taskstate.PeerID, req tasklog.Request, f func(tasklog.Chunk) error) error {
	if peer == l.view.cfg.Self {
		return l.view.cfg.Output().Copy(ctx, req, f)
	}
	return tasklog.Fetch(ctx, l.view.cfg.Net, peer, req, f)
}

// worthRetrying tells whether the attempt may still have something to say. wasOver: it was over
// before its peer was asked.
func (l *logReader) worthRetrying(err error, r ledger.SlotRecord, wasOver bool) bool {
	now, over, rerr := l.attemptOf(r.Slot)
	if rerr != nil || now.Attempt != r.Attempt {
		return false // replaced: its story goes on elsewhere
	}
	if tasklog.Refused(err) {
		return false
	}
	if tasklog.NotFound(err) {
		return !wasOver // assigned and not begun when it was asked; it may have begun, and ended, since
	}
	if !over {
		return true
	}
	if tasklog.Failed(err) {
		return !wasOver // it was asked while the task ran, and may read the rest since
	}
	m, met := l.view.cfg.Members().Get(r.Peer)
	if !met {
		return time.Now().Before(l.meetBy) // a newcomer: gossip is slower than its first task
	}
	return m.Verdict == membership.Alive && r.Peer != l.view.cfg.Self
}

func (l *logReader) attemptOf(slot int) (rec ledger.SlotRecord, over bool, err error) {
	err = ErrNoJob(string(l.job))
	l.view.cfg.Replica.Read(func(s *ledger.State) {
		if j, ok := s.Job(l.job); ok {
			rec, err = j.Slot(slot), nil
			over = rec.Final != nil
		}
	})
	return rec, over, err
}
