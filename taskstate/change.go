package taskstate

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// Change is one difference between two specs of a job, for people: what is shown before an update
// is made.
type Change struct {
	Field    string `cbor:"1,keyasint" json:"field"`          // spelt as in a job file
	From     string `cbor:"2,keyasint,omitempty" json:"from"` // about as in a job file, cut around the first difference; "" is nothing
	To       string `cbor:"3,keyasint,omitempty" json:"to"`
	Restarts bool   `cbor:"4,keyasint,omitempty" json:"restarts"` // running tasks are not as this wants them
}

// Parallelism and monitoring of an update whose job says nothing.
const (
	DefaultParallelism = 1
	DefaultMonitor     = 5 * time.Second
)

// DefaultUpdate is how a new version is rolled out unless the job says otherwise: slot by slot,
// each watched for five seconds, the old task stopped first, paused at the first failure.
func DefaultUpdate() Update {
	return Update{Parallelism: DefaultParallelism, Monitor: DefaultMonitor.Milliseconds(), OnFailure: PauseUpdate, Order: StopFirst}
}

// Updating is how a new version of the job is rolled out, complete with defaults.
func (j *Job) Updating() Update {
	if j.Update == nil {
		return DefaultUpdate()
	}
	u := *j.Update
	u.OnFailure = cmp.Or(u.OnFailure, PauseUpdate)
	u.Order = cmp.Or(u.Order, StopFirst)
	return u
}

// aspect is one entry of the table below: a field of Job, and what a change of it means for tasks
// that run.
type aspect struct {
	field    string         // of the job file
	restarts bool           // a running task is not as the new spec wants it, so a new version is rolled out
	identity bool           // says who the job is, not what it does: an update keeps it and it is never a change
	of       func(*Job) Job // the part of a job that is compared, brought to one form
	show     func(*Job) string
}

// aspects has one entry per field of Job, in the order in which changes are shown, under the name
// the field has in Go.
func aspects() []aspect {
	return []aspect{
		{"id", false, true, func(j *Job) Job { return Job{ID: j.ID} }, nil},
		{"submitter", false, true, func(j *Job) Job { return Job{Submitter: j.Submitter} }, nil},
		{"version", false, true, func(j *Job) Job { return Job{Version: j.Version} }, nil},
		{"order", false, true, func(j *Job) Job { return Job{Order: j.Order} }, nil},
		{"withheld", false, true, func(j *Job) Job { return Job{Withheld: j.Withheld} }, nil},
		{"origin", false, true, func(j *Job) Job { return Job{Origin: j.Origin} }, nil},
		{"name", false, false, func(j *Job) Job { return Job{Name: j.Name} }, func(j *Job) string { return j.Name }},
		{"type", true, false, func(j *Job) Job { return Job{Type: j.Type} }, func(j *Job) string { return string(j.Type) }},
		{"count", false, false, func(j *Job) Job { return Job{Count: j.Count} }, func(j *Job) string { return itoa(j.Count) }},
		{"each", true, false, func(j *Job) Job { return Job{Each: j.Each} }, func(j *Job) string { return list(j.Each) }},
		{"escaped", true, false, func(j *Job) Job { return Job{Escaped: j.Escaped} }, func(j *Job) string { return yes(j.Escaped) }},
		{"array", true, false, func(j *Job) Job { return Job{First: j.First} }, showArray},
		{"array", true, false, func(j *Job) Job { return Job{Numbered: j.Numbered} }, showArray},
		{"matrix", true, false, func(j *Job) Job { return Job{Matrix: j.Matrix} }, showMatrix},
		{"run", true, false, func(j *Job) Job { return Job{Run: j.Run} }, func(j *Job) string { return text(j.Run) }},
		{"resources", true, false, func(j *Job) Job { return Job{Resources: j.Resources} }, showResources},
		{"stdin", true, false, func(j *Job) Job { return Job{Stdin: j.Stdin} }, func(j *Job) string { return text(j.Stdin) }},
		{"max_output", true, false, func(j *Job) Job { return Job{MaxOutput: j.outputKept()} }, func(j *Job) string { return bytesOf(j.outputKept()) }},
		{"inputs", true, false, func(j *Job) Job { return Job{Inputs: j.Inputs} }, func(j *Job) string { return text(j.Inputs) }},
		{"secrets", true, false, secretsPart, showSecrets},
		{"outputs", true, false, func(j *Job) Job { return Job{Outputs: j.outputs()} }, showOutputs},
		{"isolate", true, false, func(j *Job) Job { return Job{Isolate: j.isolate()} }, func(j *Job) string { return j.isolate() }},
		{"net", true, false, func(j *Job) Job { return Job{Net: j.Net} }, func(j *Job) string { return j.Net }},
		{"limits", true, false, func(j *Job) Job { return Job{Limits: j.Limits} }, func(j *Job) string { return text(j.Limits) }},
		{"timeout", true, false, func(j *Job) Job { return Job{Timeout: j.Timeout} }, func(j *Job) string { return span(j.Timeout) }},
		// The rest says when and where tasks start and what follows their end. What runs is as good
		// as before; tasks that the new words would not have put where they are, the coordinator
		// moves one by one.
		{"constraints", false, false, func(j *Job) Job { return Job{Constraints: j.Constraints} }, func(j *Job) string { return list(j.Constraints) }},
		{"placement.strategy", false, false, func(j *Job) Job { return Job{Strategy: j.strategy()} }, func(j *Job) string { return string(j.strategy()) }},
		{"placement.over", false, false, func(j *Job) Job { return Job{Over: j.Over} }, func(j *Job) string { return j.Over }},
		{"placement.max_per_peer", false, false, func(j *Job) Job { return Job{MaxPerPeer: j.MaxPerPeer} }, func(j *Job) string { return number(j.MaxPerPeer) }},
		{"parallel", false, false, func(j *Job) Job { return Job{Parallel: j.Parallel} }, func(j *Job) string { return number(j.Parallel) }},
		{"delay", false, false, func(j *Job) Job { return Job{Delay: j.Delay} }, func(j *Job) string { return span(j.Delay) }},
		{"priority", false, false, func(j *Job) Job { return Job{Priority: j.Priority} }, func(j *Job) string { return itoa(j.Priority) }},
		{"restart", false, false, func(j *Job) Job { return Job{Restart: j.restarting()} }, showRestart},
		{"max_fails", false, false, func(j *Job) Job { return Job{MaxFails: j.MaxFails} }, func(j *Job) string { return number(j.MaxFails) }},
		{"unreachable", false, false, func(j *Job) Job { return Job{Unreachable: j.Unreachable} }, showUnreachable},
		{"update", false, false, partUpdate, showUpdate},
		{"keep_logs", false, false, func(j *Job) Job { return Job{KeepLogs: j.KeepLogs} }, func(j *Job) string { return number(j.KeepLogs) }},
		{"after", false, false, func(j *Job) Job { return Job{After: j.After} }, func(j *Job) string { return list(j.After) }},
		{"schedule", false, false, partSchedule, showSchedule},
	}
}

// isolate is what the job asks for, nothing being one word for that.
func (j *Job) isolate() string { return cmp.Or(j.Isolate, IsolateNone) }

// Changes lists what an update from old to new changes, in a fixed order. Who the job is – id,
// submitter, version, origin – is no change, and neither is a default that is now written out. An
// empty list means that the update does nothing.
func Changes(old, new *Job) []Change {
	var out []Change
	for _, a := range aspects() {
		if a.identity || a.same(old, new) {
			continue
		}
		from, to := around(a.show(old), a.show(new))
		if a.withheld(old, new) {
			from, to = "", ""
		}
		c := Change{Field: a.field, From: from, To: to, Restarts: a.restarts}
		if n := len(out); n > 0 && out[n-1] == c { // two fields that are one key of the file
			continue
		}
		out = append(out, c)
	}
	return out
}

// Restarts tells whether tasks that run under old are not as new wants them, so that a new version
// has to be rolled out.
func Restarts(old, new *Job) bool {
	for _, a := range aspects() {
		if a.restarts && !a.same(old, new) {
			return true
		}
	}
	return false
}

// same tells whether two jobs do not differ in this. What is withheld is compared as a whole, and
// counts as what is run.
func (a aspect) same(x, y *Job) bool {
	if a.withheld(x, y) {
		return a.field != "run" || sameWithheld(x, y)
	}
	return bytes.Equal(mustEncode(a.of(x)), mustEncode(a.of(y)))
}

// withheld tells whether this is of the private part, and one of the jobs is without that.
func (a aspect) withheld(x, y *Job) bool {
	return (x.Withheld != nil || y.Withheld != nil) && slices.Contains([]string{"run", "each", "matrix", "inputs", "outputs", "secrets"}, a.field)
}

func (j *Job) strategy() Strategy {
	if j.Strategy == "" {
		return Spread
	}
	return j.Strategy
}

// restarting is the policy in one form: no policy is that which never restarts, and then the rest
// says nothing.
func (j *Job) restarting() *Restart {
	if j.Restart == nil || j.Restart.Condition == "" || j.Restart.Condition == RestartNone {
		return &Restart{Condition: RestartNone}
	}
	return j.Restart
}

func partUpdate(j *Job) Job {
	u := j.Updating()
	return Job{Update: &u}
}

func partSchedule(j *Job) Job {
	if j.Schedule == nil {
		return Job{}
	}
	s := j.Schedule.complete()
	return Job{Schedule: &s}
}

// complete is the schedule with its defaults written out.
func (s Schedule) complete() Schedule {
	s.Zone = cmp.Or(s.Zone, "UTC")
	s.Overlap = cmp.Or(s.Overlap, SkipOverlap)
	return s
}
