package process

import (
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate"

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
		{`\{} \{{}}`, true, `{} \{{} ${COVEY_JOB}}`},
		{`\{}`, false, `\{}`},
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

func TestATaskSeesWhereItStandsInTheMatrix(t *testing.T) {
	job := noop(0)
	job.Matrix = []taskstate.Axis{{Name: "size", Values: []string{"s", "l"}}, {Name: "learning_rate", Values: []string{"0.1", "a b", "${COVEY_JOB}"}}}
	job.Count = 6
	for slot, want := range map[int]string{
		1: "s|0.1|s,0.1|6", 2: "s|a b|s,a b|6", 3: "s|${COVEY_JOB}|s,${COVEY_JOB}|6", 4: "l|0.1|l,0.1|6", 6: "l|${COVEY_JOB}|l,${COVEY_JOB}|6",
	} {
		l := taskstate.Launch{Task: taskstate.Task(testJob, slot, 1), Job: job, Item: job.Item(slot)}
		vars := coveyVars(l)
		if got := expand("${COVEY_SIZE}|${COVEY_LEARNING_RATE}|{}|${COVEY_COUNT}", vars, true, l.Item); got != want {
			t.Errorf("slot %d: %q, want %q", slot, got, want)
		}
		env := environment(nil, map[string]string{"COVEY_SIZE": "forged"}, vars)
		if got := getenv(env, "COVEY_SIZE") + "|" + getenv(env, "COVEY_LEARNING_RATE"); !strings.HasPrefix(want, got) {
			t.Errorf("slot %d: the environment has %q, want %q", slot, got, want)
		}
	}
	if got := expand("${COVEY_SIZE}", coveyVars(taskstate.Launch{Task: taskstate.Task(testJob, 7, 1), Job: job}), false, ""); got != "${COVEY_SIZE}" {
		t.Errorf("a slot outside the matrix: %q", got)
	}
}

func TestAnAxisNeverHidesWhatATaskIs(t *testing.T) {
	job := noop(0)
	job.Matrix, job.Count = []taskstate.Axis{{Name: "task", Values: []string{"forged"}}, {Name: "a", Values: []string{"1"}}, {Name: "a", Values: []string{"2"}}}, 1
	vars := coveyVars(taskstate.Launch{Task: taskstate.Task(testJob, 1, 1), Job: job})
	if got := expand("${COVEY_TASK} ${COVEY_A}", vars, false, ""); got != string(testJob)+".1.1 1" {
		t.Errorf("got %q", got)
	}
	if n := len(environment(nil, nil, vars)); n != 9 {
		t.Errorf("%d variables, want 9: %v", n, vars)
	}
}
