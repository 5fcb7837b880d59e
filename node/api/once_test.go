package api_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"
)

func TestAnEventIsFirstOnceWhateverItsToken(t *testing.T) {
	zero, one := 0, 1
	at := time.UnixMilli(1000)
	running := api.Event{Seq: 1, Token: "a.1", Time: at, Kind: "task", Job: "j", Task: "j.1.1", Peer: "p", State: "running"}
	again := running
	again.Seq, again.Token = 9, "b.9"
	for name, c := range map[string]struct {
		first, second api.Event
		want          bool
	}{
		"told again after a restart":     {running, again, false},
		"in the list after a restart":    {running, with(again, func(e *api.Event) { e.Snapshot = true }), true},
		"listed, and then told":          {with(running, func(e *api.Event) { e.Snapshot = true }), again, false},
		"another state":                  {running, with(again, func(e *api.Event) { e.State = "complete" }), true},
		"another task":                   {running, with(again, func(e *api.Event) { e.Task = "j.2.1" }), true},
		"another time":                   {running, with(again, func(e *api.Event) { e.Time = at.Add(time.Millisecond) }), true},
		"another peer":                   {running, with(again, func(e *api.Event) { e.Peer = "q" }), true},
		"another message":                {running, with(again, func(e *api.Event) { e.Message = "m" }), true},
		"another kind":                   {running, with(again, func(e *api.Event) { e.Kind = "job" }), true},
		"another exit code":              {with(running, func(e *api.Event) { e.Exit = &zero }), with(again, func(e *api.Event) { e.Exit = &one }), true},
		"no exit code, and one":          {running, with(again, func(e *api.Event) { e.Exit = &zero }), true},
		"the same exit code":             {with(running, func(e *api.Event) { e.Exit = &one }), with(again, func(e *api.Event) { x := 1; e.Exit = &x }), false},
		"a bookmark, which is no event":  {api.Event{Kind: "bookmark", Time: at}, api.Event{Kind: "bookmark", Time: at}, true},
		"a list ends: that is no event":  {api.Event{Kind: "synced", Time: at}, api.Event{Kind: "synced", Time: at}, true},
		"a list begins: that is no more": {api.Event{Kind: "snapshot", Time: at}, api.Event{Kind: "snapshot", Time: at}, true},
	} {
		var o api.Once
		if !o.First(c.first) {
			t.Errorf("%s: the first is no first", name)
		}
		if got := o.First(c.second); got != c.want {
			t.Errorf("%s: first is %t", name, got)
		}
	}
}

func with(e api.Event, f func(*api.Event)) api.Event {
	f(&e)
	return e
}

func TestOnceForgetsTheOldestAndIsBounded(t *testing.T) {
	const most = 1 << 15
	var o api.Once
	nth := func(n int) api.Event { return api.Event{Kind: "task", Task: fmt.Sprint(n)} }
	for n := range most + 10 {
		if !o.First(nth(n)) {
			t.Fatalf("event %d is said to be told before", n)
		}
	}
	for n := range most {
		if o.First(nth(n + 10)) {
			t.Fatalf("event %d is forgotten while %d newer ones are kept", n+10, most-n)
		}
	}
	if !o.First(nth(3)) {
		t.Error("an event is remembered for ever")
	}
}

// All peers were killed, and the one that is asked lists what the ledger has before it hears from
// the workers again.
func TestATaskNeverGoesBackWhateverAPeerListsAfterItsStart(t *testing.T) {
	var o api.Once
	tell := func(task, state string, at int64, listed bool) bool {
		return o.First(api.Event{Kind: "task", Task: task, State: state, Time: time.UnixMilli(at), Snapshot: listed})
	}
	if !tell("j.1.1", "running", 1, false) || tell("j.1.1", "assigned", 2, true) || tell("j.1.1", "accepted", 3, false) {
		t.Error("it goes back")
	}
	if !tell("j.1.2", "assigned", 4, true) || !tell("j.2.1", "assigned", 4, true) {
		t.Error("another attempt, or task, begins where it begins")
	}
	if !tell("j.1.1", "running", 1, true) || !tell("j.1.1", "complete", 5, false) || tell("j.1.1", "running", 1, true) {
		t.Error("it goes on, and stays where it ended")
	}
}
