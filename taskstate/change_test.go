package taskstate_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coveyproject/covey/taskstate"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// web is a service that says something of everything.
func web() *taskstate.Job {
	update := taskstate.DefaultUpdate()
	return &taskstate.Job{
		ID: "abcdefghij", Name: "web", Type: taskstate.ServiceJob, Count: 3, Run: taskstate.Run{Process: &taskstate.Process{Command: []string{"serve", "-p", "80"}}},
		Resources: taskstate.Resources{MilliCPU: 500, Memory: 256 << 20}, Priority: 50, Restart: taskstate.DefaultRestart(taskstate.ServiceJob), Update: &update,
	}
}

// fieldCase is one field of Job changed: what is shown, and whether tasks that run are replaced.
type fieldCase struct {
	change         func(*taskstate.Job)
	field          string // "" = it is no change at all
	from, to       string
	restarts, once bool
}

// fieldCases has a case for every field of Job, by its name in Go.
func fieldCases() map[string]fieldCase {
	return map[string]fieldCase{
		"ID":        {change: func(j *taskstate.Job) { j.ID = "zzzzzzzzzz" }},
		"Submitter": {change: func(j *taskstate.Job) { j.Submitter = "wren" }},
		"Version":   {change: func(j *taskstate.Job) { j.Version = 7 }},
		"Order":     {func(j *taskstate.Job) { j.Order = &taskstate.Order{By: "finch"} }, "", "", "", false, false},
		"Withheld":  {func(j *taskstate.Job) { j.Withheld = &taskstate.Withheld{Does: []byte{1}} }, "run", "", "", true, true},
		"Origin":    {change: func(j *taskstate.Job) { j.Origin = &taskstate.Origin{Job: "x", At: 1} }},

		"Type":      {func(j *taskstate.Job) { j.Type = taskstate.GlobalJob }, "type", "service", "global", true, true},
		"Each":      {func(j *taskstate.Job) { j.Each = []string{"a", "b", "c"} }, "each", "", "[a, b, c]", true, true},
		"Escaped":   {func(j *taskstate.Job) { j.Escaped = true }, "escaped", "", "true", true, true},
		"First":     {func(j *taskstate.Job) { j.First = 5 }, "array", "", "", true, true},
		"Numbered":  {func(j *taskstate.Job) { j.Numbered = true }, "array", "", "0-2", true, true},
		"Matrix":    {func(j *taskstate.Job) { j.Matrix = []taskstate.Axis{{Name: "s", Values: []string{"1", "2"}}} }, "matrix", "", "{s: [1, 2]}", true, true},
		"Run":       {func(j *taskstate.Job) { j.Run.Process = &taskstate.Process{Command: []string{"serve"}} }, "run", `{"process":{"command":["serve","-p","80"]}}`, `{"process":{"command":["serve"]}}`, true, true},
		"Resources": {func(j *taskstate.Job) { j.Resources.Others = "gpus=2,license=1" }, "resources", "{cpus: 0.5, memory: 256MiB}", "{cpus: 0.5, memory: 256MiB, gpus: 2, license: 1}", true, true},
		"Stdin":     {func(j *taskstate.Job) { j.Stdin = true }, "stdin", "false", "true", true, true},
		"MaxOutput": {func(j *taskstate.Job) { j.MaxOutput = 1 << 30 }, "max_output", "64MiB", "1GiB", true, true},
		"Secrets": {func(j *taskstate.Job) {
			j.Secrets = &taskstate.Secrets{Names: []string{"PW"}, By: "p", Digest: []byte{1, 2, 3, 4, 5}, Sealed: []byte{1}}
		}, "secrets", "", "[PW] (01020304)", true, true},
		"Inputs":  {func(j *taskstate.Job) { j.Inputs = []taskstate.Input{{Name: "in", Ref: "b3:00/"}} }, "inputs", "null", `[{"name":"in","ref":"b3:00/"}]`, true, true},
		"Outputs": {func(j *taskstate.Job) { j.Outputs = &taskstate.Outputs{Globs: []string{"*.png"}} }, "outputs", "", "[*.png], keep 2", true, true},
		"Isolate": {func(j *taskstate.Job) { j.Isolate = taskstate.IsolateFS }, "isolate", "none", "fs", true, true},
		"Net":     {func(j *taskstate.Job) { j.Net = taskstate.NetNone }, "net", "", "none", true, true},
		"Limits":  {func(j *taskstate.Job) { j.Limits = map[string]int64{"files": 64, "core": 0} }, "limits", "null", `{"core":0,"files":64}`, true, true},
		"Timeout": {func(j *taskstate.Job) { j.Timeout = 5_400_000 }, "timeout", "", "1h30m", true, true},

		"Name":        {func(j *taskstate.Job) { j.Name = "shop" }, "name", "web", "shop", false, true},
		"Count":       {func(j *taskstate.Job) { j.Count = 5 }, "count", "3", "5", false, true},
		"Parallel":    {func(j *taskstate.Job) { j.Parallel = 2 }, "parallel", "", "2", false, true},
		"KeepLogs":    {func(j *taskstate.Job) { j.KeepLogs = 2 }, "keep_logs", "", "2", false, true},
		"Delay":       {func(j *taskstate.Job) { j.Delay = 1500 }, "delay", "", "1.5s", false, true},
		"Unreachable": {func(j *taskstate.Job) { j.Unreachable.Wait = true }, "unreachable", "{replace_after: 0s}", "{wait: true}", false, true},
		"MaxPerPeer":  {func(j *taskstate.Job) { j.MaxPerPeer = 1 }, "placement.max_per_peer", "", "1", false, true},
		"Constraints": {func(j *taskstate.Job) { j.Constraints = []string{"peer.os == linux"} }, "constraints", "", "[peer.os == linux]", false, true},
		"Strategy":    {func(j *taskstate.Job) { j.Strategy = taskstate.Binpack }, "placement.strategy", "spread", "binpack", false, true},
		"Over":        {func(j *taskstate.Job) { j.Over = "peer.label.zone" }, "placement.over", "", "peer.label.zone", false, true},
		"Restart":     {func(j *taskstate.Job) { j.Restart = onFailure(3, 0, 60_000) }, "restart", "{condition: any, delay: 1s}", "{condition: on-failure, attempts: 3, window: 1m}", false, true},
		"MaxFails":    {func(j *taskstate.Job) { j.MaxFails = 5 }, "max_fails", "", "5", false, true},
		"Update": {
			func(j *taskstate.Job) { j.Update = &taskstate.Update{Parallelism: 2, MaxFailureRatio: 0.25} }, "update",
			"{parallelism: 1, delay: 0s, monitor: 5s, max_failure_ratio: 0, on_failure: pause, order: stop-first}",
			"{parallelism: 2, delay: 0s, monitor: 0s, max_failure_ratio: 0.25, on_failure: pause, order: stop-first}", false, true,
		},
		"After":    {func(j *taskstate.Job) { j.After = []taskstate.JobID{"setup"} }, "after", "", "[setup]", false, true},
		"Schedule": {func(j *taskstate.Job) { j.Schedule = &taskstate.Schedule{Cron: "0 3 * * *"} }, "schedule", "", `{cron: "0 3 * * *", zone: UTC, overlap: skip}`, false, true},
		"Priority": {func(j *taskstate.Job) { j.Priority = 0 }, "priority", "50", "0", false, true},
	}
}

func TestEveryFieldOfAJobSaysWhetherItsChangeRestartsTasks(t *testing.T) {
	cases := fieldCases()
	ty := reflect.TypeFor[taskstate.Job]()
	for i := range ty.NumField() {
		name := ty.Field(i).Name
		c, ok := cases[name]
		if !ok {
			t.Errorf("Job.%s has no case here: decide whether a change of it restarts tasks, and add it to the table in change.go", name)
			continue
		}
		old, changed := web(), web()
		c.change(changed)
		if reflect.DeepEqual(reflect.ValueOf(old).Elem().Field(i).Interface(), reflect.ValueOf(changed).Elem().Field(i).Interface()) {
			t.Errorf("the case of Job.%s changes something else", name)
		}
		var want []taskstate.Change
		if c.once {
			want = []taskstate.Change{{Field: c.field, From: c.from, To: c.to, Restarts: c.restarts}}
		}
		if d := cmp.Diff(want, taskstate.Changes(old, changed)); d != "" {
			t.Errorf("Job.%s (-want +got)\n%s", name, d)
		}
		if got := taskstate.Restarts(old, changed); got != c.restarts {
			t.Errorf("Job.%s: restarts tasks: %v, want %v", name, got, c.restarts)
		}
	}
	if len(cases) != ty.NumField() {
		t.Errorf("%d cases for %d fields", len(cases), ty.NumField())
	}
}

func TestTheSameInOtherWordsIsNoChange(t *testing.T) {
	for what, change := range map[string]func(*taskstate.Job){
		"the default update":     func(j *taskstate.Job) { j.Update = nil },
		"an update's short form": func(j *taskstate.Job) { j.Update.OnFailure, j.Update.Order = "", "" },
		"the default strategy":   func(j *taskstate.Job) { j.Strategy = taskstate.Spread },
		"empty lists": func(j *taskstate.Job) {
			j.Constraints, j.After, j.Each, j.Matrix = []string{}, []taskstate.JobID{}, []string{}, []taskstate.Axis{}
		},
		"an empty environment": func(j *taskstate.Job) { j.Run.Process.Env = map[string]string{} },
	} {
		j := web()
		change(j)
		if got := taskstate.Changes(web(), j); got != nil || taskstate.Restarts(web(), j) {
			t.Errorf("%s: %+v", what, got)
		}
	}
	never, none, says := web(), web(), web()
	never.Restart, none.Restart, says.Restart = nil, &taskstate.Restart{Condition: taskstate.RestartNone}, &taskstate.Restart{Attempts: 3}
	if got := append(taskstate.Changes(never, none), taskstate.Changes(none, says)...); got != nil {
		t.Errorf("never restarting: %+v", got)
	}
	plain, said := web(), web()
	plain.Schedule, said.Schedule = &taskstate.Schedule{Cron: "* * * * *"}, &taskstate.Schedule{Cron: "* * * * *", Zone: "UTC", Overlap: taskstate.SkipOverlap}
	if got := taskstate.Changes(plain, said); got != nil {
		t.Errorf("a schedule: %+v", got)
	}
}

func TestChangesOfSeveralFieldsRestartIfOneDoes(t *testing.T) {
	names := make([]string, 0, len(fieldCases()))
	for name := range fieldCases() {
		if name != "Withheld" { // stands for others
			names = append(names, name)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		old, changed, restarts, fields := web(), web(), false, map[string]bool{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 6, rapid.ID).Draw(t, "fields") {
			c := fieldCases()[name]
			c.change(changed)
			restarts = restarts || c.restarts
			if c.field != "" {
				fields[c.field] = true
			}
		}
		got := taskstate.Changes(old, changed)
		if len(got) != len(fields) || taskstate.Restarts(old, changed) != restarts {
			t.Fatalf("%v: restarts %v, want %v", got, !restarts, restarts)
		}
		back := taskstate.Changes(changed, old)
		any := false
		for i, c := range got {
			any = any || c.Restarts
			if back[i] != (taskstate.Change{Field: c.Field, From: c.To, To: c.From, Restarts: c.Restarts}) {
				t.Fatalf("there %+v, back %+v", c, back[i])
			}
		}
		if any != restarts {
			t.Fatalf("%v: none says that it restarts", got)
		}
	})
}

func TestALongValueIsShownWhereItDiffers(t *testing.T) {
	old, changed := web(), web()
	for i := range 10_000 {
		old.Each = append(old.Each, fmt.Sprintf("bild-%05d-ü.png", i))
	}
	changed.Each = append([]string{}, old.Each...)
	changed.Each[5000] = "other.png"
	c := taskstate.Changes(old, changed)[0]
	if !strings.Contains(c.From, "bild-05000") || !strings.Contains(c.To, "other.png") {
		t.Fatalf("the difference is not to be seen: %+v", c)
	}
	for _, s := range []string{c.From, c.To} {
		if len(s) > 130 || !utf8.ValidString(s) || !strings.HasPrefix(s, "…") || !strings.HasSuffix(s, "…") {
			t.Errorf("cut to %q", s)
		}
	}
	longer := web()
	longer.Each = append(append([]string{}, old.Each...), "one more")
	if c := taskstate.Changes(old, longer)[0]; !strings.HasSuffix(c.To, "one more]") || c.From == c.To {
		t.Errorf("an item more: %+v", c)
	}
}

func TestTheDefaultUpdateIsThatOfAJobThatSaysNothing(t *testing.T) {
	want := taskstate.Update{Parallelism: 1, Monitor: 5000, OnFailure: taskstate.PauseUpdate, Order: taskstate.StopFirst}
	if got := (&taskstate.Job{}).Updating(); got != want || got != taskstate.DefaultUpdate() {
		t.Errorf("%+v", got)
	}
	given := &taskstate.Job{Update: &taskstate.Update{Parallelism: 0, Order: taskstate.StartFirst}}
	if got := given.Updating(); got != (taskstate.Update{OnFailure: taskstate.PauseUpdate, Order: taskstate.StartFirst}) {
		t.Errorf("zeroes that were meant are kept: %+v", got)
	}
	if given.Update.OnFailure != "" {
		t.Error("the job itself was changed")
	}
}
