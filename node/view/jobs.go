package view

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/taskstate"
)

// Jobs implements api.JobBackend.
func (v *View) Jobs(ctx context.Context) (api.Jobs, error) {
	return v.SomeJobs(ctx, api.JobQuery{})
}

// SomeJobs implements api.JobBackend.
func (v *View) SomeJobs(ctx context.Context, q api.JobQuery) (api.Jobs, error) {
	out := api.Jobs{Jobs: []api.Job{}, AsOf: time.Now().UTC()}
	all := 0
	room := func() bool { // for one more that is asked for
		all++
		return q.Limit == 0 || all <= q.Limit
	}
	if q.In("held") {
		for _, h := range v.held() {
			if room() {
				row := HeldRow(h, taskstate.Pending)
				row.Command = commandOf(&h.Job)
				out.Jobs = append(out.Jobs, row)
			}
		}
	}
	if len(out.Jobs) > 0 {
		why := v.Deciders.WhoIsMissing()
		for i := range out.Jobs {
			out.Jobs[i].Waiting = why
		}
	}
	progress := v.progress()
	v.cfg.Replica.Read(func(s *ledger.State) {
		for j := range s.Jobs() {
			at, over := j.Ended()
			if !q.In(j.State().String()) || over && at <= q.Since.UnixMilli() && !q.Since.IsZero() || !room() {
				continue
			}
			row := fullRow(s, j, progress[j.Job().ID])
			row.Command = commandOf(j.Job())
			out.Jobs = append(out.Jobs, row)
		}
	})
	if q.Limit > 0 {
		out.All = all
	}
	v.nameSubmitters(out.Jobs)
	v.explainRows(ctx, out.Jobs)
	return out, nil
}

// nameSubmitters says in the rows of jobs what those are called who submitted them.
func (v *View) nameSubmitters(rows []api.Job) {
	names := map[taskstate.PeerID]string{}
	for i := range rows {
		r := &rows[i]
		if _, known := names[r.Submitter]; !known {
			names[r.Submitter] = v.Who.Name(r.Submitter)
		}
		r.SubmitterName = names[r.Submitter]
	}
}

// explainRows says in the rows of jobs why what waits does, and what cannot be reached: of all of
// them with one question to the coordinator, and none if all jobs are over.
func (v *View) explainRows(ctx context.Context, rows []api.Job) {
	unfinished := func(r api.Job) bool { return !r.Over() && r.State != "held" && r.Schedule == nil }
	if !slices.ContainsFunc(rows, unfinished) {
		return
	}
	f, missing := v.askClusterFor(ctx, calls.ClusterCall{All: true}), ""
	if f == nil {
		missing = v.Deciders.WhoIsMissing()
	}
	gone := v.awayOf(f)
	for i := range rows {
		if r := &rows[i]; !unfinished(*r) {
			continue
		} else if f != nil {
			v.sayWhy(r, f.Whys[taskstate.JobID(r.ID)], &gone)
		} else {
			v.sayWhy(r, missing, &gone)
		}
	}
}

// sayWhy fills in what explainRows says of one job: why it waits, if any of it does, and what of it
// cannot be reached.
func (v *View) sayWhy(row *api.Job, why string, gone *away) {
	if gone.decides || row.Tasks["pending"] > 0 { // without a coordinator only what waits for one is known to wait
		row.Waiting = why
	}
	if len(gone.since) > 0 {
		said := v.cfg.Table.OfJob(taskstate.JobID(row.ID))
		v.cfg.Replica.Read(func(s *ledger.State) {
			if j, ok := s.Job(taskstate.JobID(row.ID)); ok {
				row.Unreachable = gone.ofJob(j, said)
			}
		})
	}
	v.nameAway(row)
}

func (v *View) progress() map[taskstate.JobID]map[taskstate.State]int {
	out := map[taskstate.JobID]map[taskstate.State]int{}
	for s := range v.cfg.Table.All() {
		m := out[s.Task.Job]
		if m == nil {
			m = map[taskstate.State]int{}
			out[s.Task.Job] = m
		}
		m[s.State]++
	}
	return out
}

// Job implements api.JobBackend.
func (v *View) Job(ctx context.Context, id string) (api.JobAnswer, error) {
	job, held, err := v.Find(ctx, id)
	if err != nil {
		return api.JobAnswer{}, err
	}
	if held != nil {
		row := HeldRow(*held, taskstate.Pending)
		row.Waiting, row.Spec, row.SubmitterName = v.Deciders.WhoIsMissing(), v.specOf(&held.Job), v.Who.Name(row.Submitter)
		return api.JobAnswer{Job: row, AsOf: time.Now().UTC()}, nil
	}
	row, err := v.JobNow(job)
	if err != nil {
		return api.JobAnswer{}, err
	}
	v.explainRow(ctx, &row)
	row.Pace, row.SubmitterName = v.Shapes.pace(job), v.Who.Name(row.Submitter)
	if spec, err := v.jobSpec(ctx, string(job)); err == nil {
		row.Spec = v.specOf(spec)
	}
	if row.Over() && len(v.Who.Admitted()) > 1 { // a peer alone needs no telling
		row.Sole = soleOutput{&v.cfg, v.Who}.of(ctx, job)
	}
	return api.JobAnswer{Job: row, AsOf: time.Now().UTC()}, nil
}

// explainRow is explainRows for one.
func (v *View) explainRow(ctx context.Context, row *api.Job) {
	if row.Over() {
		return
	}
	f, why := v.AskCluster(ctx, taskstate.JobID(row.ID)), ""
	if f != nil {
		why = f.Waiting
	} else {
		why = v.Deciders.WhoIsMissing()
	}
	gone := v.awayOf(f)
	v.sayWhy(row, why, &gone)
}

// JobNow is the row of one job as this peer has it, with nobody asked.
func (v *View) JobNow(id taskstate.JobID) (row api.Job, err error) {
	progress := v.progress()
	err = ErrNoJob(string(id))
	v.cfg.Replica.Read(func(s *ledger.State) {
		if j, ok := s.Job(id); ok {
			row, err = fullRow(s, j, progress[id]), nil
		}
	})
	return row, err
}

// ErrNoJob says that nothing here is called so.
func ErrNoJob(id string) error {
	if strings.Contains(id, ".") { // no job has one in its name
		return api.Errorf(api.NotFound, "no job %q: this is about jobs, and with a dot it would be a task; see `peer jobs`", id)
	}
	return api.Errorf(api.NotFound, "no job %q; see `peer jobs`", id)
}
