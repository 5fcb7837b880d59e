package main

import (
	"fmt"
	"io"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// whyPrinter prints for a user who waits for a job why it or a part of it does not run, and what of
// it cannot be reached: each thing once. The peer gives reasons after two seconds.
type whyPrinter struct {
	w    io.Writer
	bar  *progress // on a terminal it says the same; nil: none
	said string
	away map[string]bool
}

func (t *whyPrinter) heard(j api.Job) {
	for _, a := range j.Unreachable {
		if t.away[a.Peer] {
			continue
		}
		if t.away == nil {
			t.away = map[string]bool{}
		}
		t.away[a.Peer] = true
		t.say(awayText(a))
	}
	if len(j.Unreachable) == 0 {
		t.away = nil
	}
	if j.Over() || j.Waiting == "" || j.Waiting == t.said || j.State == "held" || t.bar != nil && t.bar.on && j.Count > 1 {
		return
	}
	said := t.said
	t.said = j.Waiting
	if reached(j) > 0 && j.Type == string(taskstate.BatchJob) && (said != "" || j.Tasks["pending"] > 0) {
		return // more than the peers can run at once is what arrays are for
	}
	t.say(waitingText(j.Waiting))
}

func (t *whyPrinter) say(text string) {
	if t.bar != nil {
		t.bar.clear()
	}
	fmt.Fprintln(t.w, printable("peer: "+text))
}
