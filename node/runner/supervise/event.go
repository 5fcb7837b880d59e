package supervise

import (
	"errors"
	"syscall"
	"time"

	"github.com/coveyproject/covey/node/runner/sandbox"
)

// Spec is a process to run.
type Spec struct {
	Task      string // its id: what all else refers to
	Home      string // the attempt's folder, there already: stdout and stderr are created in it
	Path, Dir string // program and working directory, absolute
	Argv, Env []string
	Timeout   time.Duration // from its start until it is stopped; 0: none
	Cap       int64         // bytes kept of each output file; 0: as Configure says
	Stdin     bool          // it reads what is put into InputFolder of Home, and not an empty stdin
	Secrets   string        // a folder that is removed when the task has ended; "": none
	Newest    bool          // beyond the cap the newest output stays, as far as the disk can do that, and not the oldest
	Box       *sandbox.Spec // what it is kept from; nil: nothing
}

// plain tells whether the spec says nothing that version 1 of the protocol could not say.
func (s Spec) plain() bool {
	return s.Cap == 0 && !s.Newest && !s.Stdin && s.Secrets == "" && s.Box == nil
}

// Kind says what an Event is.
type Kind uint8

// Kinds of events. Started comes first or not at all; Refused, Ended and Lost are the end of a task
// and come once per connection until acknowledged.
const (
	Started Kind = iota + 1 // it runs; also: it still runs, in what a Client finds
	Refused                 // it could not be started: Errno and Err say why
	Ended                   // it is over
	Lost                    // it was running when its supervisor or the machine ended, and is no more
	welcome                 // a connection's first
	synced                  // all that is known has been told
)

// Event is what became of a process.
type Event struct {
	Kind     Kind
	Task     string
	At       int64            // local clock, milliseconds since 1970
	Took     int64            // of an end: milliseconds since it was started, by the monotonic clock; 0: it was not, or that is not known
	Held     sandbox.Confined // what it is, or was, kept from; 0: it was not started, or that is not known
	Exit     int
	Signal   int
	Reason   string   // why it was asked to stop, "" if it was not
	Timeout  bool     // it was stopped at its timeout
	Unseen   bool     // nobody saw how it ended
	Alone    bool     // nobody else was left in its group
	Unbegun  bool     // it was stopped before it was started, or never was
	Rebooted bool     // of Lost: the machine was started again since
	Sizes    [2]int64 // of its output files
	Cut      [2]bool  // what it wrote to them beyond the cap was not kept
	Errno    int      // of Refused: why; of Ended: why its output may not be whole, 0: it is
	Err      string
	version  int
}

// in is the event as a peer hears it that speaks a version of the protocol.
func (e Event) in(version int) Event {
	if version < 2 {
		e.Cut, e.Took, e.Held = [2]bool{}, 0, 0
	}
	return e
}

// heard is the event as a supervisor meant it that speaks a version of the protocol and has this
// cap: before version 2, a file that is larger than that was cut and ends with a note.
func (e Event) heard(version int, logCap int64) Event {
	if version < 2 && e.Kind == Ended {
		e.Cut = [2]bool{e.Sizes[0] > logCap, e.Sizes[1] > logCap}
	}
	return e
}

// Final tells whether the event is the end of a task.
func (e Event) Final() bool { return e.Kind == Refused || e.Kind == Ended || e.Kind == Lost }

// Cause is why a process was refused.
func (e Event) Cause() error {
	if e.Errno != 0 {
		return syscall.Errno(e.Errno)
	}
	return errors.New(e.Err)
}

// Lost is why the output of a task that ended may not be whole, nil if it is.
func (e Event) Lost() error {
	if e.Kind != Ended || e.Errno == 0 {
		return nil
	}
	return syscall.Errno(e.Errno)
}

// lossOf is the error of the system in why output could not be completed.
func lossOf(err error) syscall.Errno {
	var n syscall.Errno
	if !errors.As(err, &n) {
		return syscall.EIO
	}
	return n
}

func refused(task string, err error) Event {
	e := Event{Kind: Refused, Task: task, At: now(), Err: err.Error()}
	if n, ok := errors.AsType[syscall.Errno](err); ok {
		e.Errno = int(n)
	}
	return e
}

func now() int64 { return time.Now().UnixMilli() }

type orderKind uint8

const (
	orderHello orderKind = iota + 1
	orderStart
	orderStop
	orderAck
	orderEnd       // everything, at once, and itself
	orderStartWith // since version 2: a start with all that a Spec can say, but for Box
	orderStartIn   // since version 2: and Box
)

type order struct {
	kind    orderKind
	spec    Spec     // start
	task    string   // stop
	reason  string   // stop
	tasks   []string // ack
	version int      // hello, and what follows
	logCap  int64
	grace   time.Duration
	guard   int // end with this process, 0: with none
}
