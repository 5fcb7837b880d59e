package node

import (
	"context"
	"errors"
	"strings"
	"time"

	"covey/dispatch/ledger"
	"covey/node/api"
	"covey/node/calls"
	"covey/node/view"
	"covey/taskstate"
	"covey/taskstate/jobfile"
)

// acceptTimeout is how long a submission waits for a coordinator before it is held here.
const acceptTimeout = 3 * time.Second

// Submit implements api.JobBackend.
func (n *Node) Submit(ctx context.Context, s api.Submit) (api.Submitted, error) {
	job := s.Job
	if job.ID == "" {
		job.ID = taskstate.NewJobID()
	}
	job.Submitter = n.self
	if err := jobfile.Validate(&job); err != nil {
		return api.Submitted{}, api.Errorf(api.Usage, "%v", err)
	}
	if err := n.diskTakes(); err != nil {
		return api.Submitted{}, err
	}
	if old, err := n.namesake(&job); err != nil {
		return api.Submitted{}, err
	} else if old != nil { // goes on waiting for what it waited for
		return n.update(ctx, old, func(*taskstate.Job) taskstate.Job { return job })
	}
	if err := n.resolveAfter(ctx, &job); err != nil {
		return api.Submitted{}, err
	}
	if job.Stdin {
		if err := n.feeds.spools.Expect(job.ID); err != nil {
			return api.Submitted{}, api.Errorf(api.Failed, "there is no room for what it is to read: %v; nothing was submitted", err)
		}
	}
	try, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	r, err := n.line.Decide(try, calls.Call{Submit: &job})
	switch {
	case err == nil:
		_ = n.view.Reach(try, r.Index) // so that what is asked next, here, knows the job
		return api.Submitted{ID: string(job.ID), Note: n.cutAtOnce(&job)}, nil
	case !errors.Is(err, calls.ErrNobodyDecides):
		return n.submitUpdate(ctx, &job, r, err)
	case ctx.Err() != nil:
		return api.Submitted{}, ctx.Err()
	}
	err = n.disk.do(func() error { return n.held.put(job, n.now()) }, func() { _, _ = n.held.drop(job.ID, false) })
	again := errors.Is(err, errHeldHere)
	if err != nil && !again {
		return api.Submitted{}, api.Errorf(api.Failed, "no coordinator, and the job cannot be held here: %v; nothing was submitted", err)
	}
	if !again {
		n.view.Tell(job.ID, "held", job.Name)
	}
	n.wakeForwarder()
	return api.Submitted{ID: string(job.ID), Held: true, Note: n.view.WhoIsMissing()}, nil
}

// cutAtOnce tells why a job that was just accepted is cancelled already: one it comes after did not end well.
func (n *Node) cutAtOnce(job *taskstate.Job) string {
	if len(job.After) == 0 {
		return ""
	}
	if row, err := n.view.JobNow(job.ID); err == nil && row.Cancelled != "" {
		return "cancelled at once: " + row.Cancelled
	}
	return ""
}

// forward brings held jobs to a coordinator, oldest first, until ctx ends.
func (n *Node) forward(ctx context.Context) error {
	for {
		for _, h := range n.held.list() {
			try, cancel := context.WithTimeout(ctx, acceptTimeout)
			_, err := n.line.Decide(try, calls.Call{Submit: &h.Job, Again: true})
			cancel()
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, calls.ErrNobodyDecides) {
				n.wakeForwarder() // begin again with those that are still held
				break
			}
			if err != nil {
				n.log.Warn("a held job was refused", "job", h.Job.ID, "err", err)
				n.view.Tell(h.Job.ID, "refused", err.Error())
			}
			if _, err := n.held.drop(h.Job.ID, false); err != nil {
				n.log.Warn("held job went out and could not be forgotten; sending it again does no harm", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-n.poke:
		}
	}
}

func (n *Node) wakeForwarder() {
	select {
	case n.poke <- struct{}{}:
	default:
	}
}

// Cancel implements api.JobBackend.
func (n *Node) Cancel(ctx context.Context, id string) (api.Job, error) {
	if strings.Contains(id, ".") {
		return n.cancelTask(ctx, id)
	}
	job, held, err := n.view.Find(ctx, n.view.GoingOn(id))
	if err != nil {
		return api.Job{}, err
	}
	why := "by " + n.view.Called(n.self)
	if held != nil {
		ok := false
		err := n.disk.do(func() (err error) { ok, err = n.held.withdraw(job, why); return err }, nil)
		if err != nil {
			return api.Job{}, api.Errorf(api.Failed, "the job was not cancelled: %v", err)
		} else if ok {
			n.view.Tell(job, "cancelled", "")
			n.wakeRecall()
			return view.HeldRow(*held, taskstate.Shutdown), nil
		}
	}
	try, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	r, err := n.line.Decide(try, calls.Call{Cancel: &ledger.Cancel{Job: job, Reason: why}})
	if err != nil {
		return api.Job{}, n.undecided(err, "the job was not cancelled")
	}
	_ = n.view.Reach(try, r.Index)
	a, err := n.view.Job(ctx, string(job))
	return a.Job, err
}

// undecided words the lack of a coordinator for commands that are not held.
func (n *Node) undecided(err error, sequel string) error {
	if !errors.Is(err, calls.ErrNobodyDecides) {
		return err
	}
	return api.Errorf(api.NoCoordinator, "%s: %s", sequel, n.view.TryAgain())
}
