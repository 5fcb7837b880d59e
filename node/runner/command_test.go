package runner

import (
	"strings"
	"testing"

	"covey/taskstate"

	"pgregory.net/rapid"
)

func TestVariablesAndBracesAreExpandedOnce(t *testing.T) {
	vars := coveyVars(taskstate.Launch{Task: taskstate.Task(testJob, 4, 2), Job: noop(0), Item: "{} ${COVEY_JOB}", Epoch: taskstate.At(1, 7), Peer: "wren"})
	cases := []struct {
		in     string
		braces bool
		want   string
	}{
		{"plain", true, "plain"},
		{"${COVEY_SLOT}.${COVEY_ATTEMPT}", false, "4.2"},
		{"${COVEY_ITEM}", true, "{} ${COVEY_JOB}"},
		{"<{}>", true, "<{} ${COVEY_JOB}>"},
		{"<{}>", false, "<{}>"},
		{"${HOME} $COVEY_SLOT ${COVEY_NONE}", true, "${HOME} $COVEY_SLOT ${COVEY_NONE}"},
		{"${COVEY_SLOT", false, "${COVEY_SLOT"},
		{"${COVEY_${COVEY_SLOT}}", false, "${COVEY_4}"},
		{"{{}}", true, "{{} ${COVEY_JOB}}"},
	}
	for _, c := range cases {
		if got := expand(c.in, vars, c.braces, "{} ${COVEY_JOB}"); got != c.want {
			t.Errorf("expand(%q, %v) = %q, want %q", c.in, c.braces, got, c.want)
		}
	}
}

func TestWhatNamesNoVariableStaysAsItIs(t *testing.T) {
	vars := coveyVars(launch(noop(0), 1))
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[a-z{}$ ]{0,20}(\$\{COVEY_[A-Z]{0,3}\}?)?`).Draw(t, "s")
		if got := expand(s, vars, false, "x"); got != s && !strings.Contains(s, "${COVEY_JOB}") {
			t.Fatalf("expand(%q) = %q", s, got)
		}
	})
}

func TestEveryNameIsOnceInTheEnvironment(t *testing.T) {
	vars := coveyVars(launch(noop(0), 1))
	rapid.Check(t, func(t *rapid.T) {
		own := rapid.MapOf(rapid.SampledFrom([]string{"PATH", "HOME", "A", "B", "COVEY_JOB", "COVEY_OWN"}), rapid.String()).Draw(t, "own")
		seen := make(map[string]string)
		for _, kv := range environment([]string{"PATH=p", "HOME=h"}, own, vars) {
			k, v, _ := strings.Cut(kv, "=")
			if _, twice := seen[k]; twice {
				t.Fatalf("%s is there twice", k)
			}
			seen[k] = v
		}
		if seen["COVEY_JOB"] != string(testJob) {
			t.Fatalf("COVEY_JOB = %q", seen["COVEY_JOB"])
		}
		for k, v := range own {
			if !strings.HasPrefix(k, "COVEY_J") && seen[k] != v {
				t.Fatalf("%s = %q, want %q", k, seen[k], v)
			}
		}
	})
}
