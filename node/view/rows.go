package view

import (
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/taskstate"
)

// shownStates are always in a job's counts, also when they are 0, so that scripts may rely on them.
var shownStates = [...]taskstate.State{
	taskstate.Pending, taskstate.Assigned, taskstate.Running, taskstate.Complete, taskstate.Failed, taskstate.Rejected,
	taskstate.Shutdown, taskstate.Orphaned,
}

func stamp(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// jobRow is a job as the ledger has it, with the open tasks split by what their workers report.
func jobRow(j *ledger.JobRecord, reported map[taskstate.State]int) api.Job {
	job, c := j.Job(), j.Counts()
	tasks := noTasks()
	for s, k := range map[taskstate.State]int{
		taskstate.Pending: c.Pending, taskstate.Complete: c.Complete, taskstate.Failed: c.Failed, taskstate.Rejected: c.Rejected,
		taskstate.Shutdown: c.Shutdown, taskstate.Orphaned: c.Orphaned,
	} {
		tasks[s.String()] += k
	}
	if c.Retired > 0 && !j.Lasts() { // tasks that were cancelled one by one are tasks of the job as before
		for n := 1; n <= j.Slots(); n++ {
			if r := j.Slot(n); r.Retired && r.Final != nil {
				tasks[r.Final.State.String()]++
			}
		}
	}
	open := c.Open
	for s, k := range reported {
		k = min(k, open) // the table and the ledger are read one after the other
		tasks[s.String()] += k
		open -= k
	}
	tasks[taskstate.Assigned.String()] += open
	row := api.Job{
		ID: string(job.ID), Name: job.Name, Type: string(job.Type), State: j.State().String(), Count: job.Count, Tasks: tasks,
		Submitted: stamp(j.Accepted()), Submitter: job.Submitter,
	}
	if reason, _, ok := j.Cancelled(); ok {
		row.Cancelled = "cancelled"
		if reason != "" {
			row.Cancelled = reason
		}
	}
	if at, ok := j.Ended(); ok {
		t, code := stamp(at), exitCode(j)
		row.Ended, row.ExitCode, row.Truncated = &t, &code, j.Truncated()
	}
	row.Pinned = j.Pinned()
	return row
}

func noTasks() map[string]int {
	tasks := make(map[string]int, len(shownStates)+1)
	for _, s := range shownStates {
		tasks[s.String()] = 0
	}
	return tasks
}

// HeldRow is a job that waits here for a coordinator (held), or that was taken back before one saw
// it (shutdown).
func HeldRow(h Held, state taskstate.State) api.Job {
	tasks, name := noTasks(), "held"
	if h.Job.Schedule == nil { // the tasks of a schedule are those of its runs
		tasks[state.String()] = h.Job.Count
	}
	if state.Final() {
		name = state.String()
	}
	return api.Job{
		ID: string(h.Job.ID), Name: h.Job.Name, Type: string(h.Job.Type), State: name, Count: h.Job.Count,
		Tasks: tasks, Submitted: stamp(h.Since),
		Submitter: h.Job.Submitter,
	}
}

// Exit codes of a shell for what has none of its own.
const (
	exitTimeout  = 124
	exitOurs     = 125 // nothing the task did: Covey could not keep its output, or bring it its stdin
	exitNotExec  = 126
	exitNotFound = 127
	exitSignal   = 128 // plus the signal's number
)

// exitCode is what run and wait exit with for an ended job: the task's own code if there is one
// task, otherwise 0 or 1.
func exitCode(j *ledger.JobRecord) int {
	if j.Truncated() && !j.Lasts() {
		return exitOurs
	}
	if j.State() == taskstate.Complete {
		return 0
	}
	if j.Slots() != 1 || j.Lasts() {
		return 1
	}
	s := j.Slot(1).Final
	switch {
	case s == nil:
		return 1
	case s.Reason == taskstate.ReasonTimeout:
		return exitTimeout
	case s.Reason == taskstate.ReasonOutputLost, s.Reason == taskstate.ReasonStdin:
		return exitOurs
	case s.Reason == taskstate.ReasonNotFound:
		return exitNotFound
	case s.Reason == taskstate.ReasonNotExec:
		return exitNotExec
	case s.Signal > 0:
		return exitSignal + s.Signal
	case s.Exit > 0:
		return s.Exit
	}
	return 1
}

// waitsSince is when the newest attempt of a slot began to wait for a peer: as the job was
// accepted, or as the attempt before was over.
func waitsSince(j *ledger.JobRecord, slot int) int64 {
	if past := j.Past(slot); len(past) > 0 {
		return past[len(past)-1].GivenUpAt
	}
	return j.Accepted()
}

// seconds is a time between two moments, or measured by a worker, both in milliseconds.
func seconds(ms int64) float64 { return float64(max(0, ms)) / 1000 }

// taskRow is the newest attempt of a slot, which waits since then; st is its newest report, if
// there is one.
func taskRow(job *taskstate.Job, r ledger.SlotRecord, since int64, st *taskstate.Status, cancelled bool) api.Task {
	t := api.Task{
		ID: taskstate.Task(job.ID, r.Slot, max(r.Attempt, 1)).String(), Job: string(job.ID), Slot: r.Slot, Attempt: max(r.Attempt, 1),
		State: taskstate.Pending.String(), Desired: taskstate.Complete.String(), Peer: r.Peer, Item: job.Item(r.Slot),
	}
	if job.Type == taskstate.ServiceJob || job.Type == taskstate.GlobalJob {
		t.Desired = taskstate.Running.String()
	}
	if cancelled {
		t.Desired = taskstate.Shutdown.String()
	}
	if job.Escaped {
		t.ItemBase64 = []byte(job.RawItem(t.Item))
	}
	addLastingFields(&t, r)
	switch {
	case r.Final != nil:
		st, t.Final = r.Final, true
	case r.Open && st == nil:
		t.State, t.At = taskstate.Assigned.String(), stamp(r.AssignedAt)
	}
	if st == nil {
		return t
	}
	t.State, t.At, t.Message, t.Reason, t.Signal = st.State.String(), stamp(st.At), st.Message, string(st.Reason), st.Signal
	t.Truncated, t.HeldTo = st.Truncated, st.Held.Words()
	t.Took = seconds(st.Took)
	if st.Took > 0 || st.State == taskstate.Running {
		t.Waited = seconds(r.AssignedAt - since + st.Waited)
	}
	if st.State.Final() && st.Exit != taskstate.NoExit {
		t.ExitCode = new(st.Exit)
	}
	t.Output = outputOf(st)
	return t
}

// outputOf is what is kept of the files of an end, its keepers without names.
func outputOf(st *taskstate.Status) *api.Output {
	s := st.Saved
	if s == nil || !st.State.Final() {
		return nil
	}
	out := &api.Output{
		Bytes: s.Bytes, Files: s.Files, Copies: len(s.Keepers), Keep: s.Keep, Why: s.Why,
		Keepers: make([]api.Keeper, len(s.Keepers)), Partial: st.State != taskstate.Complete,
	}
	if !s.Root.IsZero() {
		out.Ref = &tree.Ref{Root: s.Root, Dir: true}
	}
	if !s.Logs.IsZero() {
		out.Logs = &tree.Ref{Root: s.Logs, Dir: true}
	}
	for i, k := range s.Keepers {
		out.Keepers[i].Peer = k
	}
	return out
}
