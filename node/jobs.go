package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"covey/dispatch/ledger"
	"covey/node/api"
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
	r, err := n.decide(try, call{Submit: &job})
	switch {
	case err == nil:
		_ = n.applied.reach(try, r.Index) // so that what is asked next, here, knows the job
		return api.Submitted{ID: string(job.ID), Note: n.cutAtOnce(&job)}, nil
	case !errors.Is(err, errNobodyDecides):
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
		n.hub.append([]event{{at: n.now(), kind: kindJob, job: job.ID, state: "held", note: job.Name}})
	}
	n.wakeForwarder()
	return api.Submitted{ID: string(job.ID), Held: true, Note: n.whoIsMissing()}, nil
}

// cutAtOnce tells why a job that was just accepted is cancelled already: one it comes after did not end well.
func (n *Node) cutAtOnce(job *taskstate.Job) string {
	if len(job.After) == 0 {
		return ""
	}
	if row, err := n.jobNow(job.ID); err == nil && row.Cancelled != "" {
		return "cancelled at once: " + row.Cancelled
	}
	return ""
}

// called is a peer's name with enough of its id to tell two apart.
func (n *Node) called(id taskstate.PeerID) string {
	if name := n.nameOf(id); name != "" {
		return name
	}
	return id
}

func (n *Node) nameOf(id taskstate.PeerID) (name string) {
	n.replica.Read(func(s *ledger.State) {
		if m, ok := s.Member(id); ok {
			if name = m.Name; name == "" {
				name = m.Entry.Name
			}
		}
	})
	if name == "" {
		if e, ok := n.roster.Get(id); ok {
			name = e.Name
		}
	}
	return name
}

// forward brings held jobs to a coordinator, oldest first, until ctx ends.
func (n *Node) forward(ctx context.Context) error {
	for {
		for _, h := range n.held.list() {
			try, cancel := context.WithTimeout(ctx, acceptTimeout)
			_, err := n.decide(try, call{Submit: &h.Job, Again: true})
			cancel()
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, errNobodyDecides) {
				n.wakeForwarder() // begin again with those that are still held
				break
			}
			if err != nil {
				n.log.Warn("a held job was refused", "job", h.Job.ID, "err", err)
				n.hub.append([]event{{at: n.now(), kind: kindJob, job: h.Job.ID, state: "refused", note: err.Error()}})
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
	job, held, err := n.find(ctx, n.goingOn(id))
	if err != nil {
		return api.Job{}, err
	}
	why := "by " + n.called(n.self)
	if held != nil {
		ok := false
		err := n.disk.do(func() (err error) { ok, err = n.held.withdraw(job, why); return err }, nil)
		if err != nil {
			return api.Job{}, api.Errorf(api.Failed, "the job was not cancelled: %v", err)
		} else if ok {
			n.hub.append([]event{{at: n.now(), kind: kindJob, job: job, state: "cancelled"}})
			n.wakeRecall()
			return heldRow(*held, taskstate.Shutdown), nil
		}
	}
	try, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	r, err := n.decide(try, call{Cancel: &ledger.Cancel{Job: job, Reason: why}})
	if err != nil {
		return api.Job{}, n.undecided(err, "the job was not cancelled")
	}
	_ = n.applied.reach(try, r.Index)
	a, err := n.Job(ctx, string(job))
	return a.Job, err
}

// goingOn is the id of the service, global job or schedule that has a name for as long as it goes on: that is what a person means to end,
// not one of the runs it started, which have the same name. Any other word stays as it is.
func (n *Node) goingOn(name string) (id string) {
	id = name
	n.replica.Read(func(s *ledger.State) {
		for _, j := range s.FindJobs(name) {
			_, over := j.Ended()
			if !over && j.Job().Name == name && (j.Lasts() || j.Scheduled()) {
				id = string(j.Job().ID)
			}
		}
	})
	return id
}

// undecided words the lack of a coordinator for commands that are not held.
func (n *Node) undecided(err error, sequel string) error {
	if !errors.Is(err, errNobodyDecides) {
		return err
	}
	return api.Errorf(api.NoCoordinator, "%s: %s", sequel, n.tryAgain())
}

// Jobs implements api.JobBackend.
func (n *Node) Jobs(ctx context.Context) (api.Jobs, error) {
	out := api.Jobs{Jobs: []api.Job{}, AsOf: time.Now().UTC()}
	held := n.held.list()
	slices.Reverse(held)
	for _, h := range held {
		out.Jobs = append(out.Jobs, heldRow(h, taskstate.Pending))
	}
	if len(held) > 0 {
		why := n.whoIsMissing()
		for i := range out.Jobs {
			out.Jobs[i].Waiting = why
		}
	}
	progress := n.progress()
	n.replica.Read(func(s *ledger.State) {
		for j := range s.Jobs() {
			out.Jobs = append(out.Jobs, fullRow(s, j, progress[j.Job().ID]))
		}
	})
	n.explainRows(ctx, out.Jobs)
	return out, nil
}

// explainRows says in the rows of jobs why what waits does, and what cannot be reached: of all of them with one question to the
// coordinator, and none if all jobs are over.
func (n *Node) explainRows(ctx context.Context, rows []api.Job) {
	unfinished := func(r api.Job) bool { return !r.Over() && r.State != "held" && r.Schedule == nil }
	if !slices.ContainsFunc(rows, unfinished) {
		return
	}
	f, missing := n.askFlockFor(ctx, flockCall{All: true}), ""
	if f == nil {
		missing = n.whoIsMissing()
	}
	gone := n.awayOf(f)
	for i := range rows {
		if r := &rows[i]; !unfinished(*r) {
			continue
		} else if f != nil {
			n.sayWhy(r, f.Whys[taskstate.JobID(r.ID)], &gone)
		} else {
			n.sayWhy(r, missing, &gone)
		}
	}
}

// sayWhy fills in what explainRows says of one job: why it waits, if any of it does, and what of it cannot be reached.
func (n *Node) sayWhy(row *api.Job, why string, gone *away) {
	if gone.decides || row.Tasks["pending"] > 0 { // without a coordinator only what waits for one is known to wait
		row.Waiting = why
	}
	n.replica.Read(func(s *ledger.State) {
		if j, ok := s.Job(taskstate.JobID(row.ID)); ok {
			row.Unreachable = gone.ofJob(j, n.state)
		}
	})
	n.nameAway(row)
}

// progress counts the reported states of tasks that are not settled, per job.
func (n *Node) progress() map[taskstate.JobID]map[taskstate.State]int {
	out := map[taskstate.JobID]map[taskstate.State]int{}
	for s := range n.table.All() {
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
func (n *Node) Job(ctx context.Context, id string) (api.JobAnswer, error) {
	job, held, err := n.find(ctx, id)
	if err != nil {
		return api.JobAnswer{}, err
	}
	if held != nil {
		row := heldRow(*held, taskstate.Pending)
		row.Waiting, row.Spec = n.whoIsMissing(), specOf(&held.Job)
		return api.JobAnswer{Job: row, AsOf: time.Now().UTC()}, nil
	}
	row, err := n.jobNow(job)
	if err != nil {
		return api.JobAnswer{}, err
	}
	n.explainRow(ctx, &row)
	row.Pace = n.pace(job)
	if spec, err := n.jobSpec(ctx, string(job)); err == nil {
		row.Spec = specOf(spec)
	}
	return api.JobAnswer{Job: row, AsOf: time.Now().UTC()}, nil
}

// explainRow is explainRows for one.
func (n *Node) explainRow(ctx context.Context, row *api.Job) {
	if row.Over() {
		return
	}
	f, why := n.askFlock(ctx, taskstate.JobID(row.ID)), ""
	if f != nil {
		why = f.Waiting
	} else {
		why = n.whoIsMissing()
	}
	gone := n.awayOf(f)
	n.sayWhy(row, why, &gone)
}

func (n *Node) jobNow(id taskstate.JobID) (row api.Job, err error) {
	progress := n.progress()
	err = errNoJob(string(id))
	n.replica.Read(func(s *ledger.State) {
		if j, ok := s.Job(id); ok {
			row, err = fullRow(s, j, progress[id]), nil
		}
	})
	return row, err
}

func errNoJob(id string) error {
	if strings.Contains(id, ".") { // no job has one in its name
		return api.Errorf(api.NotFound, "no job %q: this is about jobs, and with a dot it would be a task; see `peer jobs`", id)
	}
	return api.Errorf(api.NotFound, "no job %q; see `peer jobs`", id)
}

// find is resolve, and where this peer knows no such job it first catches up with the coordinator: a job that was accepted through
// another peer a moment ago is found.
func (n *Node) find(ctx context.Context, id string) (taskstate.JobID, *heldJob, error) {
	job, held, err := n.resolve(id)
	if err == nil || api.AsError(err).Code != api.NotFound {
		return job, held, err
	}
	if f := n.askFlock(ctx, ""); f != nil {
		wait, cancel := context.WithTimeout(ctx, flockTimeout)
		defer cancel()
		if n.applied.reach(wait, f.Index) == nil {
			job, held, err = n.resolve(id)
		}
	}
	if err != nil {
		if was := n.forgotten(id); was != nil {
			err = was
		}
	}
	return job, held, err
}

// resolve finds the job a person means: `last`, an id, the newest of a name, a unique prefix. held is set when it waits here for a
// coordinator.
func (n *Node) resolve(id string) (taskstate.JobID, *heldJob, error) {
	held := n.held.list()
	slices.Reverse(held)
	if id == "last" {
		return n.lastJob(held)
	}
	for i, h := range held {
		if string(h.Job.ID) == id {
			return h.Job.ID, &held[i], nil
		}
	}
	var found []taskstate.JobID
	named := false
	n.replica.Read(func(s *ledger.State) {
		for _, j := range s.FindJobs(id) {
			found = append(found, j.Job().ID)
			named = j.Job().Name == id
		}
	})
	switch {
	case len(found) == 1, len(found) > 1 && named:
		return found[0], nil, nil
	case len(found) > 1:
		return "", nil, api.Errorf(api.Conflict, "%q begins the ids of %d jobs (%s, %s, …); type more of it", id, len(found), found[0], found[1])
	}
	for i, h := range held {
		if id != "" && (h.Job.Name == id || strings.HasPrefix(string(h.Job.ID), id)) {
			return h.Job.ID, &held[i], nil
		}
	}
	return "", nil, errNoJob(id)
}

// lastJob is the newest job submitted through this peer.
func (n *Node) lastJob(held []heldJob) (taskstate.JobID, *heldJob, error) {
	if len(held) > 0 {
		return held[0].Job.ID, &held[0], nil
	}
	var id taskstate.JobID
	n.replica.Read(func(s *ledger.State) {
		for j := range s.Jobs() {
			if j.Job().Submitter == n.self {
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
