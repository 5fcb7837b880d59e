package taskstate

import (
	"bytes"
	"cmp"
)

// Reason is a short machine-readable word that says why a status is what it is. Message says it to
// a person.
type Reason string

// The reasons a worker gives. Recalled, Interrupted, OutputLost and Stuck mark attempts that ended
// through no fault of the task: the coordinator gives the slot a new attempt (as the job's policy
// allows) instead of counting a failure.
const (
	ReasonNone        Reason = ""
	ReasonExit        Reason = "exit"           // non-zero exit code
	ReasonSignal      Reason = "signal"         // ended by a signal nobody here sent
	ReasonTimeout     Reason = "timeout"        // the job's timeout passed
	ReasonNotFound    Reason = "not-found"      // no such command (127)
	ReasonNotExec     Reason = "not-executable" // found but not executable (126)
	ReasonPrepare     Reason = "prepare"        // the folder, script or logs could not be made
	ReasonCancelled   Reason = "cancelled"      // the job was cancelled
	ReasonRecalled    Reason = "recalled"       // taken back before it started
	ReasonInterrupted Reason = "interrupted"    // its peer stopped or restarted
	ReasonDropped     Reason = "dropped"        // the worker does not have it and never will
	ReasonUnreachable Reason = "unreachable"    // given up by the coordinator
	ReasonStuck       Reason = "stuck"          // its peer's disk takes nothing, or its machine refused it a process or a file, and it had not begun with the task
	ReasonNotStarted  Reason = "not-started"    // its peer had room for it and did not start it
	ReasonOutputLost  Reason = "output-lost"    // it ended, and its peer's disk did not take all it wrote to its output
	ReasonStdin       Reason = "stdin"          // what it was to read could not be had to its end
	ReasonNoRoom      Reason = "no-room"        // its peer has no room for its job's inputs
	ReasonPolicy      Reason = "policy"         // its peer's owner does not allow it there
	ReasonNoOutput    Reason = "no-output"      // it ended well, and nothing is there that its job's outputs match
	ReasonOvertaken   Reason = "overtaken"      // an attempt that had been given up came back with its success: that one counts

	ReasonUpdated  Reason = "updated"   // another version takes its place
	ReasonScaled   Reason = "scaled"    // the job wants fewer tasks
	ReasonDrained  Reason = "drained"   // its peer is to be empty
	ReasonMoved    Reason = "moved"     // it belongs elsewhere
	ReasonRetired  Reason = "retired"   // its slot is not wanted any more
	ReasonRetried  Reason = "retried"   // a person asked for another attempt
	ReasonRestart  Reason = "restart"   // the job's restart policy gave its slot another attempt
	ReasonMaxFails Reason = "max_fails" // too many tasks of the job failed
	ReasonAfter    Reason = "after"     // a job that had to be complete first was not
)

// Known tells whether this version gives the reason: others may come from peers of later ones.
func (r Reason) Known() bool {
	switch r {
	case ReasonNone, ReasonExit, ReasonSignal, ReasonTimeout, ReasonNotFound, ReasonNotExec, ReasonPrepare, ReasonCancelled, ReasonRecalled,
		ReasonInterrupted, ReasonDropped, ReasonUnreachable, ReasonStuck, ReasonNotStarted, ReasonOutputLost, ReasonStdin, ReasonNoRoom,
		ReasonPolicy, ReasonNoOutput, ReasonOvertaken, ReasonUpdated, ReasonScaled, ReasonDrained, ReasonMoved, ReasonRetired, ReasonRetried,
		ReasonRestart, ReasonMaxFails, ReasonAfter:
		return true
	}
	return false
}

// NoExit is the exit code of a task that has none: not finished, killed by a signal, or an end
// nobody saw.
const NoExit = -1

// Status is one numbered report of a worker about one of its tasks. Author and incarnation are
// those of the Batch it travels in.
//
// What version 0.1 wrote has no keys: an array of the first ten fields, in this order. It is read
// for ever (status_old.go). A peer that does not know a key refuses the whole batch, so a new field
// waits for a version that peers of this one do not talk to.
type Status struct {
	Task    TaskID `cbor:"1,keyasint"`
	Seq     uint64 `cbor:"2,keyasint"` // counts the statuses of this task, from 1
	State   State  `cbor:"3,keyasint"`
	Index   uint64 `cbor:"4,keyasint,omitempty"` // ledger index of the assignment it is about
	At      int64  `cbor:"5,keyasint,omitempty"` // the worker's clock, milliseconds since 1970
	Exit    int    `cbor:"6,keyasint,omitempty"` // exit code, NoExit if there is none
	Signal  int    `cbor:"7,keyasint,omitempty"` // number of the signal that ended it, 0 if none
	Reason  Reason `cbor:"8,keyasint,omitempty"`
	Message string `cbor:"9,keyasint,omitempty"` // for people; at most MaxMessage bytes
	// Took is how long the process ran, of an end; Waited how long the worker had had the task when
	// it started it. Both are milliseconds by the worker's monotonic clock, 0 if that is not known
	// or never was.
	Took      int64 `cbor:"10,keyasint,omitempty"`
	Waited    int64 `cbor:"11,keyasint,omitempty"`
	Truncated bool  `cbor:"12,keyasint,omitempty"` // it wrote more than is kept of its output
	// Saved is what is kept of its files, of an end. It is never changed once it is here.
	Saved *Saved   `cbor:"13,keyasint,omitempty"`
	Held  Confined `cbor:"14,keyasint,omitempty"` // what it is, or was, kept from
}

// MaxMessage caps Status.Message in bytes.
const MaxMessage = 1024

// Compare is the total order of two statuses of the same task. Below the end: by state, then by
// number. Every end is above everything else. Of two different ends the one with the lower number
// is greater – the first end a worker wrote stands – and between equal numbers the deterministic
// encoding decides, so that all peers decide alike.
func (s Status) Compare(o Status) int {
	sf, of := s.State.Final(), o.State.Final()
	switch {
	case sf && !of:
		return 1
	case of && !sf:
		return -1
	case sf && of:
		if c := cmp.Compare(o.Seq, s.Seq); c != 0 {
			return c
		}
	default:
		if c := cmp.Or(cmp.Compare(s.State, o.State), cmp.Compare(s.Seq, o.Seq)); c != 0 {
			return c
		}
	}
	if s == o {
		return 0
	}
	return bytes.Compare(mustEncode(s), mustEncode(o))
}

// Join merges two statuses of the same task: the greater one.
func Join(a, b Status) Status {
	if a.Compare(b) >= 0 {
		return a
	}
	return b
}

// Batch is what a worker signs and publishes: statuses of its tasks, numbered per incarnation
// without gaps, from 1. Version 0.1 wrote an array of these fields.
type Batch struct {
	Author      PeerID      `cbor:"1,keyasint"`
	Incarnation Incarnation `cbor:"2,keyasint"`
	Number      uint64      `cbor:"3,keyasint"`
	Statuses    []Status    `cbor:"4,keyasint"`
}
