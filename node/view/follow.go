package view

import (
	"context"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// progressEvery is the least time between two lines about a job that goes on: enough for a person's
// eye, and cheap. The end of a job never waits for it.
const progressEvery = 50 * time.Millisecond

// Tasks implements api.JobBackend.
func (v *View) Tasks(ctx context.Context, id string) (api.Tasks, error) {
	job, held, err := v.Find(ctx, id)
	if err != nil {
		return api.Tasks{}, err
	}
	if held != nil {
		return inPieces(allSlots(held.Job.Count), func(slots []int) (rows []api.Task, _ error) {
			for _, slot := range slots {
				rows = append(rows, taskRow(&held.Job, ledger.SlotRecord{Slot: slot}, 0, nil, false))
			}
			return nameTasks(&held.Job, rows), nil
		})
	}
	var slots []int
	v.cfg.Replica.Read(func(s *ledger.State) {
		if j, ok := s.Job(job); ok {
			slots = shownSlots(j)
		}
	})
	gone := v.away(ctx, job)
	return inPieces(slots, func(slots []int) ([]api.Task, error) { return v.taskRowsNow(job, slots, &gone) })
}

// piece is how many rows of tasks are made at once: a job may have a million.
const piece = 4096

// inPieces answers with the rows of slots, those beyond the first piece only when they are asked
// for.
func inPieces(slots []int, rows func(slots []int) ([]api.Task, error)) (out api.Tasks, err error) {
	n := min(piece, len(slots))
	out.AsOf = time.Now().UTC()
	if out.Tasks, err = rows(slots[:n]); out.Tasks == nil {
		out.Tasks = []api.Task{}
	}
	if n < len(slots) {
		out.More = func(yield func([]api.Task, error) bool) {
			for some := range slices.Chunk(slots[n:], piece) {
				if more, err := rows(some); !yield(more, err) || err != nil {
					return
				}
			}
		}
	}
	return out, err
}

func allSlots(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i + 1
	}
	return out
}

func (v *View) taskRows(id taskstate.JobID, slots []int) (rows []api.Task, err error) {
	return v.taskRowsNow(id, slots, &away{})
}

// taskRowsNow is taskRows with what cannot be reached.
func (v *View) taskRowsNow(id taskstate.JobID, slots []int, gone *away) (rows []api.Task, err error) {
	err = ErrNoJob(string(id))
	var records []ledger.SlotRecord
	var job *taskstate.Job
	cancelled, whyAgain := false, map[int]string{}
	var since []int64 // they wait
	v.cfg.Replica.Read(func(s *ledger.State) {
		j, ok := s.Job(id)
		if !ok {
			return
		}
		err, job = nil, j.Job()
		_, _, cancelled = j.Cancelled()
		if slots == nil {
			slots = shownSlots(j)
		}
		records = make([]ledger.SlotRecord, 0, len(slots))
		for _, slot := range slots {
			if slot > j.Slots() {
				continue
			}
			r := j.Slot(slot)
			if r.Pending() && r.NotBefore > 0 {
				whyAgain[slot] = lastMessage(j, slot)
			}
			records, since = append(records, r), append(since, waitsSince(j, slot))
		}
	})
	named := v.names()
	rows = make([]api.Task, 0, len(records))
	for i, r := range records {
		var st *taskstate.Status
		if got, ok := v.cfg.Table.Get(taskstate.Task(id, r.Slot, r.Attempt)); ok {
			st = &got
		}
		row := taskRow(job, r, since[i], st, cancelled)
		row.Unreachable = gone.of(job, r, cancelled)
		if row.NotBefore != nil {
			row.Message = whyAgain[r.Slot]
		}
		if row.Peer != "" {
			row.PeerName = named(row.Peer)
		}
		if row.Output != nil {
			for i := range row.Output.Keepers {
				k := &row.Output.Keepers[i]
				k.Name = named(k.Peer)
			}
		}
		rows = append(rows, row)
	}
	if err != nil {
		return rows, err
	}
	return nameTasks(job, rows), nil
}

// names asks for the name of each peer once.
func (v *View) names() func(id taskstate.PeerID) string {
	names := map[taskstate.PeerID]string{}
	return func(id taskstate.PeerID) string {
		name, ok := names[id]
		if !ok {
			name = v.Who.Name(id)
			names[id] = name
		}
		return name
	}
}

// Follow implements api.JobBackend.
func (v *View) Follow(ctx context.Context, id string, tasks bool, send func(api.Progress) error) error {
	job, held, err := v.Find(ctx, id)
	if err != nil {
		return err
	}
	seen := v.hub.last()
	if held != nil {
		if seen, err = v.followHeld(ctx, job, send); err != nil {
			return err
		}
	}
	f := follower{view: v, job: job, tasks: tasks, seen: seen, shown: map[int]int{}, send: send}
	return f.run(ctx)
}

// followHeld waits until a held job is known to the ledger, and returns the hub's position from
// before it looked.
func (v *View) followHeld(ctx context.Context, id taskstate.JobID, send func(api.Progress) error) (uint64, error) {
	for first := true; ; first = false {
		seen := v.hub.last()
		_, _, more := v.hub.after(seen)
		if _, err := v.JobNow(id); err == nil {
			return seen, nil
		}
		_, held, err := v.resolve(string(id))
		if err != nil {
			return seen, err
		}
		if first && held != nil {
			row := HeldRow(*held, taskstate.Pending)
			row.Waiting = v.Deciders.WhoIsMissing()
			if err := send(api.Progress{Job: row}); err != nil {
				return seen, err
			}
		}
		select {
		case <-more:
		case <-ctx.Done():
			return seen, ctx.Err()
		}
	}
}

// follower tells one client about one job.
type follower struct {
	view  *View
	job   taskstate.JobID
	tasks bool
	seen  uint64      // events up to here are told
	shown map[int]int // slots whose end is told, and the attempt
	send  func(api.Progress) error
	why   reasons
}

func (f *follower) run(ctx context.Context) error {
	var slots []int // nil: all that began
	told := time.Time{}
	for {
		// The position (seen) is from before this look: what happens in between is told twice,
		// never not at all.
		row, err := f.view.JobNow(f.job)
		if err != nil {
			return err
		}
		if !row.Over() && time.Since(told) < progressEvery {
			if err := f.pause(ctx, told); err != nil {
				return err
			}
			continue
		}
		f.why.tell(ctx, f.view, &row)
		p := api.Progress{Job: row}
		if f.tasks {
			list := func() ([]api.Task, error) { return f.changed(slots) }
			if row.Over() {
				list = f.untold // the job can be over before the events of its last tasks are read
			}
			if p.Tasks, err = list(); err != nil {
				return err
			}
		}
		if err := f.send(p); err != nil {
			return err
		}
		if row.Over() {
			return nil
		}
		told = time.Now()
		if slots, err = f.next(ctx); err != nil {
			return err
		}
	}
}

// pause waits out progressEvery, but not past the job's end.
func (f *follower) pause(ctx context.Context, told time.Time) error {
	t := time.NewTimer(progressEvery - time.Since(told))
	defer t.Stop()
	for looked := f.seen; ; {
		last := f.view.hub.last()
		evs, lost, more := f.view.hub.after(looked)
		if f.ended(evs) {
			return nil
		}
		if lost { // the end may be among them
			if row, err := f.view.JobNow(f.job); err != nil || row.Over() {
				return err
			}
			looked = last // otherwise the caller would look again at once, for the whole pause
		}
		select {
		case <-t.C:
			return nil
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *follower) ended(evs []event) bool {
	for i := range evs {
		var s taskstate.State
		if evs[i].kind == kindJob && evs[i].job == f.job && s.UnmarshalText([]byte(evs[i].state)) == nil && s.Final() {
			return true
		}
	}
	return false
}

// next waits for events of this job and returns the slots they are about; nil when events were
// lost.
func (f *follower) next(ctx context.Context) ([]int, error) {
	for {
		evs, lost, more := f.view.hub.after(f.seen)
		if lost {
			f.seen = f.view.hub.last()
			return nil, nil
		}
		slots, mine := []int{}, false
		for i := range evs {
			e := &evs[i]
			f.seen = e.seq
			switch {
			case e.kind == kindSnapshot:
				slots, mine = nil, true
			case e.kind == kindJob && e.job == f.job, e.kind == kindPeer && e.state == membership.Dead.String():
				mine = true // a dead peer may run a task of it
			case e.kind == kindTask && e.task.Job == f.job:
				mine = true
				if f.tasks && slots != nil {
					slots = append(slots, e.task.Slot)
				}
			}
		}
		if mine {
			return slots, nil
		}
		select {
		case <-more:
		case <-f.why.due():
			return []int{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// untold lists the slots whose end was not told yet, as the job ended.
func (f *follower) untold() ([]api.Task, error) {
	rows, err := f.view.taskRows(f.job, nil)
	return slices.DeleteFunc(rows, func(t api.Task) bool { return f.shown[t.Slot] == t.Attempt }), err
}

// changed lists rows of the slots (nil: of every slot that began), each once, and remembers whose
// end is told with it.
func (f *follower) changed(slots []int) ([]api.Task, error) {
	rows, err := f.rows(slots)
	for i := range rows {
		if stands(&rows[i]) {
			f.shown[rows[i].Slot] = rows[i].Attempt
		}
	}
	return rows, err
}

// stands tells whether a row is an end that no new attempt of the slot follows.
func stands(t *api.Task) bool {
	switch taskstate.Reason(t.Reason) {
	case taskstate.ReasonRecalled, taskstate.ReasonInterrupted, taskstate.ReasonDropped, taskstate.ReasonUnreachable, taskstate.ReasonStuck, taskstate.ReasonNoRoom, taskstate.ReasonPolicy, taskstate.ReasonNotStarted, taskstate.ReasonMoved, taskstate.ReasonUpdated, taskstate.ReasonDrained:
		return false
	}
	var s taskstate.State
	return s.UnmarshalText([]byte(t.State)) == nil && s.Final()
}

func (f *follower) rows(slots []int) ([]api.Task, error) {
	if slots != nil {
		uniq := map[int]bool{}
		kept := slots[:0]
		for _, s := range slots {
			if !uniq[s] {
				uniq[s] = true
				kept = append(kept, s)
			}
		}
		return f.view.taskRows(f.job, kept)
	}
	return f.view.taskRows(f.job, f.view.begunSlots(f.job))
}

// begunSlots lists the slots of a job that somebody has, or had: of a million they may be few.
func (v *View) begunSlots(id taskstate.JobID) []int {
	out := []int{}
	v.cfg.Replica.Read(func(s *ledger.State) {
		if j, ok := s.Job(id); ok {
			out = slices.DeleteFunc(shownSlots(j), func(k int) bool { return j.Slot(k).Pending() })
		}
	})
	return out
}
