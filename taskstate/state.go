package taskstate

import "fmt"

// State is how far a task got: a Lamport clock, of two observations the greater is right. The
// numbers leave room between states.
type State uint16

// The states, in order. New and Pending are the coordinator's; Assigned is the coordinator's
// decision; everything after is written by the assigned worker alone.
const (
	New       State = 0
	Pending   State = 64
	Assigned  State = 192
	Accepted  State = 256 // journaled by the worker, waiting for its turn there
	Preparing State = 320
	Ready     State = 384
	Starting  State = 448 // the worker's runner has it, and places its inputs
	Running   State = 512
	Saving    State = 544 // its process has ended, and what it left is being copied to others
	Complete  State = 576
	Shutdown  State = 640 // stopped because somebody asked
	Failed    State = 704 // went wrong from Running on
	Rejected  State = 768 // went wrong before Running
	Orphaned  State = 832 // the worker lost it: its end was not observed
)

var stateNames = map[State]string{
	New: "new", Pending: "pending", Assigned: "assigned", Accepted: "accepted", Preparing: "preparing", Ready: "ready",
	Starting: "starting", Running: "running", Saving: "saving", Complete: "complete", Shutdown: "shutdown", Failed: "failed",
	Rejected: "rejected", Orphaned: "orphaned",
}

// States lists every state in order, for code that must handle or show each.
func States() []State {
	return []State{New, Pending, Assigned, Accepted, Preparing, Ready, Starting, Running, Saving, Complete, Shutdown, Failed, Rejected, Orphaned}
}

// Final tells whether s is an end: nothing follows it.
func (s State) Final() bool { return s >= Complete }

// Valid tells whether s is one of the states above.
func (s State) Valid() bool {
	switch s {
	case New, Pending, Assigned, Accepted, Preparing, Ready, Starting, Running, Saving, Complete, Shutdown, Failed, Rejected, Orphaned:
		return true
	}
	return false
}

// String is the lower-case name the API uses.
func (s State) String() string {
	if n, ok := stateNames[s]; ok {
		return n
	}
	return fmt.Sprintf("state(%d)", uint16(s))
}

// MarshalText and UnmarshalText give JSON the name instead of the number; CBOR keeps the number.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a state's name.
func (s *State) UnmarshalText(b []byte) error {
	for k, n := range stateNames {
		if n == string(b) {
			*s = k
			return nil
		}
	}
	return fmt.Errorf("unknown task state %q", b)
}

// Shown is how people read the word of a state: a program's word says less than it could.
func Shown(state string) string {
	switch state {
	case Shutdown.String():
		return "stopped"
	case Orphaned.String():
		return "lost"
	case Rejected.String():
		return "could not start"
	}
	return state
}
