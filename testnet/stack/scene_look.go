package stack

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// Coordinator is who coordinates, as a peer sees it; -1: it knows of nobody, or is not up.
func (s *Scene) Coordinator(k int) int {
	if !s.Up(k) {
		return -1
	}
	ps, err := s.node(k).Peers(context.Background())
	if err != nil {
		return -1
	}
	for _, p := range ps.Peers {
		if p.ID == ps.Coordinator {
			return s.w.named(p.Name).n
		}
	}
	return -1
}

func (s *Scene) node(k int) api.Backend { return s.w.peers[k].usable().node.Backend() }

// Up tells whether a peer is ready to be asked.
func (s *Scene) Up(k int) bool { return s.w.peers[k].usable() != nil }

// Tasks are a job's, as a peer knows them; none if it does not know the job.
func (s *Scene) Tasks(k int, id taskstate.JobID) []api.Task {
	ts, err := s.node(k).Tasks(context.Background(), string(id))
	if err != nil {
		return nil
	}
	return ts.Tasks
}

// Running tells which attempt of a job's slots runs on which machine, in truth.
func (s *Scene) Running(id taskstate.JobID) map[taskstate.TaskID]int {
	out := map[taskstate.TaskID]int{}
	for _, p := range s.w.peers {
		tasks, _ := p.running()
		for _, t := range tasks {
			if t.Job == id {
				out[t] = p.n
			}
		}
	}
	return out
}

// Apart says in what peers differ: each that is not down must be up, list all of those as ready,
// know every job that was handed in, and have the same jobs and tasks as the others. "" if they do
// not.
func (s *Scene) Apart() string {
	var first []api.Job
	var up []*life
	for _, p := range s.w.peers {
		if p.downs > 0 {
			continue
		}
		l := p.usable()
		if l == nil {
			return p.name + " is not up"
		}
		up = append(up, l)
	}
	for i, l := range up {
		if why := s.w.unready(l); why != "" {
			return why
		}
		jobs, err := l.node.Backend().Jobs(context.Background())
		if err != nil {
			return fmt.Sprintf("%s does not list its jobs: %v", l.session, err)
		}
		slices.SortFunc(jobs.Jobs, func(a, b api.Job) int { return cmp.Compare(a.ID, b.ID) })
		if i == 0 {
			if first = jobs.Jobs; len(first) != len(s.jobs) {
				return fmt.Sprintf("%s knows %d jobs of %d", l.session, len(first), len(s.jobs))
			}
		} else if why := unlike(first, jobs.Jobs); why != "" {
			return fmt.Sprintf("%s and %s do not agree: %s", up[0].session, l.session, why)
		}
	}
	return unequal(up, first)
}

// Voters are those who vote, by a peer's account.
func (s *Scene) Voters(k int) (voters []int) {
	st, err := s.node(k).Status(context.Background())
	if err != nil {
		return nil
	}
	s.w.check.mu.Lock()
	defer s.w.check.mu.Unlock()
	for _, id := range st.Voters {
		if p := s.w.named(s.w.check.names[id]); p != nil {
			voters = append(voters, p.n)
		}
	}
	return voters
}

// Head is how much of the ledger a peer has applied, 0 if it cannot say.
func (s *Scene) Head(k int) uint64 {
	if !s.Up(k) {
		return 0
	}
	st, err := s.node(k).Status(context.Background())
	if err != nil {
		return 0
	}
	return st.Index
}

// Over says which of the jobs that were handed in a peer does not know to be over.
func (s *Scene) Over(k int) string {
	jobs, err := s.node(k).Jobs(context.Background())
	if err != nil {
		return err.Error()
	}
	over := map[taskstate.JobID]bool{}
	for _, j := range jobs.Jobs {
		over[taskstate.JobID(j.ID)] = j.Over()
	}
	var open []taskstate.JobID
	for _, id := range s.jobs {
		if !over[id] {
			open = append(open, id)
		}
	}
	return names(open)
}
