package saver

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/node/blob/disk"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/taskstate"
)

func TestTheEndOfATaskFollowsFromItsProcessAndFromWhatWasFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		yes := func(what string) bool { return rapid.Bool().Draw(t, what) }
		job := &taskstate.Job{ID: "k3v5q7x2ab", KeepLogs: rapid.IntRange(0, 3).Draw(t, "keep logs")}
		if yes("outputs") || job.KeepLogs < 2 {
			job.Outputs = &taskstate.Outputs{
				Globs: []string{"a", "b"}, Keep: rapid.IntRange(0, 4).Draw(t, "keep"),
				Missing: rapid.SampledFrom([]taskstate.Missing{"", taskstate.MissingFails, taskstate.MissingWarns, taskstate.MissingOK}).Draw(t, "missing"),
			}
		}
		end := taskstate.RunReport{Task: taskstate.Task(job.ID, 1, 1), State: taskstate.Complete, Took: 5, Truncated: yes("truncated")}
		if yes("failed") {
			end.State, end.Exit, end.Reason = taskstate.Failed, 3, taskstate.ReasonExit
			end.Message = strings.Repeat("é", rapid.IntRange(0, 600).Draw(t, "words"))
		}
		var c collected
		switch rapid.IntRange(0, 3).Draw(t, "trouble") {
		case 1:
			c.err = fmt.Errorf("%w: it leads out", tree.ErrRefused)
		case 2:
			c.err = errors.New("the disk is broken")
			if yes("too many files are open") {
				c.err = &fs.PathError{Op: "open", Path: "work", Err: syscall.EMFILE}
			}
		default:
			if yes("logs") {
				c.saved.Logs = piece.Root{1}
			}
			if job.Outputs != nil && yes("something") {
				c.saved.Root, c.saved.Bytes, c.saved.Files = piece.Root{2}, 3, 4
			}
			if job.Outputs != nil && yes("unmatched") {
				c.unmatched, c.there = []string{"a"}, []string{"c"}
			}
			if yes("refused") {
				c.left.Refused = []string{"x is a link to y, which leads out"}
			}
			for i := range rapid.IntRange(0, 40).Draw(t, "skipped") {
				c.left.Skipped = append(c.left.Skipped, disk.Skipped{Path: fmt.Sprint(strings.Repeat("x", 100), i), Why: "is a FIFO"})
			}
		}
		r, copies := settle(job, "me", end, c)
		if lost := r.Reason == taskstate.ReasonOutputLost && errors.Is(c.err, syscall.EMFILE); (r.Exhausted != "") != lost {
			t.Fatalf("%+v: %v", r, c.err)
		}

		missing := len(c.unmatched) > 0 && job.Outputs.Missing != taskstate.MissingOK && job.Outputs.Missing != taskstate.MissingWarns
		complete := end.State == taskstate.Complete && c.err == nil && !missing && len(c.left.Refused) == 0
		something := !c.saved.Root.IsZero() || !c.saved.Logs.IsZero()
		wanted := 1 // of a task that failed what it left is kept here
		if complete || job.Outputs == nil && c.err == nil {
			wanted = job.Copies()
		}
		switch {
		case (r.State == taskstate.Complete) != complete, complete != (r.Reason == taskstate.ReasonNone):
			t.Fatalf("%+v", r)
		case r.Exit != end.Exit || r.Took != end.Took || r.Truncated != end.Truncated || r.Task != end.Task:
			t.Fatalf("it is another process: %+v", r)
		case end.State == taskstate.Failed && r.Reason != end.Reason:
			t.Fatalf("it failed for another reason: %+v", r)
		case len(r.Message) > taskstate.MaxMessage:
			t.Fatalf("%d bytes to say", len(r.Message))
		case (r.Saved != nil) != something:
			t.Fatalf("kept: %+v of %+v", r.Saved, c.saved)
		case r.Saved == nil && copies != 0, r.Saved != nil && copies != wanted-1:
			t.Fatalf("%d more copies, of %d", copies, wanted)
		case r.Saved != nil && (r.Saved.Keep != wanted || len(r.Saved.Keepers) != 1 || r.Saved.Keepers[0] != "me" || r.Saved.Root != c.saved.Root || r.Saved.Logs != c.saved.Logs):
			t.Fatalf("%+v", r.Saved)
		}
		if again := endOf(saying(end)); again != end {
			t.Fatalf("after a restart it ended as %+v, not %+v", again, end)
		}
		if s := stopped(r, taskstate.ReasonCancelled, c.partial("me")); s.State != taskstate.Shutdown && r.State != taskstate.Failed || s.Saved != nil && s.Saved.Keep != 1 {
			t.Fatalf("stopped: %+v", s)
		}
	})
}

// saying is how Saving tells of the end of a process.
func saying(end taskstate.RunReport) taskstate.RunReport {
	end.State = taskstate.Saving
	return end
}
