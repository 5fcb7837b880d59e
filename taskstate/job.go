package taskstate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"
)

// JobType says how a job's slots live.
type JobType string

// The types of jobs.
const (
	BatchJob   JobType = "batch"   // each slot runs to an end, once
	ServiceJob JobType = "service" // as many slots as Count are kept running, until somebody ends the job
	GlobalJob  JobType = "global"  // one slot on each peer that fits, also on those that join later; Count is 0 when it is submitted
)

// Lasts tells whether jobs of this type go on until somebody ends them. Their names are unique, and
// they can be updated.
func (t JobType) Lasts() bool { return t == ServiceJob || t == GlobalJob }

// Job is what a person submitted, complete with defaults: immutable once accepted. CBOR is its form
// between peers and on disk, JSON the one in POST /v1/jobs.
type Job struct {
	ID          JobID       `cbor:"1,keyasint" json:"id"`
	Name        string      `cbor:"2,keyasint,omitempty" json:"name,omitempty"`
	Type        JobType     `cbor:"3,keyasint" json:"type"`
	Count       int         `cbor:"4,keyasint" json:"count"`                        // number of slots, ≥ 1; 0 for a service that is switched off and for a global job
	Each        []string    `cbor:"5,keyasint,omitempty" json:"each,omitempty"`     // item of slot i+1; empty or exactly Count long
	First       int         `cbor:"6,keyasint,omitempty" json:"first,omitempty"`    // with --array A-B: item of slot i is First+i-1
	Numbered    bool        `cbor:"7,keyasint,omitempty" json:"numbered,omitempty"` // First is meant, also when it is 0
	Run         Run         `cbor:"8,keyasint" json:"run"`
	Resources   Resources   `cbor:"9,keyasint" json:"resources"`
	Timeout     int64       `cbor:"10,keyasint,omitempty" json:"timeout_ms,omitempty"` // milliseconds per attempt, 0 = none
	Parallel    int         `cbor:"11,keyasint,omitempty" json:"parallel,omitempty"`   // at most so many at once, 0 = no cap
	Unreachable Unreachable `cbor:"12,keyasint" json:"unreachable"`
	Submitter   PeerID      `cbor:"13,keyasint,omitempty" json:"submitter,omitempty"`    // the peer that was asked
	MaxPerPeer  int         `cbor:"14,keyasint,omitempty" json:"max_per_peer,omitempty"` // 0 = no cap

	Version     int       `cbor:"15,keyasint,omitempty" json:"version,omitempty"`     // of a service or global job: 1 as submitted, raised by updates that restart tasks
	Matrix      []Axis    `cbor:"16,keyasint,omitempty" json:"matrix,omitempty"`      // Count is the product of their lengths; the last axis turns fastest
	Constraints []string  `cbor:"17,keyasint,omitempty" json:"constraints,omitempty"` // all must hold; see package constraint
	Strategy    Strategy  `cbor:"18,keyasint,omitempty" json:"strategy,omitempty"`    // "" is spread
	Over        string    `cbor:"19,keyasint,omitempty" json:"over,omitempty"`        // spread: first evenly over the values of this key, as in peer.label.zone
	Restart     *Restart  `cbor:"20,keyasint,omitempty" json:"restart,omitempty"`     // nil: never
	MaxFails    int       `cbor:"21,keyasint,omitempty" json:"max_fails,omitempty"`   // batch: with so many slots failed for good the rest is cancelled; 0 = no limit
	Update      *Update   `cbor:"22,keyasint,omitempty" json:"update,omitempty"`      // service and global: how a new version is rolled out; nil = as DefaultUpdate
	After       []JobID   `cbor:"23,keyasint,omitempty" json:"after,omitempty"`       // starts when these are complete; job files give names, the peer that was asked puts ids
	Schedule    *Schedule `cbor:"24,keyasint,omitempty" json:"schedule,omitempty"`    // this job only starts others like it, at these times
	Priority    int       `cbor:"25,keyasint,omitempty" json:"priority"`              // 0 … 100, higher goes first; DefaultPriority unless said
	Origin      *Origin   `cbor:"26,keyasint,omitempty" json:"origin,omitempty"`      // of a run that a schedule started
	MaxOutput   int64     `cbor:"27,keyasint,omitempty" json:"max_output,omitempty"`  // bytes kept of a task's stdout and of its stderr, each; 0 = DefaultMaxOutput
	Stdin       bool      `cbor:"28,keyasint,omitempty" json:"stdin,omitempty"`       // its one task reads what is given to the submitter, by POST /v1/jobs/ID/stdin

	Escaped bool  `cbor:"29,keyasint,omitempty" json:"escaped,omitempty"`  // its items are written as EscapeItem does, because one of them is not UTF-8
	Delay   int64 `cbor:"30,keyasint,omitempty" json:"delay_ms,omitempty"` // batch: milliseconds between two starts, at least; 0 = none

	Inputs   []Input  `cbor:"31,keyasint,omitempty" json:"inputs,omitempty"`    // what every task finds in its folder
	Outputs  *Outputs `cbor:"32,keyasint,omitempty" json:"outputs,omitempty"`   // batch: which of its files are kept; nil: none
	KeepLogs int      `cbor:"33,keyasint,omitempty" json:"keep_logs,omitempty"` // batch without outputs: copies of what tasks print before they are complete; 1: the maker's own; 0: another one soon after the end
	Order    *Order   `cbor:"34,keyasint,omitempty" json:"order,omitempty"`     // what was signed of all this, by whom
	Secrets  *Secrets `cbor:"35,keyasint,omitempty" json:"secrets,omitempty"`   // sealed by the peer that was asked
	Isolate  string   `cbor:"36,keyasint,omitempty" json:"isolate,omitempty"`   // IsolateFS …: it must not run where less is kept from it; "": whatever its peer says
	Net      string   `cbor:"38,keyasint,omitempty" json:"net,omitempty"`       // NetNone: it has no network; NetAny: it needs one also where Isolate takes it away, if its peer's owner lets it
	// Limits are of each of its processes, by LimitFiles …: at most so much. Its peer may have
	// less.
	Limits map[string]int64 `cbor:"39,keyasint,omitempty" json:"limits,omitempty"`

	Withheld *Withheld `cbor:"37,keyasint,omitempty" json:"withheld,omitempty"` // instead of the private part, where that is not known
}

// Strategy says which of the peers that fit are taken first.
type Strategy string

// The strategies.
const (
	Spread  Strategy = "spread"  // those with the fewest tasks of the job, then with the fewest in all; "" means it too
	Binpack Strategy = "binpack" // those that are fullest, so that others stay free
	Random  Strategy = "random"  // by lot, from a seed
)

// Axis is one dimension of a matrix: a task finds its value in COVEY_<NAME>.
type Axis struct {
	Name   string   `cbor:"1,keyasint" json:"name"`
	Values []string `cbor:"2,keyasint" json:"values"`
}

// RestartCondition says after which ends an attempt is followed by another one.
type RestartCondition string

// The conditions.
const (
	RestartNone      RestartCondition = "none"
	RestartOnFailure RestartCondition = "on-failure" // FAILED and REJECTED
	RestartAny       RestartCondition = "any"        // COMPLETE too
)

// Restart says whether a slot whose attempt has ended gets another one. Durations are milliseconds.
type Restart struct {
	Condition RestartCondition `cbor:"1,keyasint" json:"condition"`
	Attempts  int              `cbor:"2,keyasint,omitempty" json:"attempts,omitempty"`  // at most so many restarts of a slot within Window; 0 = no limit
	Delay     int64            `cbor:"3,keyasint,omitempty" json:"delay_ms,omitempty"`  // from the end to the next start, at least
	Window    int64            `cbor:"4,keyasint,omitempty" json:"window_ms,omitempty"` // 0 = for ever
}

// Update says how a new version replaces the old one. Durations are milliseconds.
type Update struct {
	Parallelism     int           `cbor:"1,keyasint,omitempty" json:"parallelism"` // slots at once; 0 = all
	Delay           int64         `cbor:"2,keyasint,omitempty" json:"delay_ms,omitempty"`
	Monitor         int64         `cbor:"3,keyasint,omitempty" json:"monitor_ms,omitempty"`        // a task of the new version that ends so soon after its start has failed
	MaxFailureRatio float64       `cbor:"4,keyasint,omitempty" json:"max_failure_ratio,omitempty"` // 0 … 1 of the slots
	OnFailure       FailureAction `cbor:"5,keyasint,omitempty" json:"on_failure,omitempty"`        // "" is pause
	Order           UpdateOrder   `cbor:"6,keyasint,omitempty" json:"order,omitempty"`             // "" is stop-first
}

// FailureAction is what follows when too much of an update fails.
type FailureAction string

// UpdateOrder says whether the old task of a slot ends before its successor starts.
type UpdateOrder string

// What Update can say.
const (
	PauseUpdate    FailureAction = "pause"
	ContinueUpdate FailureAction = "continue"
	RollBackUpdate FailureAction = "rollback"

	StopFirst  UpdateOrder = "stop-first"
	StartFirst UpdateOrder = "start-first" // for a while there are up to Parallelism more tasks than Count
)

// Schedule is when a job starts: a cron expression of five fields, in a time zone.
type Schedule struct {
	Cron    string  `cbor:"1,keyasint" json:"cron"`
	Zone    string  `cbor:"2,keyasint,omitempty" json:"zone,omitempty"` // as in Europe/Berlin; "" is UTC
	Overlap Overlap `cbor:"3,keyasint,omitempty" json:"overlap,omitempty"`
}

// Overlap says what becomes of a start while the run before it has not ended.
type Overlap string

// What Overlap can say.
const (
	SkipOverlap  Overlap = "skip"  // no start; "" means it too
	AllowOverlap Overlap = "allow" // both run
)

// Origin tells which job's schedule started this one, and for which moment (milliseconds since
// 1970).
type Origin struct {
	Job JobID `cbor:"1,keyasint" json:"job"`
	At  int64 `cbor:"2,keyasint" json:"at_ms"`
}

// Run is what a task does: exactly one field is set.
type Run struct {
	Process *Process `cbor:"1,keyasint,omitempty" json:"process,omitempty"`
	Noop    *Noop    `cbor:"2,keyasint,omitempty" json:"noop,omitempty"`
}

// Process is a command to execute. ${COVEY_…} is expanded in Command by the runner; with Braces, {}
// is the item too.
type Process struct {
	Command []string          `cbor:"1,keyasint" json:"command,omitempty"`
	Env     map[string]string `cbor:"2,keyasint,omitempty" json:"env,omitempty"`
	Dir     string            `cbor:"3,keyasint,omitempty" json:"dir,omitempty"`    // below the task's own folder
	Shell   bool              `cbor:"4,keyasint,omitempty" json:"shell,omitempty"`  // Command has one element, a line for /bin/sh -c
	Script  []byte            `cbor:"5,keyasint,omitempty" json:"script,omitempty"` // travels with the job; written into the task's folder, executable
	Braces  bool              `cbor:"6,keyasint,omitempty" json:"braces,omitempty"`
	// ScriptName is what Script is called in the task's folder; "" is DefaultScript.
	ScriptName string `cbor:"7,keyasint,omitempty" json:"script_name,omitempty"`
}

// DefaultScript is what a script is called whose job does not say.
const DefaultScript = "script"

// ScriptFile is what the script is called in the task's folder.
func (p *Process) ScriptFile() string { return cmp.Or(p.ScriptName, DefaultScript) }

// DefaultMaxOutput is how much is kept of each output file of a task whose job says nothing.
const DefaultMaxOutput = 64 << 20

// outputKept is how much is kept of each output file of the job's tasks.
func (j *Job) outputKept() int64 {
	if j.MaxOutput == 0 {
		return DefaultMaxOutput
	}
	return j.MaxOutput
}

// Noop does nothing for Duration milliseconds: measurement and simulation.
type Noop struct {
	Duration int64 `cbor:"1,keyasint,omitempty" json:"duration_ms,omitempty"`
}

// Resources a task reserves on a peer, or a peer offers. CPU in thousandths of one, memory
// and disk in bytes.
type Resources struct {
	MilliCPU int64  `cbor:"1,keyasint,omitempty" json:"milli_cpu,omitempty"`
	Memory   int64  `cbor:"2,keyasint,omitempty" json:"memory,omitempty"`
	Others   Counts `cbor:"3,keyasint,omitempty" json:"others,omitempty"` // gpus, and what else a peer has a number of
	Disk     int64  `cbor:"4,keyasint,omitempty" json:"disk,omitempty"`
}

// Add returns the sum.
func (r Resources) Add(o Resources) Resources {
	return Resources{MilliCPU: r.MilliCPU + o.MilliCPU, Memory: r.Memory + o.Memory, Disk: r.Disk + o.Disk, Others: r.Others.Add(o.Others)}
}

// Sub returns the difference; it may be negative, which Fits treats as full.
func (r Resources) Sub(o Resources) Resources {
	return Resources{MilliCPU: r.MilliCPU - o.MilliCPU, Memory: r.Memory - o.Memory, Disk: r.Disk - o.Disk, Others: r.Others.Add(o.Others.Times(-1))}
}

// Fits tells whether a need fits into what is free. What is not asked for never stands in the way.
func (r Resources) Fits(free Resources) bool {
	return (r.MilliCPU == 0 || r.MilliCPU <= free.MilliCPU) && (r.Memory == 0 || r.Memory <= free.Memory) &&
		(r.Disk == 0 || r.Disk <= free.Disk) && r.Others.Fits(free.Others)
}

// Times returns n times r.
func (r Resources) Times(n int64) Resources {
	return Resources{MilliCPU: n * r.MilliCPU, Memory: n * r.Memory, Disk: n * r.Disk, Others: r.Others.Times(n)}
}

// Unreachable says what becomes of an attempt whose peer cannot be reached.
type Unreachable struct {
	Wait         bool  `cbor:"1,keyasint,omitempty" json:"wait,omitempty"`             // never run it twice: wait for the peer or a person
	ReplaceAfter int64 `cbor:"2,keyasint,omitempty" json:"replace_after_ms,omitempty"` // milliseconds from the verdict; at least once
}

// DefaultPriority is the priority of a job that says nothing.
const DefaultPriority = 50

// DefaultReplaceAfter is how long after a dead verdict a batch attempt is given up.
const DefaultReplaceAfter = 10 * time.Second

// UnmarshalJSON reads a job; one that does not speak of priority has the default. It is strict: a
// field there is not is an error.
func (j *Job) UnmarshalJSON(b []byte) error {
	type plain Job
	job := plain{Priority: DefaultPriority}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&job); err != nil {
		return err
	}
	*j = Job(job)
	return nil
}

// Item is the item of a slot (from 1): the element of Each, the number of an array, the values of a
// matrix joined by commas, or "".
func (j *Job) Item(slot int) string {
	switch {
	case len(j.Matrix) > 0:
		return strings.Join(j.Point(slot), ",")
	case slot >= 1 && slot <= len(j.Each):
		return j.Each[slot-1]
	case j.Numbered:
		return itoa(j.First + slot - 1)
	}
	return ""
}

// Point is where a slot (from 1) stands in the matrix: a value for each axis, in order. It is nil
// without a matrix and for slots there are not.
func (j *Job) Point(slot int) []string {
	if len(j.Matrix) == 0 || slot < 1 || slot > j.Count {
		return nil
	}
	out, rest := make([]string, len(j.Matrix)), slot-1
	for i := len(j.Matrix) - 1; i >= 0; i-- {
		values := j.Matrix[i].Values
		if len(values) == 0 {
			return nil
		}
		out[i] = values[rest%len(values)]
		rest /= len(values)
	}
	return out
}
