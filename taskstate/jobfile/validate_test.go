package jobfile_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// process is a complete, valid job, changed by change.
func process(change func(j *taskstate.Job, p *taskstate.Process)) *taskstate.Job {
	p := &taskstate.Process{Command: []string{"hostname"}}
	j := &taskstate.Job{Run: taskstate.Run{Process: p}}
	jobfile.Defaults(j)
	change(j, p)
	return j
}

func TestDefaultsAreGivenOnceAndPassValidation(t *testing.T) {
	for what, c := range map[string]struct {
		job  taskstate.Job
		want string
	}{
		"a command": {taskstate.Job{Run: taskstate.Run{Process: &taskstate.Process{Command: []string{"/usr/bin/My Tool", "-x"}}}}, "my"},
		"a shell":   {taskstate.Job{Run: taskstate.Run{Process: &taskstate.Process{Command: []string{" echo hi | wc"}, Shell: true}}}, "echo"},
		"a noop":    {taskstate.Job{Run: taskstate.Run{Noop: &taskstate.Noop{}}, Each: []string{"a", "b"}}, "noop"},
		"last":      {taskstate.Job{Run: taskstate.Run{Process: &taskstate.Process{Command: []string{"/usr/bin/last", "-5"}}}}, "job"},
		"a script":  {taskstate.Job{Run: taskstate.Run{Process: &taskstate.Process{Script: []byte("#!/bin/sh\n")}}}, "job"},
		"an array":  {taskstate.Job{Run: taskstate.Run{Noop: &taskstate.Noop{}}, Count: 6, Numbered: true, First: -5}, "noop"},
		"a name":    {taskstate.Job{Name: "mine", Run: taskstate.Run{Noop: &taskstate.Noop{}}}, "mine"},
	} {
		j := c.job
		jobfile.Defaults(&j)
		if err := jobfile.Validate(&j); err != nil || j.Name != c.want {
			t.Errorf("%s: name %q, want %q; %v", what, j.Name, c.want, err)
		}
		again := j
		jobfile.Defaults(&again)
		if !reflect.DeepEqual(j, again) {
			t.Errorf("%s: a second time changes it", what)
		}
	}
}

func TestAJobFromAnywhereIsChecked(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for says, change := range map[string]func(j *taskstate.Job, p *taskstate.Process){
		"count: expected 1 to 1,000,000, got 0":         func(j *taskstate.Job, _ *taskstate.Process) { j.Count = 0 },
		"name: last means the newest job":               func(j *taskstate.Job, _ *taskstate.Process) { j.Name = "last" },
		"count: expected 1 to 1,000,000, got 1,000,001": func(j *taskstate.Job, _ *taskstate.Process) { j.Count = 1_000_001 },
		"each: it has 1 items for 2 slots":              func(j *taskstate.Job, _ *taskstate.Process) { j.Count, j.Each = 2, []string{"a"} },
		"each[1]: an item is UTF-8":                     func(j *taskstate.Job, _ *taskstate.Process) { j.Count, j.Each = 2, []string{"a", "\xff"} },
		"each[0]: an item is UTF-8":                     func(j *taskstate.Job, _ *taskstate.Process) { j.Each = []string{"\x00"} },
		"each: use items or an array":                   func(j *taskstate.Job, _ *taskstate.Process) { j.Each, j.Numbered = []string{"a"}, true },
		"array: a first number without":                 func(j *taskstate.Job, _ *taskstate.Process) { j.First = 3 },
		"array: expected":                               func(j *taskstate.Job, _ *taskstate.Process) { j.Numbered, j.First = true, -1<<62 },
		"each: the items have 1,000,000 bytes": func(j *taskstate.Job, _ *taskstate.Process) {
			j.Count = 1000
			for range 1000 {
				j.Each = append(j.Each, long)
			}
		},
		"name: expected 1 to 63 letters": func(j *taskstate.Job, _ *taskstate.Process) { j.Name = strings.Repeat("a", 64) },
		`got "-x"`:                       func(j *taskstate.Job, _ *taskstate.Process) { j.Name = "-x" },
		"type: allowed is batch, service, global, got": func(j *taskstate.Job, _ *taskstate.Process) { j.Type = "cron" },
		"id: expected 10 characters":                   func(j *taskstate.Job, _ *taskstate.Process) { j.ID = "../../etc" },
		"submitter: this is no peer id":                func(j *taskstate.Job, _ *taskstate.Process) { j.Submitter = long },
		"resources.cpus: expected 0 to":                func(j *taskstate.Job, _ *taskstate.Process) { j.Resources.MilliCPU = -1 },
		"resources.memory: expected 0 to":              func(j *taskstate.Job, _ *taskstate.Process) { j.Resources.Memory = 1 << 62 },
		"resources.disk: expected 0 to":                func(j *taskstate.Job, _ *taskstate.Process) { j.Resources.Disk = -1 },
		"stdin: it can be read once": func(j *taskstate.Job, _ *taskstate.Process) {
			j.Stdin, j.Type = true, taskstate.ServiceJob
		},
		"stdin: it can be read once, so only by a batch job of one task": func(j *taskstate.Job, _ *taskstate.Process) {
			j.Stdin, j.Count = true, 2
		},
		"max_output: expected 4KiB to 1TiB, got 4,095 bytes": func(j *taskstate.Job, _ *taskstate.Process) { j.MaxOutput = 4095 },
		"max_output: expected 4KiB to 1TiB, got -1 bytes":    func(j *taskstate.Job, _ *taskstate.Process) { j.MaxOutput = -1 },
		"outputs: it names no files":                         func(j *taskstate.Job, _ *taskstate.Process) { j.Outputs = &taskstate.Outputs{} },
		"outputs: 65 patterns, at most 64 are allowed": func(j *taskstate.Job, _ *taskstate.Process) {
			j.Outputs = &taskstate.Outputs{}
			for i := range 65 {
				j.Outputs.Globs = append(j.Outputs.Globs, "f"+itoa(i))
			}
		},
		`outputs[0]: expected a path below the task's own folder`: func(j *taskstate.Job, _ *taskstate.Process) {
			j.Outputs = &taskstate.Outputs{Globs: []string{"a/../../b"}}
		},
		"outputs[0]: a path is UTF-8": func(j *taskstate.Job, _ *taskstate.Process) {
			j.Outputs = &taskstate.Outputs{Globs: []string{"a\xff"}}
		},
		"outputs[1]: it is the same as outputs[0]": func(j *taskstate.Job, _ *taskstate.Process) {
			j.Outputs = &taskstate.Outputs{Globs: []string{"a", "a"}}
		},
		"outputs.missing: allowed is fail, warn, ok": func(j *taskstate.Job, _ *taskstate.Process) {
			j.Outputs = &taskstate.Outputs{Globs: []string{"a"}, Missing: "never"}
		},
		"keep: expected 0 to 16, got -1": func(j *taskstate.Job, _ *taskstate.Process) {
			j.Outputs = &taskstate.Outputs{Globs: []string{"a"}, Keep: -1}
		},
		"keep_logs: expected 0 to 16, got 17": func(j *taskstate.Job, _ *taskstate.Process) { j.KeepLogs = 17 },
		"outputs: a service job has tasks that do not end": func(j *taskstate.Job, _ *taskstate.Process) {
			j.Type, j.Outputs = taskstate.ServiceJob, &taskstate.Outputs{Globs: []string{"a"}}
		},
		"timeout: expected 0 to":              func(j *taskstate.Job, _ *taskstate.Process) { j.Timeout = -1 },
		"parallel: expected 0 to":             func(j *taskstate.Job, _ *taskstate.Process) { j.Parallel = -1 },
		"placement.max_per_peer: expected":    func(j *taskstate.Job, _ *taskstate.Process) { j.MaxPerPeer = -1 },
		"unreachable.replace_after: expected": func(j *taskstate.Job, _ *taskstate.Process) { j.Unreachable.ReplaceAfter = 1 << 60 },
		"unreachable: use replace_after or":   func(j *taskstate.Job, _ *taskstate.Process) { j.Unreachable.Wait = true },
		"run: say what to run":                func(j *taskstate.Job, _ *taskstate.Process) { j.Run.Process = nil },
		"run: use process or noop":            func(j *taskstate.Job, _ *taskstate.Process) { j.Run.Noop = &taskstate.Noop{} },
		"run.noop.duration: expected": func(j *taskstate.Job, _ *taskstate.Process) {
			j.Run = taskstate.Run{Noop: &taskstate.Noop{Duration: -1}}
		},
		"run.process.command: it is empty": func(_ *taskstate.Job, p *taskstate.Process) { p.Command = nil },
		"run.process.command[1]: a":        func(_ *taskstate.Job, p *taskstate.Process) { p.Command = []string{"a", "b\x00"} },
		"run.process.command: with shell":  func(_ *taskstate.Job, p *taskstate.Process) { p.Command, p.Shell = []string{"a", "b"}, true },
		"run.process.shell: a script":      func(_ *taskstate.Job, p *taskstate.Process) { p.Script, p.Shell = []byte("x"), true },
		"run.process.script: it has":       func(_ *taskstate.Job, p *taskstate.Process) { p.Script = make([]byte, 64<<10+1) },
		"run.process: command and environment have": func(_ *taskstate.Job, p *taskstate.Process) {
			p.Env = map[string]string{"A": strings.Repeat(long, 200)}
			p.Command = append(p.Command, strings.Repeat(long, 63))
		},
		"run.process.env.A=B: a variable's name": func(_ *taskstate.Job, p *taskstate.Process) { p.Env = map[string]string{"A=B": ""} },
		"run.process.env.: a variable's name":    func(_ *taskstate.Job, p *taskstate.Process) { p.Env = map[string]string{"": ""} },
		"run.process.env.COVEY_X: names that":    func(_ *taskstate.Job, p *taskstate.Process) { p.Env = map[string]string{"COVEY_X": ""} },
		"run.process.env.A: a value is":          func(_ *taskstate.Job, p *taskstate.Process) { p.Env = map[string]string{"A": "\xff"} },
	} {
		err := jobfile.Validate(process(change))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	if jobfile.Validate(nil) == nil {
		t.Error("no job at all is valid")
	}
}

func TestAFolderOutsideTheTasksOwnIsRefused(t *testing.T) {
	for _, dir := range []string{"..", "../x", "a/../../b", "a/..", "/", "/abs", `\abs`, `a\..\..\b`, "C:/x", "c:", "a\x00b", "\xff", strings.Repeat("d/", 600)} {
		if jobfile.Validate(process(func(_ *taskstate.Job, p *taskstate.Process) { p.Dir = dir })) == nil {
			t.Errorf("%.20q was accepted", dir)
		}
	}
	for _, dir := range []string{"", ".", "a", "a/b", "./a", "..a", "a..b/c"} {
		if err := jobfile.Validate(process(func(_ *taskstate.Job, p *taskstate.Process) { p.Dir = dir })); err != nil {
			t.Errorf("%q: %v", dir, err)
		}
	}
}

func TestTheLargestOfEverythingTogetherDoesNotFitAFrame(t *testing.T) {
	j := process(func(j *taskstate.Job, p *taskstate.Process) {
		item := strings.Repeat("x", 1024)
		for range 768 {
			j.Each = append(j.Each, item)
		}
		j.Count = len(j.Each)
		p.Env = map[string]string{"A": strings.Repeat("x", 250<<10)}
	})
	if err := jobfile.Validate(j); err == nil || !strings.Contains(err.Error(), "encoded") {
		t.Errorf("got %v", err)
	}
}
