package runner

import (
	"errors"

	"github.com/coveyproject/covey/node/runner/noop"
	"github.com/coveyproject/covey/node/runner/process"
	"github.com/coveyproject/covey/taskstate"
)

// Executor runs the tasks of one kind, each to its end, and says what becomes of them to the
// function it was made with. Methods may be called by anybody at any time; none waits for a task,
// but Close may.
type Executor interface {
	// Start runs a task and returns at once. One that it cannot run is reported as Rejected, with
	// the reason. A task that is running already is left alone, and after Close nothing starts.
	Start(taskstate.Launch)
	// Stop ends a task early, with its grace, and returns at once: it ends as Shutdown with this
	// reason, unless it had ended by itself. The first reason stands. A task that is not here is
	// ignored: its end was reported already.
	Stop(taskstate.TaskID, taskstate.Reason)
	// Adopt is called once, before anything is started, with the tasks that an earlier life of this
	// peer may have started and not seen the end of. Those that still run are taken up again and
	// those that ended meanwhile are reported; it returns the others. What an earlier life left
	// besides is ended.
	Adopt([]taskstate.Launch) (lost []taskstate.Loss)
	// Kept says that the ends of these tasks are in the worker's journal: they need not be
	// remembered any more.
	Kept([]taskstate.TaskID)
	// Live tells whether a task may still write, and gives a channel that is closed when its output
	// is complete. What is beyond limit may be cut away yet; 0: nothing will be.
	Live(taskstate.TaskID) (over <-chan struct{}, limit int64, live bool)
	// Clean removes what tasks of a job left behind. None of them may be running.
	Clean(taskstate.JobID) error
	// Close ends the executor. What outlives this peer goes on; other tasks are stopped as
	// interrupted. All is reported when it returns.
	Close() error
}

// Config is what the machine and its owner say about running tasks; Report is the runner's.
type Config = process.Config

// Sandbox is what tasks are kept from.
type Sandbox = process.Sandbox

// Runner is an executor made of one for each kind of task (taskstate.Run.Kind).
type Runner struct {
	executors map[string]Executor
	reports   *reporter
	lasting   bool
	holds     []string
	lacks     map[string]string
	exposed   string
}

// New makes a runner. sink is told everything, by one goroutine, in order; it may block, but then
// all reports wait. Close ends what New starts.
func New(sink func(taskstate.RunReport), cfg Config) (*Runner, error) {
	r := &Runner{reports: newReporter(sink)}
	cfg.Report = r.reports.add
	p, err := process.New(cfg)
	if err != nil {
		r.reports.close()
		return nil, err
	}
	r.lasting, r.holds = p.Lasting(), p.Holds()
	if hides, why := p.Hides(); !hides {
		r.exposed = why
	}
	r.lacks = map[string]string{}
	if strong, why := p.Strong(); !strong {
		r.lacks[taskstate.IsolateStrong] = why
	}
	if closes, why := p.Closes(); !closes {
		r.lacks[taskstate.IsolateFS] = why
	}
	r.executors = map[string]Executor{"process": p, "noop": noop.New(r.reports.add, r.lasting)}
	return r, nil
}

// Lasting tells whether tasks go on when this peer ends, and its next start takes them up again.
func (r *Runner) Lasting() bool { return r.lasting }

// Holds says what can be kept from tasks here, in words of taskstate.Confinement.
func (r *Runner) Holds() []string { return r.holds }

// Lacks says of some of these words why they do not hold here.
func (r *Runner) Lacks() map[string]string { return r.lacks }

// Exposed says why tasks reach the data folder, "" if they do not.
func (r *Runner) Exposed() string { return r.exposed }

// Start implements Executor: a job that says nothing known here is rejected.
func (r *Runner) Start(l taskstate.Launch) {
	if l.Job != nil {
		if e := r.executors[l.Job.Run.Kind()]; e != nil {
			e.Start(l)
			return
		}
	}
	r.reports.add(taskstate.RunReport{
		Task: l.Task, State: taskstate.Rejected, Exit: taskstate.NoExit, Reason: taskstate.ReasonPrepare,
		Message: "the job says nothing that this peer can run; is it older than the others?",
	})
}

// Stop implements Executor.
func (r *Runner) Stop(id taskstate.TaskID, reason taskstate.Reason) {
	for _, e := range r.executors {
		e.Stop(id, reason)
	}
}

// Adopt implements Executor.
func (r *Runner) Adopt(tasks []taskstate.Launch) (lost []taskstate.Loss) {
	of := map[string][]taskstate.Launch{}
	for _, l := range tasks {
		kind := l.Job.Run.Kind()
		if r.executors[kind] == nil {
			lost = append(lost, taskstate.Loss{Task: l.Task, Never: true})
			continue
		}
		of[kind] = append(of[kind], l)
	}
	for kind, e := range r.executors { // also one that gets none: it may have to end some
		lost = append(lost, e.Adopt(of[kind])...)
	}
	return lost
}

// Kept implements Executor.
func (r *Runner) Kept(tasks []taskstate.TaskID) {
	for _, e := range r.executors {
		e.Kept(tasks)
	}
}

// Live implements Executor.
func (r *Runner) Live(id taskstate.TaskID) (over <-chan struct{}, limit int64, live bool) {
	for _, e := range r.executors {
		if over, limit, live = e.Live(id); live {
			break
		}
	}
	return over, limit, live
}

// Clean implements Executor.
func (r *Runner) Clean(job taskstate.JobID) (err error) {
	for _, e := range r.executors {
		err = errors.Join(err, e.Clean(job))
	}
	return err
}

// Close implements Executor.
func (r *Runner) Close() (err error) {
	for _, e := range r.executors {
		err = errors.Join(err, e.Close())
	}
	r.reports.close()
	return err
}
