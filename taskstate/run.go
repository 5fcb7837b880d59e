package taskstate

import (
	"fmt"
	"time"
)

// Launch is everything a runner needs to run one attempt. The worker makes it and never changes it
// afterwards.
type Launch struct {
	Task  TaskID
	Job   *Job   // shared by all tasks of the job: read only; may come without Each
	Item  string // the item of this slot, "" if the job has none
	Epoch Epoch  // of the assignment: the fencing token in the task's environment
	Index uint64 // ledger index of the assignment
	Peer  string // name or id of the peer it runs on, for its environment
	// Unproven is why the item is not known to be one that was signed; "": it is, or there is none.
	Unproven string
	// Ended is what became of its process, of a task that an earlier life of this peer was saving:
	// it does not run again. nil: it is not known to have ended.
	Ended *RunReport
	// Confinement is what it runs under; nil: nothing that its user is not held to already.
	Confinement *Confinement
	Since       int64 // local clock, milliseconds since 1970: when an earlier life of this peer said that it runs; 0: it is new, or that is not known
}

// Loss is a task that an earlier life of a peer may have started and that its runner cannot take up
// again.
type Loss struct {
	Task    TaskID
	Never   bool   // it certainly never ran
	Message string // why, for people
}

// RunReport is what a runner saw of a task. For one task they come in order: Starting with each
// message about how far its inputs are placed, Running at most once, Saving at most once, with how
// its process ended, then exactly one end. A task that ends before it ran has no Running.
type RunReport struct {
	Task    TaskID
	State   State // Starting, Running, Saving, or an end
	Exit    int   // exit code, NoExit if there is none
	Signal  int   // number of the signal that ended it, 0 if none
	Reason  Reason
	Message string // for people; at most MaxMessage bytes
	At      int64  // the local clock, milliseconds since 1970
	Took    int64  // of an end: milliseconds from the process's start, by the monotonic clock; 0: it never ran, or that is not known

	Held      Confined // what it is, or was, kept from
	Saved     *Saved   // of an end: what is kept of its files
	Truncated bool     // of an end: not all of its output was kept, because of the cap
	Exhausted string   // of an end: the error of its peer's machine that refused a process or a file for it; "": none did
}

// MaxJobID caps a job id in bytes wherever one is taken from outside; ours are JobIDLen long.
const MaxJobID = 64

// Folder is the path of the attempt's own folder below a peer's tasks folder: JOB/SLOT.ATTEMPT. The
// id may come from outside, so whatever could lead out of that folder is an error.
func (t TaskID) Folder() (string, error) {
	if !t.Job.local() {
		return "", fmt.Errorf("job id %.80q: expected lower-case letters and digits, at most %d", string(t.Job), MaxJobID)
	}
	if t.Slot < 1 || t.Attempt < 1 {
		return "", fmt.Errorf("task id %q: slot and attempt are whole numbers from 1", t.String())
	}
	return string(t.Job) + "/" + itoa(t.Slot) + "." + itoa(t.Attempt), nil
}

// Folder is the name of the job's folder below a peer's tasks folder, checked as TaskID.Folder
// checks it.
func (j JobID) Folder() (string, error) {
	if !j.local() {
		return "", fmt.Errorf("job id %.80q: expected lower-case letters and digits, at most %d", string(j), MaxJobID)
	}
	return string(j), nil
}

// local tells whether the id is safe as the name of a folder.
func (j JobID) local() bool {
	if len(j) == 0 || len(j) > MaxJobID || j[0] == '-' {
		return false
	}
	for _, c := range []byte(j) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// Kind names what runs such tasks: "process" or "noop"; "" if the job says neither, as one does
// that was made by a newer peer.
func (r *Run) Kind() string {
	switch {
	case r.Process != nil:
		return "process"
	case r.Noop != nil:
		return "noop"
	}
	return ""
}

// TimedOut says of a task of the job that it was stopped at its timeout.
func (j *Job) TimedOut() string {
	return "timed out after " + (time.Duration(j.Timeout) * time.Millisecond).String()
}
