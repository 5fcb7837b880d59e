package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

func TestAJobsSpellsOfWaitingAreRememberedByReasonTheNewestFew(t *testing.T) {
	j := &jobState{}
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for _, x := range []struct {
		at     int
		reason string
		want   string
	}{
		{1, "no room", "no room 1-1"},
		{3, "no room", "no room 1-3"},
		{4, "no peers", "no room 1-4, no peers 4-4"},
		{6, "", "no room 1-4, no peers 4-6"},
		{8, "", "no room 1-4, no peers 4-6"},
		{9, "no peers", "no room 1-4, no peers 4-6, no peers 9-9"},
		{10, "", "no room 1-4, no peers 4-6, no peers 9-10"},
	} {
		j.noteWaiting(x.reason, at(x.at))
		got := ""
		for i, w := range j.waited {
			if i > 0 {
				got += ", "
			}
			got += fmt.Sprintf("%s %d-%d", w.Reason, w.From.Unix(), w.To.Unix())
		}
		if got != x.want {
			t.Errorf("at %d: %s, want %s", x.at, got, x.want)
		}
	}
	for i := range 2 * keepSpells {
		j.noteWaiting(fmt.Sprint(i), at(20+i))
	}
	if len(j.waited) != keepSpells || j.waited[keepSpells-1].Reason != fmt.Sprint(2*keepSpells-1) {
		t.Errorf("%+v", j.waited)
	}
}

func TestASpellOfWaitingLastsUntilAllCouldBePlaced(t *testing.T) {
	j := &jobState{}
	c := &explainer{jobs: &jobs{all: map[taskstate.JobID]*jobState{"j": j}}}
	j.noteWaiting("no room", time.Unix(1, 0))
	j.noteWaiting("no peers", time.Unix(2, 0))
	if w := c.waited("j"); len(w) != 2 || w[0].Lasts || !w[1].Lasts {
		t.Errorf("while it waits: %+v", w)
	}
	j.noteWaiting("", time.Unix(3, 0))
	if w := c.waited("j"); len(w) != 2 || w[1].Lasts || w[1].To != time.Unix(3, 0) {
		t.Errorf("afterwards: %+v", w)
	}
}

func TestWhyAJobWaitedIsKnownAfterItWasCancelledAndWhenItGoesOn(t *testing.T) {
	r := newRig(t, CoreConfig{})
	r.commands("member a", "hello a cpus=4", "submit j count=2 cpus=8")
	r.apply(ledger.Command{Cancel: &ledger.Cancel{Job: "j"}})
	w := r.core.Waited("j")
	if len(w) == 0 || w[0].Reason == "" || w[len(w)-1].Lasts {
		t.Fatalf("after its end: %+v", w)
	}
	r.retry("j", ledger.Slots{First: 1, N: 1})
	if got := r.core.Waited("j"); len(got) < len(w) || got[0].Reason != w[0].Reason || got[0].From != w[0].From {
		t.Errorf("when it goes on: %+v, before: %+v", got, w)
	}
	var p pastWaits
	for i := range 3 * keepEnded {
		p.put(taskstate.JobID(fmt.Sprint(i)), w)
	}
	if p.take("0") != nil || len(p.of) != keepEnded || len(p.order) != keepEnded || p.take(p.order[7]) == nil || len(p.order) != keepEnded-1 {
		t.Errorf("of jobs that are over it keeps %d, %d", len(p.of), len(p.order))
	}
}
