package keep

import (
	"errors"
	"fmt"
	"strings"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/taskstate"
)

// Protocol is the stream protocol: one request, and answers to it.
const Protocol = "/covey/keep/1"

// Limits of the protocol.
const (
	maxFrame   = 8 << 10   // bytes of an answer
	maxRequest = 128 << 10 // and of a request, which may bring what tasks printed
	maxHolders = 32
	maxWord    = 128 // bytes of a peer's id
)

// request says what is to be kept.
type request struct {
	Job     string   `cbor:"1,keyasint"`
	Slot    int      `cbor:"2,keyasint"`
	Attempt int      `cbor:"3,keyasint"`
	Root    []byte   `cbor:"4,keyasint,omitempty"` // the tree of its outputs
	Logs    []byte   `cbor:"5,keyasint,omitempty"` // the tree of its logs
	Bytes   int64    `cbor:"6,keyasint,omitempty"` // of all files of Root
	Files   int      `cbor:"7,keyasint,omitempty"`
	Holders []string `cbor:"8,keyasint"`           // who has it; at least one
	Read    bool     `cbor:"9,keyasint,omitempty"` // before it is said to be kept

	// Instead of all that but Job and Read: what tasks printed (see printed.go).
	Printed []Printed `cbor:"10,keyasint,omitempty" dialect:"2"`
	Offer   bool      `cbor:"11,keyasint,omitempty" dialect:"2"` // which of it does the keeper lack? Nothing is sent yet
	Sole    bool      `cbor:"12,keyasint,omitempty" dialect:"2"` // what does the peer that is asked alone have, of Job or of all jobs?
}

// answer is a frame of the keeper. Exactly one field is set; all but Going are the last.
type answer struct {
	Going   *going   `cbor:"1,keyasint,omitempty"`
	Kept    bool     `cbor:"2,keyasint,omitempty"`
	Refused *Refused `cbor:"3,keyasint,omitempty"`

	Lacks []int `cbor:"4,keyasint,omitempty" dialect:"2"` // with Kept: places in Printed of what is not kept
	Sole  *Sole `cbor:"5,keyasint,omitempty" dialect:"2"`
}

// going says that it goes on.
type going struct {
	Bytes int64 `cbor:"1,keyasint"` // that came since it was asked, for this request or one before it
}

// Codes of Refused.
const (
	CodeNone   = "none"   // it stores nothing for others
	CodeFull   = "full"   // it has no room
	CodeBusy   = "busy"   // it does that for as many as it can
	CodeFailed = "failed" // it could not be fetched, or not be stored
)

// Refused is why a peer does not keep something.
type Refused struct {
	Code    string `cbor:"1,keyasint"`
	Message string `cbor:"2,keyasint,omitempty"`
}

func (e *Refused) Error() string {
	switch {
	case e.Message != "":
		return fmt.Sprintf("%.200s", strings.ToValidUTF8(e.Message, "?"))
	case e.Code == CodeNone:
		return "it stores nothing for others"
	case e.Code == CodeFull:
		return "it has no room"
	case e.Code == CodeBusy:
		return "it keeps things for as many as it can"
	}
	return fmt.Sprintf("%.40s", strings.ToValidUTF8(e.Code, "?"))
}

// Request says what is to be kept.
type Request struct {
	Task    taskstate.TaskID
	Saved   taskstate.Saved // Root, Bytes, Files, Logs
	Holders []taskstate.PeerID
	// Read has a peer that has it read all of it before it says so, and bring anew what has rotted:
	// whoever asks is about to let go of its own copy.
	Read bool
}

var errRequest = errors.New("that cannot be kept: it says not what, or not who has it")

func (r *Request) frame() request {
	f := request{
		Job: string(r.Task.Job), Slot: r.Task.Slot, Attempt: r.Task.Attempt,
		Bytes: r.Saved.Bytes, Files: r.Saved.Files, Holders: r.Holders, Read: r.Read,
	}
	if !r.Saved.Root.IsZero() {
		f.Root = r.Saved.Root[:]
	}
	if !r.Saved.Logs.IsZero() {
		f.Logs = r.Saved.Logs[:]
	}
	return f
}

// parse checks what came from a peer.
func (f *request) parse() (r Request, err error) {
	r.Task = taskstate.Task(taskstate.JobID(f.Job), f.Slot, f.Attempt)
	if _, err := r.Task.Folder(); err != nil {
		return r, fmt.Errorf("%w: %w", errRequest, err)
	}
	r.Saved.Bytes, r.Saved.Files, r.Holders, r.Read = f.Bytes, f.Files, f.Holders, f.Read
	for of, to := range map[*[]byte]*piece.Root{&f.Root: &r.Saved.Root, &f.Logs: &r.Saved.Logs} {
		if len(*of) != 0 && len(*of) != len(to) {
			return r, errRequest
		}
		copy(to[:], *of)
	}
	switch {
	case r.Saved.Root.IsZero() && r.Saved.Logs.IsZero(), f.Bytes < 0, f.Files < 0:
		return r, errRequest
	case len(f.Holders) == 0 || len(f.Holders) > maxHolders:
		return r, errRequest
	}
	for _, h := range f.Holders {
		if h == "" || len(h) > maxWord {
			return r, errRequest
		}
	}
	return r, nil
}

// trees are the names of what is to be kept.
func (r *Request) trees() (roots []piece.Root) {
	for _, root := range []piece.Root{r.Saved.Root, r.Saved.Logs} {
		if !root.IsZero() {
			roots = append(roots, root)
		}
	}
	return roots
}

const pinBegin = "out-"

// PinName is what the pin of what a task left is called, at its maker and at its keepers.
func PinName(t taskstate.TaskID) string {
	return fmt.Sprintf("%s%s-%d.%d", pinBegin, t.Job, t.Slot, t.Attempt)
}

// TaskOfPin is the task whose pin is called so, if it is one.
func TaskOfPin(name string) (t taskstate.TaskID, ok bool) {
	rest, ok := strings.CutPrefix(name, pinBegin)
	i := strings.LastIndexByte(rest, '-')
	if !ok || i < 0 {
		return t, false
	}
	var slot, attempt int
	if _, err := fmt.Sscanf(rest[i+1:], "%d.%d", &slot, &attempt); err != nil {
		return t, false
	}
	t = taskstate.Task(taskstate.JobID(rest[:i]), slot, attempt)
	_, err := t.Folder()
	return t, err == nil && PinName(t) == name
}
