package view

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// specOf is what a job runs and needs, for a glance.
func (v *View) specOf(j *taskstate.Job) *api.Spec {
	s := &api.Spec{
		Unknown: j.Unknown(v.Who.Called),
		CPUs:    float64(j.Resources.MilliCPU) / 1000, Memory: j.Resources.Memory, Disk: j.Resources.Disk, Others: j.Resources.Others.Map(), Constraints: j.Constraints,
	}
	if p := j.Run.Process; p != nil {
		s.Command, s.Shell, s.Script, s.Dir, s.Env = p.Command, p.Shell, len(p.Script), p.Dir, slices.Sorted(maps.Keys(p.Env))
	}
	s.Stdin = j.Stdin
	if j.Saves() && j.Withheld == nil {
		s.Copies = j.Copies()
	}
	for _, in := range j.Inputs {
		s.Inputs = append(s.Inputs, in.Name)
	}
	if j.Secrets != nil {
		s.Secrets = j.Secrets.Names
	}
	if j.Outputs != nil {
		s.Outputs, s.Folders = j.Outputs.Globs, string(j.Folders())
	}
	if j.Run.Noop != nil {
		s.Noop = float64(j.Run.Noop.Duration) / 1000
	}
	return s
}

const commandShown = 80 // bytes of a command in a list of jobs

// commandOf is the beginning of what a job runs; "" where that is not known.
func commandOf(j *taskstate.Job) string {
	if j.Withheld != nil {
		return ""
	}
	s := api.Spec{}
	if p := j.Run.Process; p != nil {
		s.Shell, s.Script = p.Shell, len(p.Script)
		for _, word := range p.Command[:min(len(p.Command), commandShown)] {
			s.Command = append(s.Command, taskstate.ClipText(word, commandShown))
		}
	} else if j.Run.Noop != nil {
		s.Noop = float64(j.Run.Noop.Duration) / 1000
	}
	return taskstate.ClipText(strings.Join(strings.Fields(s.Line()), " "), commandShown)
}

// jobSpec is a job as it is now, also one that is held here.
func (v *View) jobSpec(ctx context.Context, id string) (job *taskstate.Job, err error) {
	found, held, err := v.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	if held != nil {
		return &held.Job, nil
	}
	v.cfg.Replica.Read(func(s *ledger.State) {
		if r, ok := s.Job(found); ok {
			job = r.Job()
		}
	})
	if job == nil {
		return nil, ErrNoJob(id)
	}
	return job, nil
}

// JobFile implements api.JobBackend.
func (v *View) JobFile(ctx context.Context, id string) (api.JobFile, error) {
	job, err := v.jobSpec(ctx, id)
	if err != nil {
		return api.JobFile{}, err
	}
	if why := job.Unknown(v.Who.Called); why != "" {
		return api.JobFile{}, api.Errorf(api.Refused, "job %s: %s", job.ID, why)
	}
	b, err := jobfile.Format(job)
	if err != nil {
		return api.JobFile{}, api.Errorf(api.Conflict, "job %s cannot be written as a file: %v", job.ID, err)
	}
	return api.JobFile{ID: string(job.ID), File: string(b)}, nil
}
