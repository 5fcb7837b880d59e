package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// homePlan is what of a job can be brought now, and what cannot.
type homePlan struct {
	bring   []taskFiles
	bytes   int64
	none    int         // tasks that ended well and left no files
	open    []api.Task  // have not ended
	failed  []api.Task  // have not ended well, and left nothing
	partial []api.Task  // have not ended well, and left something that was not asked for
	away    []taskFiles // none of those who keep them is here
}

// planHome sorts the newest attempts of a job's slots.
func planHome(tasks []api.Task, partial bool) (p homePlan) {
	for _, t := range tasks {
		left := t.Output != nil && t.Output.Ref != nil
		switch {
		case !over(t.State):
			p.open = append(p.open, t)
		case t.State == "complete" && !left:
			p.none++
		case t.State == "complete", left && partial:
			p.bring = append(p.bring, parcelOf(t))
			p.bytes += t.Output.Bytes
		case left:
			p.partial = append(p.partial, t)
		default:
			p.failed = append(p.failed, t)
		}
	}
	return p
}

// missing says what is not there, "" if all is.
func (p *homePlan) missing() string {
	var words []string
	if n := len(p.open); n > 0 {
		words = append(words, fmt.Sprintf("%s not ended yet, for which --wait waits", has(n)))
	}
	if n := len(p.partial); n > 0 {
		words = append(words, fmt.Sprintf("%s not ended well, and --partial brings what it wrote", has(n)))
	}
	if n := len(p.failed); n > 0 {
		words = append(words, fmt.Sprintf("%s not ended well and left no files", has(n)))
	}
	if n := len(p.away); n > 0 {
		words = append(words, fmt.Sprintf("what %s left is kept by %s, and none of them is here", countOf(n, "task"), keepersOf(p.away)))
	}
	return strings.Join(words, "; ")
}

// keepersOf names those who keep some of what tasks left.
func keepersOf(parcels []taskFiles) string {
	var names []string
	for _, p := range parcels {
		names = append(names, p.keepers...)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// leaveOut takes away what nobody keeps who is here, and tells whether that is some of it, and not
// all.
func (p *homePlan) leaveOut(peers []api.Peer) bool {
	ready := map[string]bool{}
	for _, x := range peers {
		ready[x.ID] = x.Standing == "ready"
	}
	var here, away []taskFiles
	for _, x := range p.bring {
		if slices.ContainsFunc(x.at, func(id string) bool { return ready[id] }) {
			here = append(here, x)
		} else {
			away = append(away, x)
		}
	}
	if len(here) == 0 || len(away) == 0 {
		return false
	}
	p.bring, p.away, p.bytes = here, away, 0
	for _, x := range here {
		p.bytes += x.bytes
	}
	return true
}

func has(tasks int) string {
	if tasks == 1 {
		return "1 task has"
	}
	return fmt.Sprintf("%d tasks have", tasks)
}

// refusal is why nothing of a single task can be brought, nil if something can.
func (p *homePlan) refusal() error {
	switch {
	case len(p.open) > 0:
		t := p.open[0]
		return api.Errorf(api.Failed, "task %s has not ended: it is %s; --wait waits for it", t.Called(), taskState(t))
	case len(p.partial) > 0:
		t := p.partial[0]
		return api.Errorf(api.Failed, "task %s %s (%s), so what it wrote may be half of it; --partial brings it: %s in %s",
			t.Called(), taskstate.Shown(t.State), endText(t), bytesText(t.Output.Bytes), countOf(t.Output.Files, "file"))
	case len(p.failed) > 0:
		t := p.failed[0]
		return api.Errorf(api.Failed, "task %s %s (%s) and left no files", t.Called(), taskstate.Shown(t.State), endText(t))
	}
	return nil
}

// endText is how a task ended that is not complete.
func endText(t api.Task) string {
	switch {
	case t.ExitCode != nil && *t.ExitCode > 0:
		return fmt.Sprintf("exit %d", *t.ExitCode)
	case t.Message != "":
		return t.Message
	}
	return orDash(t.Reason)
}
