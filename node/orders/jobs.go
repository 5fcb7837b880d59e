package orders

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/held"
	"github.com/coveyproject/covey/node/view"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// AcceptTimeout is how long an order waits for a coordinator; a submission is held here then.
// Where decisions are far away, it is some round trips.
const AcceptTimeout = 3 * time.Second

// acceptTimeout is AcceptTimeout, or more where decisions are far away.
func (o *Orders) acceptTimeout() time.Duration {
	return far.Allow(AcceptTimeout, o.cfg.Ledger.Distance())
}

// Submit implements api.JobBackend.
func (o *Orders) Submit(ctx context.Context, s api.Submit) (api.Submitted, error) {
	job := s.Job
	if job.ID == "" {
		job.ID = taskstate.NewJobID()
	}
	job.Submitter = o.cfg.Self
	if err := o.seal(ctx, &job, o.before(&job), s.Secrets); err != nil {
		return api.Submitted{}, err
	}
	if err := jobfile.Validate(&job); err != nil {
		return api.Submitted{}, api.Errorf(api.Usage, "%v", err)
	}
	if err := o.cfg.Disk.Takes(); err != nil { // were there no coordinator, it could not be held
		return api.Submitted{}, api.Errorf(api.Failed, "nothing was submitted: this peer's data folder cannot be written (%v)", err)
	}
	if err := o.resolveFrom(ctx, &job); err != nil {
		return api.Submitted{}, err
	}
	if old, err := o.namesake(&job); err != nil {
		return api.Submitted{}, err
	} else if old != nil { // goes on waiting for what it waited for
		return o.replace(ctx, &job, old, s.Secrets)
	}
	if err := o.resolveAfter(ctx, &job); err != nil {
		return api.Submitted{}, err
	}
	if err := o.sign(&job, nil); err != nil {
		return api.Submitted{}, err
	}
	if job.Stdin {
		if err := o.cfg.Expect(job.ID); err != nil {
			return api.Submitted{}, api.Errorf(api.Failed, "there is no room for what it is to read: %v; nothing was submitted", err)
		}
	}
	try, cancel := context.WithTimeout(ctx, o.acceptTimeout())
	defer cancel()
	r, err := o.cfg.Line.Decide(try, calls.Call{Submit: &job})
	switch {
	case err == nil:
		_ = o.cfg.View.Reach(try, r.Index) // so that what is asked next, here, knows the job
		return api.Submitted{ID: string(job.ID), Note: o.cutAtOnce(&job)}, nil
	case !errors.Is(err, calls.ErrNobodyDecides):
		return o.submitUpdate(ctx, &job, s.Secrets, r, err)
	case ctx.Err() != nil:
		return api.Submitted{}, ctx.Err()
	}
	err = o.cfg.Disk.Do(func() error { return o.cfg.Held.Put(job, o.cfg.Now()) }, func() { _, _ = o.cfg.Held.Drop(job.ID, false) })
	again := errors.Is(err, held.ErrHere)
	if err != nil && !again {
		return api.Submitted{}, api.Errorf(api.Failed, "no coordinator, and the job cannot be held here: %v; nothing was submitted", err)
	}
	if !again {
		o.cfg.Tell(job.ID, "held", job.Name)
	}
	o.Wake()
	return api.Submitted{ID: string(job.ID), Held: true, Note: o.cfg.Deciders.WhoIsMissing()}, nil
}

// cutAtOnce tells why a job that was just accepted is cancelled already: one it comes after did not
// end well.
func (o *Orders) cutAtOnce(job *taskstate.Job) string {
	if len(job.After) == 0 {
		return ""
	}
	if row, err := o.cfg.View.JobNow(job.ID); err == nil && row.Cancelled != "" {
		return "cancelled at once: " + row.Cancelled
	}
	return ""
}

// Wake has held jobs tried again: somebody may decide now.
func (o *Orders) Wake() { o.poke.Set() }

// Cancel implements api.JobBackend.
func (o *Orders) Cancel(ctx context.Context, id string) (api.Job, error) {
	if strings.Contains(id, ".") {
		return o.cancelTask(ctx, id)
	}
	job, held, err := o.cfg.View.FindLive(ctx, id)
	if err != nil {
		return api.Job{}, err
	}
	why := "by " + o.cfg.Who.Called(o.cfg.Self)
	if held != nil {
		ok := false
		err := o.cfg.Disk.Do(func() (err error) { ok, err = o.cfg.Held.Withdraw(job, why); return err }, nil)
		if err != nil {
			return api.Job{}, api.Errorf(api.Failed, "the job was not cancelled: %v", err)
		} else if ok {
			o.cfg.Tell(job, "cancelled", "")
			o.recalls.Set()
			return view.HeldRow(*held, taskstate.Shutdown), nil
		}
	}
	if _, err := o.decide(ctx, calls.Call{Cancel: &ledger.Cancel{Job: job, Reason: why}}, "the job was not cancelled"); err != nil {
		return api.Job{}, err
	}
	a, err := o.cfg.View.Job(ctx, string(job))
	return a.Job, err
}

// decide has the coordinator decide a call and waits until this peer has heard of that, so that
// what is asked next, here, knows it. Where nobody decides, sequel says what that means.
func (o *Orders) decide(ctx context.Context, c calls.Call, sequel string) (calls.Reply, error) {
	try, cancel := context.WithTimeout(ctx, o.acceptTimeout())
	defer cancel()
	r, err := o.cfg.Line.Decide(try, c)
	_ = o.cfg.View.Reach(try, r.Index)
	if err != nil {
		return r, o.undecided(err, sequel)
	}
	return r, nil
}

// undecided words the lack of a coordinator for commands that are not held.
func (o *Orders) undecided(err error, sequel string) error {
	if !errors.Is(err, calls.ErrNobodyDecides) {
		return err
	}
	return api.Errorf(api.NoCoordinator, "%s: %s", sequel, o.cfg.Deciders.TryAgain())
}

// ReadJobFile implements api.JobBackend.
func (o *Orders) ReadJobFile(_ context.Context, name string, file []byte) (taskstate.Job, error) {
	job, err := jobfile.Parse(cmp.Or(name, "job.yaml"), file, jobfile.Options{ReadFile: func(string) ([]byte, error) {
		return nil, errors.New("it is on the submitter's disk, and only the job file came: write its lines into each, or use `peer submit`")
	}})
	if err != nil {
		return taskstate.Job{}, api.Errorf(api.Usage, "%v", err)
	}
	return *job, nil
}
