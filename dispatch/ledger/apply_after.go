package ledger

import (
	"slices"

	"covey/taskstate"
)

// follow puts a new job behind those it comes after: it waits for the ones that go on, and is cut at once if one has ended otherwise
// than complete.
func (s *State) follow(j *JobRecord) {
	for _, id := range j.job.After {
		before := s.jobs[id]
		switch {
		case before.over && before.State() != taskstate.Complete:
			s.cut(j, taskstate.ReasonAfter, before.epitaph())
			return
		case !before.over && !slices.Contains(j.blocked, id):
			j.blocked = append(j.blocked, id)
			s.waiters[id] = append(s.waiters[id], j)
		}
	}
}

// proceed tells those who wait for a job that it is over.
func (s *State) proceed(j *JobRecord) {
	id := j.job.ID
	waiting := s.waiters[id]
	delete(s.waiters, id)
	complete := j.State() == taskstate.Complete
	for _, w := range waiting {
		w.blocked = slices.DeleteFunc(w.blocked, func(x taskstate.JobID) bool { return x == id })
		switch {
		case w.cancelled:
		case !complete:
			s.cut(w, taskstate.ReasonAfter, j.epitaph())
		case len(w.blocked) == 0:
			w.blocked = nil
			s.effects.released = append(s.effects.released, w.job.ID)
		}
	}
}

// cut cancels a job as a consequence of something else.
func (s *State) cut(j *JobRecord, why taskstate.Reason, message string) {
	s.effects.cut = append(s.effects.cut, j.job.ID)
	s.stop(j, why, message)
}

// unblock takes a job out of the lists of those it waits for.
func (s *State) unblock(j *JobRecord) {
	for _, id := range j.blocked {
		rest := slices.DeleteFunc(s.waiters[id], func(x *JobRecord) bool { return x == j })
		if len(rest) == 0 {
			delete(s.waiters, id)
		} else {
			s.waiters[id] = rest
		}
	}
	j.blocked = nil
}

// epitaph says to whom it concerns how the job ended.
func (j *JobRecord) epitaph() string {
	name := string(j.job.ID)
	if j.job.Name != "" {
		name = j.job.Name + " (" + name + ")"
	}
	how := "failed"
	switch {
	case j.State() != taskstate.Shutdown:
	case j.cancelled:
		how = "was cancelled"
	default:
		how = "was stopped"
	}
	return "after: job " + name + " " + how
}
