package secrets

import (
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/seal"
)

// Protocol is the stream protocol: one Request, one answer.
const Protocol = "/covey/secrets/1"

// Limits of its frames, in bytes.
const (
	maxRequest = 2 << 10
	maxAnswer  = seal.MaxSealed + 4<<10
)

// Request asks for the secrets of a task that the asker is to run, sealed to its recipient. The
// stream is the asker's own, so nobody else can have said what the recipient is.
type Request struct {
	Task      taskstate.TaskID `cbor:"1,keyasint"`
	Index     uint64           `cbor:"2,keyasint,omitempty"` // of the ledger entry that gave the task to the asker
	Version   int              `cbor:"3,keyasint,omitempty"` // of the job
	Recipient string           `cbor:"4,keyasint"`
}

// answer has one of the two.
type answer struct {
	Sealed []byte `cbor:"1,keyasint,omitempty"`
	Error  *Error `cbor:"2,keyasint,omitempty"`
}

// Codes of Error.
const (
	CodeBad  = "bad-request"
	CodeNot  = "not-yours" // the asker does not run that task, or may not
	CodeNone = "none"      // this peer cannot open them
	CodeBusy = "busy"      // ask again
)

// Error is why secrets are not handed over, in words for people.
type Error struct {
	Code    string `cbor:"1,keyasint"`
	Message string `cbor:"2,keyasint"`
}

func (e *Error) Error() string { return e.Message }
