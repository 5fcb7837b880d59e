package taskstate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/coveyproject/covey/node/blob/piece"
)

// Outputs says which files of a task are kept when it has ended: they are copied to other peers
// before the task is complete.
type Outputs struct {
	Globs   []string `cbor:"1,keyasint" json:"globs"`                       // paths below the task's folder, as in frames/**/*.png
	Keep    int      `cbor:"2,keyasint,omitempty" json:"keep,omitempty"`    // copies, the maker's own among them; 0 = DefaultKeep
	Missing Missing  `cbor:"3,keyasint,omitempty" json:"missing,omitempty"` // "" is fail
}

// Missing says what becomes of a task that ended well and left nothing that a glob matches.
type Missing string

// What Missing can say.
const (
	MissingFails Missing = "fail" // it has failed: ReasonNoOutput
	MissingWarns Missing = "warn" // it is complete, and its message says so
	MissingOK    Missing = "ok"
)

// DefaultKeep is how many copies there are of what a task leaves, if its job says nothing: the
// maker's and one more.
const DefaultKeep = 2

// Bounds of what a job says of files.
const (
	MaxOutputGlobs = 64
	MaxInputs      = 16
	MaxKeep        = 16
	maxKeepers     = 2 * MaxKeep
)

// Input is a file or folder that every task of a job finds below its own folder.
type Input struct {
	Name     string `cbor:"1,keyasint" json:"name"`                      // path below the task's folder; "." for a folder whose files lie in it
	Ref      string `cbor:"2,keyasint,omitempty" json:"ref,omitempty"`   // b3:… a file, b3:…/ a folder
	Bytes    int64  `cbor:"3,keyasint,omitempty" json:"bytes,omitempty"` // of all its files
	Files    int    `cbor:"4,keyasint,omitempty" json:"files,omitempty"`
	Exec     bool   `cbor:"5,keyasint,omitempty" json:"exec,omitempty"`      // a file that may be executed
	Writable bool   `cbor:"6,keyasint,omitempty" json:"writable,omitempty"`  // every task has a copy of its own
	From     JobID  `cbor:"7,keyasint,omitempty" json:"from,omitempty"`      // instead of Ref: what this job's tasks left
	SameSlot bool   `cbor:"8,keyasint,omitempty" json:"same_slot,omitempty"` // of From: only what the task of the same slot left
}

// Saved is what is kept of the files of a task that has ended.
type Saved struct {
	Root    piece.Root `cbor:"1,keyasint"`           // the tree of its outputs; zero if its job names none, or there are none
	Bytes   int64      `cbor:"2,keyasint,omitempty"` // of all files in it
	Files   int        `cbor:"3,keyasint,omitempty"`
	Logs    piece.Root `cbor:"4,keyasint"`           // the tree of stdout and stderr; zero if they are empty, or not kept
	Keepers []PeerID   `cbor:"5,keyasint,omitempty"` // who has said that it has all of it on disk; the maker comes first
	Keep    int        `cbor:"6,keyasint,omitempty"` // how many were wanted; more than len(Keepers): the rest is owed
	Why     string     `cbor:"7,keyasint,omitempty"` // owed: why, for people; at most MaxMessage bytes
}

// Equal tells whether both say the same; either may be nil.
func (s *Saved) Equal(o *Saved) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.Root == o.Root && s.Logs == o.Logs && s.Bytes == o.Bytes && s.Files == o.Files &&
		s.Keep == o.Keep && s.Why == o.Why && slices.Equal(s.Keepers, o.Keepers)
}

// Same tells whether both say the same of the files, whoever keeps them; either may be nil.
func (s *Saved) Same(o *Saved) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.Root == o.Root && s.Logs == o.Logs && s.Bytes == o.Bytes && s.Files == o.Files && s.Keep == o.Keep
}

// Clip is s with a reason that a status has room for; nil if nobody may say so even then.
func (s *Saved) Clip() *Saved {
	if s == nil || s.Check() == nil {
		return s
	}
	short := *s
	if short.Why = ClipText(s.Why, MaxMessage); short.Check() != nil {
		return nil
	}
	return &short
}

// Size estimates the encoded size in bytes, from above.
func (s *Saved) Size() int {
	if s == nil {
		return 0
	}
	n := 128 + len(s.Why)
	for _, k := range s.Keepers {
		n += 3 + len(k)
	}
	return n
}

// Check tells what is wrong with it: nobody may have said so.
func (s *Saved) Check() error {
	switch {
	case s == nil:
		return nil
	case s.Bytes < 0 || s.Files < 0 || s.Files > math.MaxInt32 || s.Keep < 0 || s.Keep > MaxKeep:
		return fmt.Errorf("it keeps %d bytes in %d files %d times", s.Bytes, s.Files, s.Keep)
	case len(s.Keepers) > maxKeepers || slices.ContainsFunc(s.Keepers, badWord):
		return fmt.Errorf("%d keepers, or one without a name", len(s.Keepers))
	case len(s.Why) > MaxMessage || !utf8.ValidString(s.Why):
		return fmt.Errorf("a reason of %d bytes", len(s.Why))
	}
	for i, k := range s.Keepers {
		if slices.Contains(s.Keepers[:i], k) {
			return errors.New("a keeper that is listed twice")
		}
	}
	return nil
}

// Saves tells whether files of the job's tasks are kept before a task is complete.
func (j *Job) Saves() bool { return j.HasOutputs() || j.KeepLogs > 1 }

// HasOutputs tells whether files of the job's tasks are kept, besides what they print.
func (j *Job) HasOutputs() bool { return j.Outputs != nil || j.Withheld != nil && j.Withheld.Saves }

// PrintsTwice reports whether another peer keeps a copy of what the job's tasks print, soon after
// their end. A job that says how many copies there are to be has its own way (Saves), or wants one.
func (j *Job) PrintsTwice() bool {
	return !j.Type.Lasts() && !j.Saves() && j.KeepLogs == 0 && j.Run.Noop == nil
}

// outputs is what is kept, complete with defaults.
func (j *Job) outputs() *Outputs {
	if j.Outputs == nil {
		return nil
	}
	o := *j.Outputs
	o.Keep, o.Missing = j.Copies(), cmp.Or(o.Missing, MissingFails)
	return &o
}

// Copies is how many copies of what a task leaves are wanted.
func (j *Job) Copies() int {
	switch {
	case j.Outputs == nil:
		return j.KeepLogs
	case j.Outputs.Keep == 0:
		return DefaultKeep
	}
	return j.Outputs.Keep
}
