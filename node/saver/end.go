package saver

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/coveyproject/covey/node/blob/disk"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

// collected is what was found of what a task left, and is safe on this peer's disk.
type collected struct {
	saved     taskstate.Saved // Root, Bytes, Files, Logs
	unmatched []string        // globs that match nothing
	there     []string        // then: what is there instead, or some of it
	left      disk.Collected
	err       error // it could not be collected
}

// partial is what is kept of a task that is not complete; nil: nothing.
func (c *collected) partial(self taskstate.PeerID) *taskstate.Saved {
	if c.saved.Root.IsZero() && c.saved.Logs.IsZero() {
		return nil
	}
	s := c.saved
	s.Keep, s.Keepers = 1, []taskstate.PeerID{self}
	return &s
}

// endOf is the end of a process, as Saving told it.
func endOf(r taskstate.RunReport) taskstate.RunReport {
	if r.State == taskstate.Saving {
		r.State = taskstate.Failed
		if r.Reason == taskstate.ReasonNone && r.Exit == 0 {
			r.State = taskstate.Complete
		}
	}
	return r
}

// stopped is the end of a task that was stopped, while it was saved or before. One that had failed
// by itself has failed.
func stopped(end taskstate.RunReport, why taskstate.Reason, kept *taskstate.Saved) taskstate.RunReport {
	if end.Saved = kept; end.State == taskstate.Complete {
		end.State, end.Reason = taskstate.Shutdown, why
		end.Message = add(end.Message, "stopped while its files were being kept: "+string(why))
	}
	return end
}

// settle decides what becomes of a task whose files were collected, and how many other peers are to
// keep a copy before it is told.
func settle(job *taskstate.Job, self taskstate.PeerID, end taskstate.RunReport, c collected) (r taskstate.RunReport, copies int) {
	r = end
	r.Saved = c.partial(self)
	switch missing := job.Outputs != nil && len(c.unmatched) > 0; {
	case end.State == taskstate.Failed && c.err != nil:
		r.Message = add(r.Message, "its files could not be kept: "+c.err.Error())
	case end.State == taskstate.Failed:
		r.Message = add(r.Message, c.refused())
		if job.Outputs == nil { // logs are all there is to keep, and of most use now
			copies = job.Copies()
		}
	case errors.Is(c.err, tree.ErrRefused):
		r.State, r.Reason = taskstate.Failed, taskstate.ReasonNoOutput
		r.Message = add(r.Message, "its files cannot be kept: "+tree.Reason(c.err))
	case len(c.left.Refused) > 0:
		r.State, r.Reason = taskstate.Failed, taskstate.ReasonNoOutput
		r.Message = add(r.Message, c.refused())
		if job.Outputs == nil {
			copies = job.Copies()
		}
	case c.err != nil:
		r.State, r.Reason = taskstate.Failed, taskstate.ReasonOutputLost
		if supervise.Exhausted(c.err) {
			r.Exhausted = c.err.Error()
		}
		r.Message = add(r.Message, "it ended well, but its files could not be kept: "+advice(c.err))
	case missing && cmp.Or(job.Outputs.Missing, taskstate.MissingFails) == taskstate.MissingFails:
		r.State, r.Reason = taskstate.Failed, taskstate.ReasonNoOutput
		r.Message = add(r.Message, c.nothing())
	default:
		copies = job.Copies()
		if missing && job.Outputs.Missing == taskstate.MissingWarns {
			r.Message = add(r.Message, c.nothing())
		}
	}
	if len(c.left.Skipped) > 0 {
		r.Message = add(r.Message, "not kept: "+c.skipped())
	}
	r.Message = taskstate.ClipText(r.Message, taskstate.MaxMessage)
	if r.Saved == nil || copies <= 1 {
		return r, 0
	}
	r.Saved.Keep = copies
	return r, copies - 1
}

// advice adds what to do about an error of the store.
func advice(err error) string {
	var full *store.NoRoom
	if errors.As(err, &full) {
		return full.Error() + "; make room on that peer's disk"
	}
	return err.Error()
}

// nothing says which globs match nothing, and what is there.
func (c *collected) nothing() string {
	what := "its folder is empty"
	if len(c.there) > 0 {
		what = "its folder has " + some(c.there, 0)
	}
	globs := make([]string, len(c.unmatched))
	for i, g := range c.unmatched {
		globs[i] = strconv.Quote(g)
	}
	return fmt.Sprintf("nothing it left matches %s: %s", some(globs, 0), what)
}

// refused says what matches and cannot be kept; "": all can.
func (c *collected) refused() string {
	if len(c.left.Refused) == 0 {
		return ""
	}
	return "not all of its files can be kept: " + some(c.left.Refused, c.left.Others)
}

func (c *collected) skipped() string {
	var names []string
	for _, s := range c.left.Skipped {
		names = append(names, shown(s.Path)+" ("+s.Why+")")
	}
	return some(names, c.left.More)
}

// some lists a few of some words.
func some(words []string, more int) string {
	const few = 8
	if n := len(words) - few; n > 0 {
		words, more = words[:few], more+n
	}
	text := strings.Join(words, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// shown is a name for people, quoted if it has to be.
func shown(name string) string {
	const most = 80
	if len(name) > most {
		name = name[:most] + "…"
	}
	if q := strconv.Quote(name); q != `"`+name+`"` || strings.ContainsAny(name, " ,") {
		return q
	}
	return name
}

// add joins sentences of a message.
func add(text, more string) string {
	switch {
	case text == "":
		return more
	case more == "":
		return text
	}
	return text + "; " + more
}

// owed says why there are fewer copies than wanted.
func owed(no []keep.Decline, others int, name func(taskstate.PeerID) string) string {
	if others == 0 {
		return "no other peer is here"
	}
	var why []string
	for _, n := range no {
		why = append(why, name(n.Peer)+": "+n.Why.Error())
	}
	if len(why) == 0 {
		return "there are not as many peers"
	}
	slices.Sort(why)
	return taskstate.ClipText(strings.Join(why, "; "), taskstate.MaxMessage)
}
