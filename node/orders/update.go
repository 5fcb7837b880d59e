package orders

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/view"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// updateTries is how often an update is made again when somebody else's came in between.
const updateTries = 3

// namesake finds the job that a submission is an update of: the service, global or scheduled job of
// that name that goes on. Nil if there is none; one of another kind is a conflict.
func (o *Orders) namesake(job *taskstate.Job) (old *taskstate.Job, err error) {
	if !job.Type.Lasts() && job.Schedule == nil {
		return nil, nil
	}
	o.cfg.Replica.Read(func(s *ledger.State) {
		for _, j := range s.FindJobs(job.Name) {
			_, over := j.Ended()
			_, _, cancelled := j.Cancelled()
			if j.Job().Name == job.Name && (j.Lasts() || j.Scheduled()) && !over && !cancelled {
				old = j.Job()
			}
		}
	})
	if old == nil || old.ID == job.ID {
		return nil, nil
	}
	if old.Type != job.Type || (old.Schedule != nil) != (job.Schedule != nil) {
		return nil, calls.ErrTaken(old.Name, old.ID, kindOf(old))
	}
	return old, nil
}

// kindOf says what a job is, to a person.
func kindOf(j *taskstate.Job) string {
	if j.Schedule != nil {
		return "scheduled"
	}
	return string(j.Type)
}

// resolveAfter puts ids in the place of the names, prefixes and `last` that a person gave for the
// jobs to wait for.
func (o *Orders) resolveAfter(ctx context.Context, job *taskstate.Job) error {
	var ids []taskstate.JobID
	for _, word := range job.After {
		id, _, err := o.cfg.View.Find(ctx, string(word))
		if err == nil && o.foundByAccident(string(word), id) {
			err = view.ErrNoJob(string(word))
		}
		if err != nil {
			return api.Errorf(api.AsError(err).Code, "after: %v", err)
		}
		if err := o.mayComplete(id); err != nil {
			return err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	job.After = ids
	return nil
}

// resolveFrom puts ids in the place of the words for jobs whose files a job takes as inputs, and
// has it come after them.
func (o *Orders) resolveFrom(ctx context.Context, job *taskstate.Job) error {
	inputs := slices.Clone(job.Inputs) // what was given is the caller's
	for i, in := range inputs {
		if in.From == "" {
			continue
		}
		of := taskstate.Job{After: []taskstate.JobID{in.From}}
		if err := o.resolveAfter(ctx, &of); err != nil {
			e := api.AsError(err)
			return api.Errorf(e.Code, "inputs[%d].from: %s", i, strings.TrimPrefix(e.Message, "after: "))
		}
		id := of.After[0]
		before, err := o.cfg.View.JobOf(id)
		switch {
		case err != nil: // held: it comes to the ledger as it is
		case before.Outputs == nil:
			return api.Errorf(api.Usage, "inputs[%d].from: job %s keeps no files; say which with outputs: in its file, or with --out", i, in.From)
		case in.SameSlot && before.Count != job.Count:
			return api.Errorf(api.Usage, "inputs[%d].slot: job %s has %d tasks and this one %d, so they have not the same slots", i, in.From, before.Count, job.Count)
		}
		inputs[i].From = id
		if !slices.Contains(job.After, id) {
			job.After = append(slices.Clip(job.After), id)
		}
	}
	job.Inputs = inputs
	return nil
}

// shortPrefix is how much of an id it takes at least to mean a job to wait for.
const shortPrefix = 4

// foundByAccident tells whether a word only happens to begin an id. Who types `after: [db]` means a
// job of that name, and with some hundred jobs there is one whose id begins so: waiting for that
// would be wrong without anybody being told.
func (o *Orders) foundByAccident(word string, id taskstate.JobID) bool {
	if len(word) >= shortPrefix {
		return false
	}
	j, err := o.cfg.View.JobOf(id)
	return err == nil && j.Name != word
}

// mayComplete refuses to wait for what never will be complete: somebody ends it, and that takes
// along what waits for it.
func (o *Orders) mayComplete(id taskstate.JobID) error {
	before, err := o.cfg.View.JobOf(id)
	if err != nil {
		return nil //nolint:nilerr // held: it comes to the ledger as it is
	}
	forever := before.Type.Lasts() && before.Restart != nil && before.Restart.Condition == taskstate.RestartAny
	if !forever && before.Schedule == nil {
		return nil
	}
	return api.Errorf(api.Usage, "after: %s is a %s job, which runs until it is cancelled and is never complete; wait for a batch job, or take it out", before.Name, kindOf(before))
}

// update makes what build makes of a job its wanted spec. If somebody else's update comes in
// between, it is made on top of that.
func (o *Orders) update(ctx context.Context, old *taskstate.Job, build func(old *taskstate.Job) taskstate.Job) (api.Submitted, error) {
	if err := api.MayChange(ctx, old.Submitter); err != nil {
		return api.Submitted{}, err
	}
	var meant []taskstate.Change
	for tries := 1; ; tries++ {
		spec := build(old)
		out := api.Submitted{ID: string(old.ID), Updated: true, Version: old.Version, Changes: asUpdate(&spec, old)}
		if len(out.Changes) == 0 {
			out.Changes = meant // it was made, and only the answer was lost
			return out, nil
		}
		meant = out.Changes
		if err := o.own(ctx, &spec); err != nil {
			return out, err
		}
		if why := spec.Unknown(o.cfg.Who.Called); why != "" {
			return out, api.Errorf(api.Refused, "job %s: %s", spec.ID, why)
		}
		if err := jobfile.Validate(&spec); err != nil {
			return out, api.Errorf(api.Usage, "%v", err)
		}
		if err := o.sign(&spec, old.Order); err != nil {
			return out, err
		}
		r, err := o.decide(ctx, calls.Call{Update: &ledger.Update{Job: spec, From: old.Version}}, "the job was not updated")
		switch {
		case err == nil:
			out.Version = r.Version
			return out, nil
		case !r.Moved || tries == updateTries:
			return out, err
		}
		if old, err = o.cfg.View.JobOf(old.ID); err != nil {
			return out, err
		}
	}
}

// submitUpdate makes a submission that was refused an update, if the refusal is that this peer had
// not heard of the job with that name.
func (o *Orders) submitUpdate(ctx context.Context, job *taskstate.Job, values map[string][]byte, r calls.Reply, refused error) (api.Submitted, error) {
	if r.Job == "" {
		return api.Submitted{}, refused
	}
	try, cancel := context.WithTimeout(ctx, o.acceptTimeout())
	defer cancel()
	_ = o.cfg.View.Reach(try, r.Index)
	old, err := o.namesake(job)
	switch {
	case err != nil:
		return api.Submitted{}, err
	case old == nil:
		return api.Submitted{}, refused
	}
	return o.replace(ctx, job, old, values)
}

// replace makes a submission an update of a job: its secrets are sealed for that one.
func (o *Orders) replace(ctx context.Context, job, old *taskstate.Job, values map[string][]byte) (api.Submitted, error) {
	job.Secrets = nil
	if err := o.seal(ctx, job, old, values); err != nil {
		return api.Submitted{}, err
	}
	return o.update(ctx, old, func(*taskstate.Job) taskstate.Job { return *job })
}

// asUpdate completes a spec to an update of a job, and tells what it changes. What a job waited for
// before it began does not change.
func asUpdate(spec, old *taskstate.Job) []taskstate.Change {
	spec.ID, spec.Version, spec.Submitter, spec.Origin, spec.After = old.ID, old.Version, old.Submitter, old.Origin, old.After
	changes := taskstate.Changes(old, spec)
	for i := range changes {
		changes[i].Restarts = changes[i].Restarts && old.Type.Lasts() // a schedule has no tasks: its next run is as the file says
	}
	return changes
}

// Renew implements api.ChangeBackend.
func (o *Orders) Renew(ctx context.Context, id string) (api.Submitted, error) {
	job, err := o.liveJob(ctx, id)
	if err != nil {
		return api.Submitted{}, err
	}
	for tries := 1; ; tries++ {
		spec := *job
		if err := o.own(ctx, &spec); err != nil {
			return api.Submitted{}, err
		}
		if err := o.sign(&spec, job.Order); err != nil {
			return api.Submitted{}, err
		}
		r, err := o.decide(ctx, calls.Call{Update: &ledger.Update{Job: spec, From: job.Version}}, "the order was not renewed")
		switch {
		case err == nil:
			until := time.UnixMilli(spec.Order.Until).UTC()
			return api.Submitted{ID: string(spec.ID), Updated: true, Version: spec.Version, OrderUntil: &until}, nil
		case !r.Moved || tries == updateTries:
			return api.Submitted{}, err
		}
		if job, err = o.cfg.View.JobOf(job.ID); err != nil {
			return api.Submitted{}, err
		}
	}
}

// Scale implements api.ChangeBackend.
func (o *Orders) Scale(ctx context.Context, id string, r api.Scale) (api.Submitted, error) {
	old, err := o.liveJob(ctx, id)
	switch {
	case err != nil:
		return api.Submitted{}, err
	case old.Type == taskstate.GlobalJob:
		return api.Submitted{}, api.Errorf(api.Usage, "global job %s has one task on each peer that fits; constraints choose the peers", old.Name)
	case !old.Type.Lasts():
		return api.Submitted{}, api.Errorf(api.Usage, "%s job %s has as many tasks as it was submitted with; only a service is scaled", kindOf(old), old.Name)
	}
	return o.update(ctx, old, func(old *taskstate.Job) taskstate.Job {
		spec := *old
		spec.Count = r.Count
		return spec
	})
}

// decidedJob finds a job that the ledger has.
func (o *Orders) decidedJob(ctx context.Context, id string) (*taskstate.Job, error) {
	return o.decided(o.cfg.View.Find(ctx, id))
}

// liveJob finds a job that the ledger has, of several of one name the one that goes on.
func (o *Orders) liveJob(ctx context.Context, id string) (*taskstate.Job, error) {
	return o.decided(o.cfg.View.FindLive(ctx, id))
}

func (o *Orders) decided(job taskstate.JobID, held *view.Held, err error) (*taskstate.Job, error) {
	if err != nil {
		return nil, err
	}
	if held != nil {
		return nil, api.Errorf(api.Conflict, "job %s is held here until there is a coordinator: %s", job, o.cfg.Deciders.WhoIsMissing())
	}
	return o.cfg.View.JobOf(job)
}

// Rollout implements api.ChangeBackend.
func (o *Orders) Rollout(ctx context.Context, id string, q api.RolloutRequest) (api.JobAnswer, error) {
	state, ok := map[string]taskstate.RolloutState{
		api.PauseRollout: taskstate.RolloutPaused, api.ContinueRollout: taskstate.RolloutUpdating, api.RollBack: taskstate.RolloutRollingBack,
	}[q.Action]
	if !ok {
		return api.JobAnswer{}, api.Errorf(api.Usage, "rollout %q: expected pause, continue or rollback", q.Action)
	}
	job, err := o.decidedJob(ctx, id)
	if err != nil {
		return api.JobAnswer{}, err
	}
	if !job.Type.Lasts() {
		return api.JobAnswer{}, api.Errorf(api.Usage, "%s job %s has no versions; only service and global jobs are rolled out", kindOf(job), job.Name)
	}
	message := fmt.Sprintf("%s by %s", q.Action, o.cfg.Who.Called(o.cfg.Self))
	c := calls.Call{Rollout: &ledger.Rollout{Job: job.ID, State: state, Message: message, Version: job.Version}}
	if _, err := o.decide(ctx, c, "nothing was changed"); err != nil {
		return api.JobAnswer{}, err
	}
	return o.cfg.View.Job(ctx, string(job.ID))
}

// Preview implements api.ChangeBackend.
func (o *Orders) Preview(ctx context.Context, s api.Submit) (api.Preview, error) {
	job := s.Job
	job.Submitter = o.cfg.Self
	if job.ID == "" {
		job.ID = taskstate.NewJobID()
	}
	if err := o.seal(ctx, &job, nil, s.Secrets); err != nil {
		return api.Preview{}, err
	}
	if err := jobfile.Validate(&job); err != nil {
		return api.Preview{}, api.Errorf(api.Usage, "%v", err)
	}
	if err := o.resolveFrom(ctx, &job); err != nil {
		return api.Preview{}, err
	}
	old, err := o.namesake(&job)
	if err == nil && old != nil {
		job.Secrets = nil
		err = o.seal(ctx, &job, old, s.Secrets)
	}
	if err == nil && old == nil { // an update goes on waiting for what its job waited for
		err = o.resolveAfter(ctx, &job)
	}
	if err != nil {
		return api.Preview{}, err
	}
	out := api.Preview{Places: []api.Place{}, Owners: []api.Answer{}}
	if old != nil {
		out.ID, out.Update, out.Version = string(old.ID), true, old.Version
		out.Changes = asUpdate(&job, old)
		if old.Type.Lasts() && taskstate.Restarts(old, &job) {
			out.Version++
		}
	}
	r, err := o.decide(ctx, calls.Call{Preview: &calls.PreviewCall{Job: job}}, "only a coordinator can tell where tasks would go")
	if err != nil {
		return api.Preview{}, err
	}
	o.fillPreview(&out, &job, r)
	return out, nil
}

func (o *Orders) fillPreview(out *api.Preview, job *taskstate.Job, r calls.Reply) {
	out.AsOf = time.Now().UTC()
	if p := r.Preview; p != nil {
		out.Tasks, out.Queued, out.Waiting, out.Reason = p.Tasks, p.Queued, p.Waiting, p.Reason
		if p.Crowded {
			out.Notes = append(out.Notes, "no peer has room for another task beside those that run; "+coordinator.CrowdedHint)
		}
		for _, x := range p.Places {
			out.Places = append(out.Places, api.Place{Peer: x.Peer, PeerName: o.cfg.Who.Name(x.Peer), Tasks: x.Tasks})
		}
		for _, x := range p.Owners {
			out.Owners = append(out.Owners, api.Answer{Peer: x.Peer, PeerName: o.cfg.Who.Name(x.Peer), Allowed: x.No == "", Reason: x.No})
		}
		for _, x := range p.Refused {
			out.Refused = append(out.Refused, api.Refusal{Reason: x.Text, Peers: x.Peers})
		}
		said := []*string{&out.Reason}
		for i := range out.Owners {
			said = append(said, &out.Owners[i].Reason)
		}
		for i := range out.Refused {
			said = append(said, &out.Refused[i].Reason)
		}
		o.cfg.Who.In(said...)
	}
	var names []string
	for _, b := range o.cfg.View.Predecessors(job) {
		if b.State != taskstate.Complete.String() {
			names = append(names, strings.TrimSpace(b.Name+" "+b.ID))
		}
	}
	if len(names) > 0 && !out.Update {
		out.Notes = append(out.Notes, "it starts when "+strings.Join(names, ", ")+" is complete")
	}
	if job.Schedule != nil {
		if next := view.NextRun(job.Schedule, o.cfg.Now()); next != nil {
			out.Notes = append(out.Notes, "it starts at "+next.Format("2006-01-02 15:04 MST")+", as a job of its own each time")
		}
	}
	if job.Parallel > 0 && job.Parallel < job.Count {
		out.Notes = append(out.Notes, fmt.Sprintf("of its %d tasks %d run at once (parallel)", job.Count, job.Parallel))
	}
}

// sign has a job signed, in the place of an order, nil if there is none.
func (o *Orders) sign(job *taskstate.Job, old *taskstate.Order) error {
	if why := job.Unknown(o.cfg.Who.Called); why != "" {
		return api.Errorf(api.Refused, "job %s: %s", job.ID, why)
	}
	return o.cfg.Sign(job, old)
}
