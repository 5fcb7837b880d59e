package stdin

import (
	"errors"

	"github.com/coveyproject/covey/taskstate"
)

// Protocol is the stream protocol: one Request, answered by frames until the end; meanwhile the
// asker says how far it has come.
const Protocol = "/covey/stdin/1"

// Limits of the protocol.
const (
	MaxPiece    = 64 << 10 // bytes of data in one frame
	Window      = 1 << 20  // bytes on their way that nobody has said to have
	maxRequest  = 1 << 10  // bytes of a request's frame
	maxAnswer   = MaxPiece + 4<<10
	maxProgress = 64
)

var errFrame = errors.New("a frame that makes no sense")

// Request asks for the stdin of a task that the asker runs.
type Request struct {
	Task  taskstate.TaskID `cbor:"1,keyasint"`
	Index uint64           `cbor:"2,keyasint,omitempty"` // of the ledger entry that gave the task to the asker
	At    int64            `cbor:"3,keyasint,omitempty"` // offset of the first byte wanted
}

func (r Request) check() error {
	if _, err := r.Task.Folder(); err != nil || r.At < 0 {
		return errFrame
	}
	return nil
}

// answer is a frame from the submitter: with nothing set, a sign of life. The first says that the
// stdin is to be had.
type answer struct {
	Data  []byte `cbor:"1,keyasint,omitempty"`
	End   bool   `cbor:"2,keyasint,omitempty"` // that was all
	Error *Error `cbor:"3,keyasint,omitempty"`
}

func (a *answer) check() error {
	said := 0
	for _, x := range []bool{len(a.Data) > 0, a.End, a.Error != nil} {
		if x {
			said++
		}
	}
	if said > 1 || len(a.Data) > MaxPiece {
		return errFrame
	}
	return nil
}

// progress says up to where the asker has the stdin on its own disk.
type progress struct {
	At int64 `cbor:"1,keyasint"`
}

// Codes of Error.
const (
	CodeBad    = "bad-request"
	CodeNot    = "not-yours" // the asker does not run that task
	CodeGone   = "gone"      // what is asked for is not kept any more
	CodeBroken = "broken"    // it ended before it was whole
	CodeNone   = "none"      // this peer has no stdin of that job
	CodeBusy   = "busy"      // ask again
)

// Error is why a stdin cannot be had.
type Error struct {
	Code    string `cbor:"1,keyasint"`
	Message string `cbor:"2,keyasint"`
}

func (e *Error) Error() string { return e.Message }
