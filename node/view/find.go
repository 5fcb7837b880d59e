package view

import (
	"context"
	"slices"
	"strings"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// Find is resolve, and where this peer knows no such job it first catches up with the coordinator:
// a job that was accepted through another peer a moment ago is found.
func (v *View) Find(ctx context.Context, id string) (taskstate.JobID, *Held, error) {
	job, held, err := v.resolve(id)
	if err == nil || api.AsError(err).Code != api.NotFound {
		return job, held, err
	}
	if f := v.AskCluster(ctx, ""); f != nil {
		wait, cancel := context.WithTimeout(ctx, clusterTimeout)
		defer cancel()
		if v.applied.reach(wait, f.Index) == nil {
			job, held, err = v.resolve(id)
		}
	}
	if err != nil && api.AsError(err).Code == api.NotFound {
		err = v.notHere(id, err)
	}
	return job, held, err
}

// FindTask finds the job, and the slot and attempt, that a word means; find is Find or FindLive.
func (v *View) FindTask(ctx context.Context, word string, find func(context.Context, string) (taskstate.JobID, *Held, error)) (id taskstate.JobID, slot, attempt int, held *Held, err error) {
	s, err := api.ParseSubject(word)
	if err == nil {
		id, held, err = find(ctx, s.Job)
	}
	if err != nil {
		return id, 0, 0, held, err
	}
	job, slots := (*taskstate.Job)(nil), 0
	if held != nil {
		job, slots = &held.Job, held.Job.Count
	}
	v.cfg.Replica.Read(func(state *ledger.State) {
		if j, ok := state.Job(id); ok {
			job, slots = j.Job(), j.Slots()
		}
	})
	if job == nil {
		return id, 0, 0, held, ErrNoJob(s.Job)
	}
	slot, attempt, err = s.Find(job.Folders(), slots, func(slot int) string { return job.RawItem(job.Item(slot)) })
	return id, slot, attempt, held, err
}

// held are the jobs that wait here for a coordinator, the newest first. One that the ledger has was
// accepted: it was handed in again under its id, and there is nothing to wait for.
func (v *View) held() []Held {
	held := v.cfg.Held()
	if len(held) == 0 {
		return nil
	}
	slices.Reverse(held)
	v.cfg.Replica.Read(func(s *ledger.State) {
		held = slices.DeleteFunc(held, func(h Held) bool {
			_, accepted := s.Job(h.Job.ID)
			return accepted
		})
	})
	return held
}

// resolve finds the job a person means: `last`, an id, the newest of a name, a unique prefix. held
// is set when it waits here for a coordinator.
func (v *View) resolve(id string) (taskstate.JobID, *Held, error) {
	held := v.held()
	if id == "last" {
		return v.lastJob(held)
	}
	for i, h := range held {
		if string(h.Job.ID) == id {
			return h.Job.ID, &held[i], nil
		}
	}
	var found []taskstate.JobID
	named := false
	v.cfg.Replica.Read(func(s *ledger.State) {
		for _, j := range s.FindJobs(id) {
			found = append(found, j.Job().ID)
			named = j.Job().Name == id
		}
	})
	switch {
	case len(found) == 1, len(found) > 1 && named:
		return found[0], nil, nil
	case len(found) > 1:
		return "", nil, api.Errorf(api.Conflict, "%q begins the ids of %d jobs (%s, %s, …); use more of it", id, len(found), found[0], found[1])
	}
	for i, h := range held {
		if id != "" && (h.Job.Name == id || strings.HasPrefix(string(h.Job.ID), id)) {
			return h.Job.ID, &held[i], nil
		}
	}
	return "", nil, ErrNoJob(id)
}

// lastJob is the newest job submitted through this peer.
func (v *View) lastJob(held []Held) (taskstate.JobID, *Held, error) {
	if len(held) > 0 {
		return held[0].Job.ID, &held[0], nil
	}
	var id taskstate.JobID
	v.cfg.Replica.Read(func(s *ledger.State) {
		for j := range s.Jobs() {
			if j.Job().Submitter == v.cfg.Self {
				id = j.Job().ID
				return
			}
		}
	})
	if id == "" {
		return "", nil, api.Errorf(api.NotFound, "no job was submitted through this peer yet; see `peer jobs` for those of others")
	}
	return id, nil, nil
}

// FindLive finds the job that a command means which is for jobs that go on: as Find, but of the
// jobs of one name the one that is not over. A service, global job or schedule outranks the runs it
// started, which have its name. Several others are a Conflict that lists them; where all are over
// it is the newest.
func (v *View) FindLive(ctx context.Context, word string) (taskstate.JobID, *Held, error) {
	job, held, err := v.Find(ctx, word)
	if err != nil || word == "last" || word == string(job) {
		return job, held, err
	}
	var live []taskstate.JobID
	waiting := map[taskstate.JobID]*Held{}
	for _, h := range v.held() {
		if h.Job.Name == word {
			live, waiting[h.Job.ID] = append(live, h.Job.ID), &h
		}
	}
	lasting := taskstate.JobID("")
	v.cfg.Replica.Read(func(s *ledger.State) {
		for _, j := range s.FindJobs(word) {
			if _, over := j.Ended(); over || j.Job().Name != word {
				continue
			}
			live = append(live, j.Job().ID)
			if j.Lasts() || j.Scheduled() {
				lasting = j.Job().ID
			}
		}
	})
	switch {
	case lasting != "":
		return lasting, nil, nil
	case len(live) == 0:
		return job, held, nil
	case len(live) > 1:
		return "", nil, api.Errorf(api.Conflict, "%d jobs named %s go on: %s; type the ids of those you mean", len(live), word, someOf(live))
	}
	return live[0], waiting[live[0]], nil
}

// someOf lists the first few ids.
func someOf(ids []taskstate.JobID) string {
	const most = 8
	var out []string
	for _, id := range ids {
		if len(out) == most {
			return strings.Join(out, " ") + " …"
		}
		out = append(out, string(id))
	}
	return strings.Join(out, " ")
}

// namesOf says how the tasks of a job that the ledger has are named.
func (v *View) namesOf(id taskstate.JobID) func(taskstate.TaskID) string {
	job, err := v.JobOf(id)
	if err != nil {
		return func(taskstate.TaskID) string { return "" }
	}
	return job.Named()
}

// nameTasks says how columns and commands name a job's tasks.
func nameTasks(j *taskstate.Job, tasks []api.Task) []api.Task {
	names := j.Named()
	for i, t := range tasks {
		tasks[i].Named = names(taskstate.Task(j.ID, t.Slot, t.Attempt))
	}
	return tasks
}

// JobOf is a job as the ledger has it.
func (v *View) JobOf(id taskstate.JobID) (job *taskstate.Job, err error) {
	err = ErrNoJob(string(id))
	v.cfg.Replica.Read(func(s *ledger.State) {
		if j, ok := s.Job(id); ok {
			job, err = j.Job(), nil
		}
	})
	return job, err
}
