package main

import (
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"
)

func TestWhatIsLeftOnAPeerIsSaidWithWhatKeepsIt(t *testing.T) {
	until := time.Now().Add(time.Hour)
	d := api.Draining{Left: 4, Tasks: []api.Task{{ID: "j.1.1", State: "running"}, {ID: "j.2.1", State: "accepted"}}}
	for _, c := range []struct {
		change func(*api.Draining)
		shown  int
		want   string
	}{
		{func(*api.Draining) {}, 1, "4 tasks left: j.1.1 running and 3 more"},
		{func(*api.Draining) {}, 3, "4 tasks left: j.1.1 running, j.2.1 accepted and 2 more"},
		{func(d *api.Draining) { d.Left = 2 }, 3, "2 tasks left: j.1.1 running, j.2.1 accepted"},
		{func(d *api.Draining) { d.Left, d.Tasks = 1, nil }, 3, "1 task left"},
		{func(d *api.Draining) { d.Note = "the peer is away" }, 1, "4 tasks left: j.1.1 running and 3 more; the peer is away"},
		{func(d *api.Draining) { d.Until = &until }, 1, "4 tasks left: j.1.1 running and 3 more (batch tasks may go on for 1h0m"},
	} {
		x := d
		c.change(&x)
		if got := leftText(x, c.shown); got != c.want && !(x.Until != nil && strings.HasPrefix(got, c.want[:len(c.want)-5])) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestLabelsAreReadAsTheyAreTyped(t *testing.T) {
	l, err := labelWords([]string{"zone=west", "eq=a=b", "empty=", "gone-", "minus=x-"})
	if err != nil || len(l.Set) != 4 || l.Set["eq"] != "a=b" || l.Set["empty"] != "" || l.Set["minus"] != "x-" || len(l.Unset) != 1 || l.Unset[0] != "gone" {
		t.Errorf("%+v %v", l, err)
	}
	for _, bad := range [][]string{{"zone"}, {"a=1", "a=2"}} {
		if _, err := labelWords(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestOffersAreReadAsTheyAreTyped(t *testing.T) {
	f := upFlags{offers: []string{"license=5", "tape=1"}, gpus: 2}
	if got, err := f.counts(); err != nil || got != "gpus=2,license=5,tape=1" {
		t.Errorf("%q %v", got, err)
	}
	for _, f := range []upFlags{{offers: []string{"a"}}, {offers: []string{"a=0"}}, {offers: []string{"a=-1"}}, {offers: []string{"a=1.5"}}, {offers: []string{"=1"}}, {gpus: -1}, {gpus: 1 << 21}} {
		if got, err := f.counts(); err == nil {
			t.Errorf("%+v was read as %q", f, got)
		}
	}
}
