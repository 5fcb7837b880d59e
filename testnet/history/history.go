package history

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Kind is what a client asked for.
type Kind uint8

// The kinds. End is nobody's call: it is the moment the job's end was decided, for histories that
// know it.
const (
	Submit Kind = iota + 1
	Cancel
	Read
	End
)

// Answer is what came back from a Submit or Cancel.
type Answer uint8

// The answers.
const (
	Unknown Answer = iota // none, or one that promises nothing: it may have happened, may still happen, or never
	Done                  // acknowledged
	Over                  // refused: the job had ended
	Other                 // refused: the id is another job's
)

// View is a job as a client saw it.
type View struct {
	Known     bool
	Cancelled bool
	End       string // "" while it has not ended
}

// String describes a view for a reader.
func (v View) String() string {
	switch {
	case !v.Known:
		return "unknown"
	case v.End != "":
		return fmt.Sprintf("%s (cancelled %t)", v.End, v.Cancelled)
	}
	return fmt.Sprintf("alive (cancelled %t)", v.Cancelled)
}

// Op is one call, from invocation to response.
type Op struct {
	Kind    Kind
	Job     string
	Content string // Submit: what the job is
	Answer  Answer // Submit, Cancel
	View    View   // Read, and End
	Session string // Read: one life of one peer, asked by one client. "" is no session
	Fresh   bool   // Read: not allowed to be behind
	Call    time.Duration
	Return  time.Duration // for Unknown it does not matter
}

var kindNames = [...]string{"?", "submit", "cancel", "read", "end"}

var answerNames = [...]string{"unknown", "done", "over", "another job's"}

// String describes a call for a reader.
func (o Op) String() string {
	s := fmt.Sprintf("%12v –%12v %s %s", o.Call, o.Return, kindNames[o.Kind], o.Job)
	switch o.Kind {
	case Submit:
		return fmt.Sprintf("%s %q: %s", s, o.Content, answerNames[o.Answer])
	case Cancel:
		return fmt.Sprintf("%s: %s", s, answerNames[o.Answer])
	}
	if o.Session != "" {
		s += " in " + o.Session
	}
	return fmt.Sprintf("%s: %v", s, o.View)
}

// History collects calls. The zero value is empty; it is safe for concurrent use.
type History struct {
	mu  sync.Mutex
	ops []Op
}

// Add records a call that is over.
func (h *History) Add(o Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
}

// Ops are the calls so far, by the time of their invocation.
func (h *History) Ops() []Op {
	h.mu.Lock()
	defer h.mu.Unlock()
	ops := slices.Clone(h.ops)
	slices.SortStableFunc(ops, func(a, b Op) int { return int(a.Call - b.Call) })
	return ops
}
