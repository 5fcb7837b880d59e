package taskstate

import "time"

// JobType says how a job's slots live.
type JobType string

// Batch jobs run each slot once to a final state. (Service and global jobs are refused by the job-file reader until they exist.)
const BatchJob JobType = "batch"

// Job is what a person submitted, complete with defaults: immutable once accepted. CBOR is its form between peers and on disk, JSON
// the one in POST /v1/jobs.
type Job struct {
	ID          JobID       `cbor:"1,keyasint" json:"id"`
	Name        string      `cbor:"2,keyasint,omitempty" json:"name,omitempty"`
	Type        JobType     `cbor:"3,keyasint" json:"type"`
	Count       int         `cbor:"4,keyasint" json:"count"`                        // number of slots, ≥ 1
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
}

// Run is what a task does: exactly one field is set.
type Run struct {
	Process *Process `cbor:"1,keyasint,omitempty" json:"process,omitempty"`
	Noop    *Noop    `cbor:"2,keyasint,omitempty" json:"noop,omitempty"`
}

// Process is a command to execute. ${COVEY_…} is expanded in Command by the runner; with Braces, {} is the item too.
type Process struct {
	Command []string          `cbor:"1,keyasint" json:"command,omitempty"`
	Env     map[string]string `cbor:"2,keyasint,omitempty" json:"env,omitempty"`
	Dir     string            `cbor:"3,keyasint,omitempty" json:"dir,omitempty"`    // below the task's own folder
	Shell   bool              `cbor:"4,keyasint,omitempty" json:"shell,omitempty"`  // Command has one element, a line for /bin/sh -c
	Script  []byte            `cbor:"5,keyasint,omitempty" json:"script,omitempty"` // travels with the job; written into the task's folder, executable
	Braces  bool              `cbor:"6,keyasint,omitempty" json:"braces,omitempty"`
}

// Noop does nothing for Duration milliseconds: measurement and simulation.
type Noop struct {
	Duration int64 `cbor:"1,keyasint,omitempty" json:"duration_ms,omitempty"`
}

// Resources a task promises itself on a peer, or a peer offers. CPU in thousandths of one, memory in bytes.
type Resources struct {
	MilliCPU int64 `cbor:"1,keyasint,omitempty" json:"milli_cpu,omitempty"`
	Memory   int64 `cbor:"2,keyasint,omitempty" json:"memory,omitempty"`
}

// Add returns the sum.
func (r Resources) Add(o Resources) Resources {
	return Resources{MilliCPU: r.MilliCPU + o.MilliCPU, Memory: r.Memory + o.Memory}
}

// Sub returns the difference; it may be negative, which Fits treats as full.
func (r Resources) Sub(o Resources) Resources {
	return Resources{MilliCPU: r.MilliCPU - o.MilliCPU, Memory: r.Memory - o.Memory}
}

// Fits tells whether a need fits into what is free. What is not asked for never stands in the way.
func (r Resources) Fits(free Resources) bool {
	return (r.MilliCPU == 0 || r.MilliCPU <= free.MilliCPU) && (r.Memory == 0 || r.Memory <= free.Memory)
}

// Unreachable says what becomes of an attempt whose peer cannot be reached.
type Unreachable struct {
	Wait         bool  `cbor:"1,keyasint,omitempty" json:"wait,omitempty"`             // never run it twice: wait for the peer or a person
	ReplaceAfter int64 `cbor:"2,keyasint,omitempty" json:"replace_after_ms,omitempty"` // milliseconds from the verdict; at least once
}

// DefaultReplaceAfter is how long after a dead verdict a batch attempt is given up.
const DefaultReplaceAfter = 10 * time.Second

// Item is the item of a slot (from 1): the element of Each, the number of an array, or "".
func (j *Job) Item(slot int) string {
	switch {
	case slot >= 1 && slot <= len(j.Each):
		return j.Each[slot-1]
	case j.Numbered:
		return itoa(j.First + slot - 1)
	}
	return ""
}
