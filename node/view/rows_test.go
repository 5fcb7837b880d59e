package view

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// rowOf is a job as its row shows it.
func (s *scripted) rowOf(id taskstate.JobID) (row api.Job) {
	s.t.Helper()
	row, err := s.JobNow(id)
	if err != nil {
		s.t.Fatal(err)
	}
	return row
}

func TestTheExitCodeOfAJobOfOneIsItsTasks(t *testing.T) {
	s := newScripted(t)
	a := s.newAuthor()
	for name, c := range map[string]struct {
		end  taskstate.Status
		want int
	}{
		"zero":       {taskstate.Status{State: taskstate.Complete}, 0},
		"three":      {taskstate.Status{State: taskstate.Failed, Exit: 3, Reason: taskstate.ReasonExit}, 3},
		"most":       {taskstate.Status{State: taskstate.Failed, Exit: 255, Reason: taskstate.ReasonExit}, 255},
		"timeout":    {taskstate.Status{State: taskstate.Failed, Exit: taskstate.NoExit, Signal: 15, Reason: taskstate.ReasonTimeout}, 124},
		"notexec":    {taskstate.Status{State: taskstate.Rejected, Exit: taskstate.NoExit, Reason: taskstate.ReasonNotExec}, 126},
		"notfound":   {taskstate.Status{State: taskstate.Rejected, Exit: taskstate.NoExit, Reason: taskstate.ReasonNotFound}, 127},
		"killed":     {taskstate.Status{State: taskstate.Failed, Exit: taskstate.NoExit, Signal: 9, Reason: taskstate.ReasonSignal}, 137},
		"terminated": {taskstate.Status{State: taskstate.Shutdown, Exit: taskstate.NoExit, Signal: 15, Reason: taskstate.ReasonCancelled}, 143},
		"unprepared": {taskstate.Status{State: taskstate.Rejected, Exit: taskstate.NoExit, Reason: taskstate.ReasonPrepare}, 1},
		"orphaned":   {taskstate.Status{State: taskstate.Orphaned, Exit: taskstate.NoExit}, 1},
	} {
		id := taskstate.JobID(name)
		s.take(id, name, s.self, 1)
		if row := s.rowOf(id); row.ExitCode != nil || row.Over() {
			t.Errorf("%s has an exit code before its end", name)
		}
		c.end.Task, c.end.Seq, c.end.Index, c.end.At = taskstate.Task(id, 1, 1), 1, s.assign(id, a, 1, 1), 1000
		s.settle(a, c.end)
		if row := s.rowOf(id); row.ExitCode == nil || *row.ExitCode != c.want || row.State != endName(c.end.State) {
			t.Errorf("%s: %+v, want exit code %d", name, row, c.want)
		}
	}
}

// endName is the state of a job of one task that ended like this.
func endName(s taskstate.State) string {
	switch s {
	case taskstate.Complete, taskstate.Shutdown:
		return s.String()
	}
	return taskstate.Failed.String()
}

func TestTheExitCodeOfAJobOfManyIsZeroOrOne(t *testing.T) {
	s := newScripted(t)
	a := s.newAuthor()
	s.take(someJob, "many", s.self, 2)
	index := s.assign(someJob, a, 1, 2)
	s.settle(a, complete(1, index))
	bad := complete(2, index)
	bad.State, bad.Exit, bad.Reason = taskstate.Failed, 42, taskstate.ReasonExit
	s.settle(a, bad)
	if row := s.rowOf(someJob); row.ExitCode == nil || *row.ExitCode != 1 || row.State != "failed" {
		t.Fatalf("%+v", row)
	}
}

func TestTheCountsOfAJobAddUpWhateverTheTableSays(t *testing.T) {
	s := newScripted(t)
	a := s.newAuthor()
	s.take(someJob, "job", s.self, 6)
	check := func(want map[string]int) {
		t.Helper()
		row, sum := s.rowOf(someJob), 0
		for _, st := range shownStates {
			if _, ok := row.Tasks[st.String()]; !ok {
				t.Errorf("%s is not shown", st)
			}
		}
		for k, n := range row.Tasks {
			sum += n
			if n != want[k] {
				t.Errorf("%s: %d, want %d", k, n, want[k])
			}
		}
		if sum != 6 {
			t.Errorf("%v adds up to %d", row.Tasks, sum)
		}
	}
	check(map[string]int{"pending": 6})
	index := s.assign(someJob, a, 1, 4)
	check(map[string]int{"pending": 2, "assigned": 4})
	s.report(a, 1, running(1, index), complete(2, index))
	check(map[string]int{"pending": 2, "assigned": 2, "running": 1, "complete": 1})
	s.settle(a, complete(2, index))
	check(map[string]int{"pending": 2, "assigned": 2, "running": 1, "complete": 1})
	s.cfg.Replica.Read(func(st *ledger.State) { // the table read a moment before the ledger says more than is open
		j, _ := st.Job(someJob)
		row := jobRow(j, map[taskstate.State]int{taskstate.Running: 100})
		if row.Tasks["running"] != 3 || row.Tasks["assigned"] != 0 {
			t.Errorf("%v", row.Tasks)
		}
	})
	s.write(ledger.Command{Cancel: &ledger.Cancel{Job: someJob, Reason: "by me"}})
	check(map[string]int{"shutdown": 2, "assigned": 2, "running": 1, "complete": 1})
	if row := s.rowOf(someJob); row.Cancelled != "by me" || row.State != "running" {
		t.Errorf("%+v", row)
	}
}

func TestATasksRowIsItsNewestReportUntilItsEndIsDecided(t *testing.T) {
	s := newScripted(t)
	a := s.newAuthor()
	s.take(someJob, "job", s.self, 3)
	row := func(slot int) api.Task {
		t.Helper()
		rows, err := s.taskRows(someJob, nil)
		if err != nil || len(rows) != 3 {
			t.Fatal(rows, err)
		}
		return rows[slot-1]
	}
	if r := row(3); r.State != "pending" || r.ID != "k3v5q7x2ab.3.1" || r.Attempt != 1 || r.Desired != "complete" || r.ExitCode != nil || r.Peer != "" {
		t.Errorf("%+v", r)
	}
	index := s.assign(someJob, a, 1, 2)
	if r := row(1); r.State != "assigned" || r.Peer != a.id || r.At.IsZero() {
		t.Errorf("%+v", r)
	}
	s.report(a, 1, running(1, index))
	if r := row(1); r.State != "running" || r.ExitCode != nil || r.Final {
		t.Errorf("%+v", r)
	}
	end := complete(1, index)
	end.State, end.Exit, end.Reason, end.Message = taskstate.Failed, 3, taskstate.ReasonExit, "exit code 3"
	s.report(a, 2, end)
	if r := row(1); r.State != "failed" || r.Final {
		t.Errorf("an end that nobody has decided on yet: %+v", r)
	}
	s.settle(a, end)
	if r := row(1); !r.Final || r.State != "failed" || *r.ExitCode != 3 || r.Reason != "exit" || r.Message != "exit code 3" || r.At.UnixMilli() != 2000 {
		t.Errorf("%+v", r)
	}
	s.write(ledger.Command{Supersede: &ledger.Supersede{Task: taskstate.Task(someJob, 2, 1), Reason: taskstate.ReasonUnreachable, Again: true}})
	if r := row(2); r.State != "pending" || r.Attempt != 2 || r.Peer != "" {
		t.Errorf("%+v", r)
	}
	s.write(ledger.Command{Cancel: &ledger.Cancel{Job: someJob}})
	if r := row(3); r.State != "shutdown" || r.Desired != "shutdown" || r.Reason != "cancelled" {
		t.Errorf("%+v", r)
	}
	if _, err := s.taskRows("nosuchjob", nil); api.AsError(err).Code != api.NotFound {
		t.Error(err)
	}
}

func TestARowSaysWhatIsKeptOfATaskAndByWhom(t *testing.T) {
	s := newScripted(t)
	a := s.newAuthor()
	j := noopJob("job", 3, 0)
	s.write(ledger.Command{Register: &ledger.Register{Peer: a.id, Incarnation: a.inc, Name: "wren"}})
	j.ID, j.Submitter, j.Outputs = someJob, s.self, &taskstate.Outputs{Globs: []string{"*"}}
	s.write(ledger.Command{Submit: &ledger.Submit{Job: j}})
	index := s.assign(someJob, a, 1, 3)
	saving := taskstate.Status{Task: taskstate.Task(someJob, 1, 1), Seq: 1, State: taskstate.Saving, Index: index, At: 1000, Took: 50}
	whole, part := complete(2, index), complete(3, index)
	whole.Saved = &taskstate.Saved{Root: [32]byte{1}, Logs: [32]byte{2}, Bytes: 9, Files: 2, Keepers: []taskstate.PeerID{a.id, s.self}, Keep: 2}
	part.State, part.Exit, part.Reason = taskstate.Failed, 3, taskstate.ReasonExit
	part.Saved = &taskstate.Saved{Logs: [32]byte{2}, Keepers: []taskstate.PeerID{a.id}, Keep: 1}
	s.report(a, 1, saving, whole, part)
	if row := s.rowOf(someJob); row.Tasks["saving"] != 1 || row.State != "running" {
		t.Errorf("%+v", row)
	}
	look := func() []api.Task {
		t.Helper()
		rows, err := s.taskRows(someJob, nil)
		if err != nil || len(rows) != 3 {
			t.Fatal(rows, err)
		}
		return rows
	}
	for _, when := range []string{"reported", "decided"} { // the second time the ledger has them
		rows := look()
		if r := rows[0]; r.State != "saving" || r.Output != nil || r.ExitCode != nil || r.Took != 0.05 {
			t.Errorf("%s: %+v", when, r)
		}
		o := rows[1].Output
		if o == nil || o.Ref.String() != whole.Saved.Root.String()+"/" || o.Logs.String() != whole.Saved.Logs.String()+"/" || o.Copies != 2 || o.Keep != 2 || o.Files != 2 || o.Bytes != 9 || o.Partial {
			t.Errorf("%s: %+v", when, o)
		} else if o.Keepers[0] != (api.Keeper{Peer: a.id, Name: "wren"}) || o.Keepers[1].Peer != s.self {
			t.Errorf("%s: keepers %+v", when, o.Keepers)
		}
		if o := rows[2].Output; o == nil || !o.Partial || o.Ref != nil || o.Copies != 1 {
			t.Errorf("%s: of the one that failed %+v", when, o)
		}
		if when == "reported" {
			s.settle(a, whole)
			s.settle(a, part)
		}
	}
}

func TestAHeldJobsRowSaysHeldAndPending(t *testing.T) {
	j := noopJob("held", 4, 0)
	j.ID = someJob
	row := HeldRow(Held{Since: 1000, Job: j}, taskstate.Pending)
	if row.State != "held" || row.Tasks["pending"] != 4 || row.Over() || row.Submitted.UnixMilli() != 1000 {
		t.Fatalf("%+v", row)
	}
	r := taskRow(&j, ledger.SlotRecord{Slot: 2}, 0, nil, false)
	if r.ID != "k3v5q7x2ab.2.1" || r.State != "pending" {
		t.Fatalf("%+v", r)
	}
}

// What `peer jobs` counts is what `peer tasks` lists, state by state, whatever happens to a job.
func TestTheCountsOfAJobAreThoseOfItsTasks(t *testing.T) {
	s := newScripted(t)
	a := s.newAuthor()
	life, number := 0, uint64(0)
	try := func(c ledger.Command) { // it may be refused
		if _, _, err := s.memory.Propose(t.Context(), []ledger.Command{c}); err != nil {
			t.Fatal(err)
		}
		s.follow()
	}
	rapid.Check(t, func(rt *rapid.T) {
		life++
		id := taskstate.JobID(fmt.Sprintf("job%d", life))
		j := noopJob("", rapid.IntRange(1, 6).Draw(rt, "count"), 0)
		j.ID, j.Submitter = id, s.self
		j.Type = rapid.SampledFrom([]taskstate.JobType{taskstate.BatchJob, taskstate.ServiceJob, taskstate.GlobalJob}).Draw(rt, "type")
		if j.Type != taskstate.BatchJob {
			j.Name, j.Version = string(id), 1
		}
		if j.Type == taskstate.GlobalJob {
			j.Count = 0
		}
		s.write(ledger.Command{Submit: &ledger.Submit{Job: j}})
		slot := func(which func(ledger.SlotRecord) bool) (r ledger.SlotRecord, ok bool) {
			var all []ledger.SlotRecord
			s.cfg.Replica.Read(func(st *ledger.State) {
				job, _ := st.Job(id)
				for n := 1; n <= job.Slots(); n++ {
					if r := job.Slot(n); which(r) {
						all = append(all, r)
					}
				}
			})
			if len(all) == 0 {
				return r, false
			}
			return rapid.SampledFrom(all).Draw(rt, "slot"), true
		}
		open := func(r ledger.SlotRecord) bool { return r.Open }
		any := func(ledger.SlotRecord) bool { return true }
		status := func(r ledger.SlotRecord, states ...taskstate.State) taskstate.Status {
			st := taskstate.Status{Task: taskstate.Task(id, r.Slot, r.Attempt), Seq: 1, Index: r.Index, At: 1500, Exit: taskstate.NoExit}
			st.State = rapid.SampledFrom(states).Draw(rt, "state")
			return st
		}
		rt.Repeat(map[string]func(*rapid.T){
			"assign": func(*rapid.T) {
				if r, ok := slot(ledger.SlotRecord.Pending); ok {
					try(ledger.Command{Assign: &ledger.Assign{Job: id, Peer: a.id, Incarnation: a.inc, Version: j.Version, Slots: []ledger.Slots{{First: r.Slot, N: 1, Attempt: max(r.Attempt, 1)}}}})
				}
			},
			"report": func(*rapid.T) {
				if r, ok := slot(open); ok {
					number++
					s.report(a, number, status(r, taskstate.Accepted, taskstate.Preparing, taskstate.Running, taskstate.Saving, taskstate.Complete, taskstate.Failed))
				}
			},
			"settle": func(*rapid.T) {
				if r, ok := slot(open); ok {
					st := status(r, taskstate.Complete, taskstate.Failed, taskstate.Rejected, taskstate.Shutdown, taskstate.Orphaned)
					try(ledger.Command{Settle: &ledger.Settle{Peer: a.id, Incarnation: a.inc, Statuses: []taskstate.Status{st}}})
				}
			},
			"lose": func(*rapid.T) {
				if r, ok := slot(open); ok {
					try(ledger.Command{Supersede: &ledger.Supersede{Task: taskstate.Task(id, r.Slot, r.Attempt), Reason: taskstate.ReasonUnreachable, Again: true}})
				}
			},
			"renew": func(*rapid.T) {
				if r, ok := slot(any); ok {
					try(ledger.Command{Renew: &ledger.Renew{Job: id, Slots: []ledger.Slots{{First: r.Slot, N: 1, Attempt: r.Attempt}}, Reason: taskstate.ReasonMoved}})
				}
			},
			"retire": func(*rapid.T) {
				if r, ok := slot(any); ok {
					try(ledger.Command{Retire: &ledger.Retire{Job: id, Slots: []ledger.Slots{{First: r.Slot, N: 1, Attempt: r.Attempt}}, Reason: taskstate.ReasonScaled}})
				}
			},
			"grow": func(*rapid.T) {
				if j.Type == taskstate.GlobalJob {
					try(ledger.Command{Grow: &ledger.Grow{Job: id, Peers: []taskstate.PeerID{a.id}}})
					return
				}
				try(ledger.Command{Grow: &ledger.Grow{Job: id, N: 1}})
			},
			"cancel": func(*rapid.T) { try(ledger.Command{Cancel: &ledger.Cancel{Job: id, Reason: "by me"}}) },
			"": func(rt *rapid.T) {
				rows, err := s.taskRows(id, nil)
				if err != nil {
					rt.Fatal(err)
				}
				listed, row := map[string]int{}, s.rowOf(id)
				for _, r := range rows {
					listed[r.State]++
				}
				for state, n := range row.Tasks {
					if n != listed[state] {
						rt.Fatalf("%d %s, and of the tasks %v", n, state, listed)
					}
					delete(listed, state)
				}
				if len(listed) > 0 {
					rt.Fatalf("not counted: %v", listed)
				}
			},
		})
	})
}

func TestJobsAreListedAsFarAsTheyAreAskedFor(t *testing.T) {
	s := newScripted(t)
	j := noopJob("held", 1, 0)
	j.ID = "heldheldhe"
	s.held = append(s.held, Held{Since: now(), Job: j})
	var ids []taskstate.JobID
	for i := range 6 {
		id := taskstate.JobID(fmt.Sprintf("job%d567890", i))
		ids = append(ids, id)
		s.take(id, fmt.Sprint("job", i), s.self, 1)
	}
	s.write(ledger.Command{Cancel: &ledger.Cancel{Job: ids[0]}})
	s.write(ledger.Command{Cancel: &ledger.Cancel{Job: ids[3]}})
	ended := s.rowOf(ids[0]).Ended
	for name, c := range map[string]struct {
		q    api.JobQuery
		want string
		all  int
	}{
		"all":                    {want: "[held job5 job4 job3 job2 job1 job0]"},
		"the newest":             {q: api.JobQuery{Limit: 3}, want: "[held job5 job4]", all: 7},
		"of a state":             {q: api.JobQuery{States: []string{"cancelled", "failed"}}, want: "[job3 job0]"},
		"the newest of a state":  {q: api.JobQuery{States: []string{"pending"}, Limit: 1}, want: "[job5]", all: 4},
		"held":                   {q: api.JobQuery{States: []string{"held"}}, want: "[held]"},
		"since before all ended": {q: api.JobQuery{Since: ended.Add(-time.Second), Limit: 9}, want: "[held job5 job4 job3 job2 job1 job0]", all: 7},
		"since all ended":        {q: api.JobQuery{Since: time.Now().Add(time.Hour)}, want: "[held job5 job4 job2 job1]"},
	} {
		js, err := s.SomeJobs(t.Context(), c.q)
		var names []string
		for _, j := range js.Jobs {
			names = append(names, j.Name)
		}
		if got := fmt.Sprint(names); err != nil || got != c.want || js.All != c.all {
			t.Errorf("%s: %s of %d, want %s of %d; %v", name, got, js.All, c.want, c.all, err)
		}
	}
}
