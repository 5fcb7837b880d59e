package main

import (
	"fmt"
	"io"

	"github.com/coveyproject/covey/node/api"
)

// whyPrinter tells who waits for a job why nothing of it runs, and what of it cannot be reached:
// each thing once. The peer says it after two seconds.
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
	if j.Over() || j.Waiting == "" || j.Waiting == t.said || j.State == "held" || reached(j) > 0 || t.bar != nil && t.bar.on && j.Count > 1 {
		return
	}
	t.said = j.Waiting
	t.say(waitingText(j.Waiting))
}

func (t *whyPrinter) say(text string) {
	if t.bar != nil {
		t.bar.clear()
	}
	fmt.Fprintln(t.w, printable("peer: "+text))
}
