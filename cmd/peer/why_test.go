package main

import (
	"strings"
	"testing"

	"github.com/coveyproject/covey/node/api"
)

func TestWaitingPrintsWhyAPartOfAJobDoesNotRun(t *testing.T) {
	inLine, busy := "1 task waits: in line on one, where 4 of 4 cpus are busy", "3 tasks wait: all 4 cpus are busy"
	array := func(why string, running, pending int) api.Job {
		return api.Job{Type: "batch", State: "running", Count: 5, Waiting: why, Tasks: map[string]int{"running": running, "pending": pending}}
	}
	service := func(why string, running, pending int) api.Job {
		j := array(why, running, pending)
		j.Type = "service"
		return j
	}
	for what, x := range map[string]struct {
		heard []api.Job
		want  []string
	}{
		"an array behind its own tasks":            {[]api.Job{array("", 4, 0), array(inLine, 4, 0), array(inLine, 4, 0)}, []string{"peer: " + inLine}},
		"an array of more than its peers can take": {[]api.Job{array(busy, 4, 3), array(inLine, 4, 0)}, nil},
		"an array behind others":                   {[]api.Job{array("all 4 cpus are busy", 0, 5), array(inLine, 4, 0)}, []string{"peer: waiting: all 4 cpus are busy"}},
		"an array of which nothing runs any more":  {[]api.Job{array(busy, 4, 3), array("all 4 cpus are busy", 0, 3)}, []string{"peer: waiting: all 4 cpus are busy"}},
		"a service": {
			[]api.Job{service(busy, 4, 3), service(inLine, 4, 0), service(inLine+"; do this", 4, 0)},
			[]string{"peer: " + busy, "peer: " + inLine, "peer: " + inLine + "; do this"},
		},
	} {
		var out strings.Builder
		w := whyPrinter{w: &out}
		for _, j := range x.heard {
			w.heard(j)
		}
		if got := strings.TrimSuffix(out.String(), "\n"); got != strings.Join(x.want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", what, got, strings.Join(x.want, "\n"))
		}
	}
}
