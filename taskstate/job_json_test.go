package taskstate_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/coveyproject/covey/taskstate"
)

func TestAJobSurvivesTheWayThroughJSON(t *testing.T) {
	job := taskstate.Job{
		ID: "k3v5q7x2ab", Name: "frames", Type: taskstate.BatchJob, Count: 2, Each: []string{"a b", "ü"}, First: 5, Numbered: true,
		Run:       taskstate.Run{Process: &taskstate.Process{Command: []string{"x", "{}"}, Env: map[string]string{"K": "v"}, Dir: "d", Script: []byte{0, 255}, Braces: true}},
		Resources: taskstate.Resources{MilliCPU: 500, Memory: 1 << 20}, Timeout: 1500, Parallel: 3,
		Unreachable: taskstate.Unreachable{ReplaceAfter: 10_000}, Submitter: "peer", MaxPerPeer: 1,
	}
	b, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	var back taskstate.Job
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(job, back); d != "" {
		t.Fatalf("(-sent +read)\n%s", d)
	}
	for _, word := range []string{`"max_per_peer":1`, `"timeout_ms":1500`, `"milli_cpu":500`, `"replace_after_ms":10000`} {
		if !strings.Contains(string(b), word) {
			t.Errorf("no %s in %s", word, b)
		}
	}
}

func TestEveryFieldOfAJobIsSpeltInLowerSnakeCase(t *testing.T) {
	var look func(reflect.Type)
	look = func(ty reflect.Type) {
		for i := range ty.NumField() {
			f := ty.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r != '_' && !unicode.IsLower(r) }) {
				t.Errorf("%s.%s is %q in JSON", ty.Name(), f.Name, name)
			}
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				look(inner)
			}
		}
	}
	look(reflect.TypeFor[taskstate.Job]())
}

func TestAJobThatDoesNotSpeakOfPriorityHasTheDefaultAndZeroStaysZero(t *testing.T) {
	for text, want := range map[string]int{`{}`: taskstate.DefaultPriority, `{"priority": 0}`: 0, `{"priority": 70}`: 70} {
		var j taskstate.Job
		if err := json.Unmarshal([]byte(text), &j); err != nil || j.Priority != want {
			t.Errorf("%s: %d, %v; want %d", text, j.Priority, err, want)
		}
		b, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		var again taskstate.Job
		if err := json.Unmarshal(b, &again); err != nil || again.Priority != want {
			t.Errorf("%s came back as %d, %v", b, again.Priority, err)
		}
	}
}
