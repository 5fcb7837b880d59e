package tasklog

import (
	"errors"
	"fmt"
	"slices"

	"github.com/coveyproject/covey/taskstate"
)

// LogsProtocol is the stream protocol: one Request, answered by frames until the stream is closed.
const LogsProtocol = "/covey/logs/1"

// The streams of a task.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Limits of the protocol.
const (
	MaxChunk   = 64 << 10 // bytes of data in one chunk
	MaxTail    = 1 << 20  // lines
	maxRequest = 4 << 10  // bytes of a request frame
	maxAnswer  = MaxChunk + 4<<10
)

// Request asks for the output of one task.
type Request struct {
	Task   taskstate.TaskID `cbor:"1,keyasint"`
	Parts  []Part           `cbor:"2,keyasint"`           // one or both streams, each once
	Follow bool             `cbor:"3,keyasint,omitempty"` // go on until the task is over
	Tail   int              `cbor:"4,keyasint,omitempty"` // begin so many lines before the end, where Offset is 0; 0 = at Offset
	Since  int64            `cbor:"5,keyasint,omitempty"` // where Offset is 0, begin with the first line of this moment or later, Unix milliseconds
	Times  bool             `cbor:"6,keyasint,omitempty"` // each chunk says when it was written
}

// Part is a stream to read and where to begin, in bytes.
type Part struct {
	Stream string `cbor:"1,keyasint"`
	Offset int64  `cbor:"2,keyasint,omitempty"`
}

// AllOutput asks for all output of a task.
func AllOutput(id taskstate.TaskID, follow bool) Request {
	return Request{Task: id, Parts: []Part{{Stream: Stdout}, {Stream: Stderr}}, Follow: follow}
}

// Validate tells whether the request can be answered at all.
func (r Request) Validate() error {
	if _, err := r.Task.Folder(); err != nil {
		return err
	}
	if len(r.Parts) == 0 || len(r.Parts) > 2 {
		return errors.New("a logs request names one or two streams")
	}
	for i, p := range r.Parts {
		if p.Stream != Stdout && p.Stream != Stderr {
			return fmt.Errorf("stream %.20q: expected %s or %s", p.Stream, Stdout, Stderr)
		}
		if p.Offset < 0 {
			return fmt.Errorf("offset %d of %s: expected 0 or more", p.Offset, p.Stream)
		}
		if slices.ContainsFunc(r.Parts[:i], func(o Part) bool { return o.Stream == p.Stream }) {
			return fmt.Errorf("stream %s is asked for twice", p.Stream)
		}
	}
	if r.Tail < 0 || r.Tail > MaxTail {
		return fmt.Errorf("tail %d: expected 0 to %d lines", r.Tail, MaxTail)
	}
	if r.Since < 0 {
		return fmt.Errorf("since %d: expected 0 or more", r.Since)
	}
	return nil
}

// Chunk is a piece of one stream.
type Chunk struct {
	Stream string `cbor:"1,keyasint,omitempty"`
	Offset int64  `cbor:"2,keyasint,omitempty"` // of the first byte of Data in the stream
	Data   []byte `cbor:"3,keyasint,omitempty"` // at most MaxChunk; valid until the callback returns
	EOF    bool   `cbor:"4,keyasint,omitempty"` // nothing follows in this stream
	At     int64  `cbor:"5,keyasint,omitempty"` // when Data was there, Unix milliseconds by that peer's clock; 0: not asked for, or not known

	Dropped int64 `cbor:"6,keyasint,omitempty"` // so many bytes before Offset are not kept any more: of a service, only the newest output is
}

// answer is a frame from the peer that has the output: a chunk, an error, or neither – a sign of
// life.
type answer struct {
	Chunk *Chunk `cbor:"1,keyasint,omitempty"`
	Error *Error `cbor:"2,keyasint,omitempty"`
}

// Codes of Error.
const (
	CodeNotFound = "not-found" // this peer has no output of this task
	CodeBad      = "bad-request"
	CodeBusy     = "busy"    // too many readers; try again
	CodeRefused  = "refused" // it is not for who asks
	CodeFailed   = "failed"
)

// Error is why output cannot be had from a peer.
type Error struct {
	Code    string `cbor:"1,keyasint"`
	Message string `cbor:"2,keyasint"`
}

func (e *Error) Error() string { return e.Message }

// Refused tells whether err says that the output is not for who asks.
func Refused(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == CodeRefused
}

// Failed reports whether err is a peer's word that it cannot read output it has: asking again does
// not help.
func Failed(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == CodeFailed
}

// NotFound tells whether err says that a peer has no output of the task.
func NotFound(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == CodeNotFound
}
