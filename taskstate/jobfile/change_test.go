package jobfile_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// keyCase is a key of the job file whose value changes in a job that goes on.
type keyCase struct {
	from, to string // the whole line; "" leaves it out
	restarts bool   // tasks that run are not as the new file wants them
	field    string // how the change is called, if not by the key
}

const (
	serviceRun  = "run: {process: {command: [serve]}}\n"
	scheduleRun = "run: {noop: {}}\n"
)

// keyCases has a case for every key there is, by its path. What a job is – its name, its type – no
// update changes: it would be another job.
func keyCases() map[string]keyCase {
	return map[string]keyCase{
		"count":     {"count: 2", "count: 3", false, ""},
		"array":     {"array: 1-2", "array: 3-4", true, ""},
		"each":      {"each: [a, b]", "each: [a, c]", true, ""},
		"each_line": {"each: [a, b]", "each_line: list.txt", true, "each"},
		"matrix":    {"matrix: {s: [1, 2]}", "matrix: {s: [1, 3]}", true, ""},

		"run.process.command":     {"run: {process: {command: [serve]}}", "run: {process: {command: [serve, -v]}}", true, "run"},
		"run.process.env":         {"run: {process: {command: [serve], env: {A: x}}}", "run: {process: {command: [serve], env: {A: y}}}", true, "run"},
		"run.process.dir":         {"run: {process: {command: [serve]}}", "run: {process: {command: [serve], dir: in}}", true, "run"},
		"run.process.shell":       {"run: {process: {command: [serve]}}", "run: {process: {command: serve, shell: true}}", true, "run"},
		"run.process.script_name": {"run: {process: {script: a}}", "run: {process: {script: a, script_name: b.sh}}", true, "run"},
		"inputs":                  {"inputs: [{ref: " + noFile + ", name: a}]", "inputs: [{ref: " + noFile + ", name: b}]", true, ""},
		"run.process.script":      {"run: {process: {command: [serve]}}", "run: {process: {command: [serve], script: \"#!/bin/sh\\n\"}}", true, "run"},
		"run.noop.duration":       {"run: {noop: {duration: 1h}}", "run: {noop: {duration: 2h}}", true, "run"},

		"resources.cpus":   {"resources: {cpus: 1}", "resources: {cpus: 2}", true, "resources"},
		"resources.memory": {"resources: {memory: 1GiB}", "resources: {memory: 2GiB}", true, "resources"},
		"resources.gpus":   {"resources: {gpus: 1}", "resources: {gpus: 2}", true, "resources"},
		"resources.seats":  {"resources: {seats: 1}", "resources: {seats: 2}", true, "resources"}, // any other name
		"max_output":       {"max_output: 1GiB", "max_output: 2GiB", true, ""},
		"outputs":          {"outputs: [a]", "outputs: [b]", true, ""},
		"outputs.globs":    {"outputs: [a]", "outputs: {globs: [b]}", true, "outputs"},
		"outputs.missing":  {"outputs: {globs: [a], missing: ok}", "outputs: {globs: [a], missing: warn}", true, "outputs"},
		"keep":             {"outputs: [a]", "outputs: [a]\nkeep: 3", true, "outputs"},
		"isolate":          {"isolate: none", "isolate: fs", true, ""},
		"net":              {"net: any", "net: none", true, ""},
		"limits":           {"limits: {files: 64}", "limits: {files: 32}", true, ""},
		"keep_logs":        {"keep_logs: 2", "keep_logs: 3", false, ""},
		"timeout":          {"timeout: 1h", "timeout: 2h", true, ""},

		"constraints":            {`constraints: ["peer.os == linux"]`, `constraints: ["peer.os != plan9"]`, false, ""},
		"placement.strategy":     {"placement: {strategy: spread}", "placement: {strategy: binpack}", false, ""},
		"placement.over":         {"placement: {}", "placement: {over: peer.label.zone}", false, ""},
		"placement.max_per_peer": {"placement: {max_per_peer: 2}", "placement: {max_per_peer: 1}", false, ""},
		"parallel":               {"parallel: 2", "parallel: 1", false, ""},
		"delay":                  {"delay: 2s", "delay: 1s", false, ""},
		"escaped":                {"each: [a]", "each: [a]\nescaped: true", true, ""},
		"priority":               {"priority: 10", "priority: 90", false, ""},

		"restart.condition": {"restart: {condition: any}", "restart: {condition: on-failure}", false, "restart"},
		"restart.attempts":  {"restart: {attempts: 2}", "restart: {attempts: 3}", false, "restart"},
		"restart.delay":     {"restart: {delay: 2s}", "restart: {delay: 3s}", false, "restart"},
		"restart.window":    {"restart: {attempts: 2}", "restart: {attempts: 2, window: 1m}", false, "restart"},
		"max_fails":         {"max_fails: 2", "max_fails: 1", false, ""},

		"unreachable.replace_after": {"unreachable: {replace_after: 1s}", "unreachable: {replace_after: 2s}", false, "unreachable"},
		"unreachable.wait":          {"", "unreachable: {wait: true}", false, "unreachable"},

		"update.parallelism":       {"update: {parallelism: 1}", "update: {parallelism: 2}", false, "update"},
		"update.delay":             {"", "update: {delay: 2s}", false, "update"},
		"update.monitor":           {"", "update: {monitor: 2s}", false, "update"},
		"update.max_failure_ratio": {"", "update: {max_failure_ratio: 0.5}", false, "update"},
		"update.on_failure":        {"", "update: {on_failure: rollback}", false, "update"},
		"update.order":             {"", "update: {order: start-first}", false, "update"},

		"after":            {"", "after: [first]", false, ""},
		"schedule.cron":    {"schedule: {cron: 0 3 * * *}", "schedule: {cron: 0 4 * * *}", false, "schedule"},
		"schedule.zone":    {"schedule: {cron: 0 3 * * *}", "schedule: {cron: 0 3 * * *, zone: Europe/Berlin}", false, "schedule"},
		"schedule.overlap": {"schedule: {cron: 0 3 * * *}", "schedule: {cron: 0 3 * * *, overlap: allow}", false, "schedule"},
	}
}

// noFile names a file without content.
const noFile = "b3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"

// job is what a file with the line says: a service, or whatever kind of job may have such a key.
func (c keyCase) job(t *testing.T, key, line string) *taskstate.Job {
	t.Helper()
	file := line + "\n"
	switch top, _, _ := strings.Cut(key, "."); top {
	case "array", "each", "each_line", "escaped", "matrix", "parallel", "delay", "max_fails", "timeout", "outputs", "keep", "keep_logs":
		file += serviceRun
	case "schedule":
		file += scheduleRun
	case "run":
		file += "type: service\n"
	default:
		file += "type: service\n" + serviceRun
	}
	j, err := jobfile.Parse("web.yaml", []byte(file), jobfile.Options{ReadFile: func(string) ([]byte, error) { return []byte("a\nc\n"), nil }})
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return j
}

func TestOneKeyOfTheFileDecidesWhetherTasksAreRestarted(t *testing.T) {
	for key, c := range keyCases() {
		t.Run(key, func(t *testing.T) {
			field := c.field
			if field == "" {
				field = key
			}
			changes := taskstate.Changes(c.job(t, key, c.from), c.job(t, key, c.to))
			if len(changes) != 1 || changes[0].Field != field || changes[0].Restarts != c.restarts {
				t.Errorf("%q to %q: %+v, want one of %s that restarts tasks: %t", c.from, c.to, changes, field, c.restarts)
			}
			if same := taskstate.Changes(c.job(t, key, c.to), c.job(t, key, c.to)); same != nil {
				t.Errorf("the same again: %+v", same)
			}
		})
	}
}

// keysOf lists the keys there are below a path, as the refusal of one there is not tells them.
func keysOf(t *testing.T, path string) []string {
	t.Helper()
	file, end := "", ""
	if path != "" {
		for part := range strings.SplitSeq(path, ".") {
			file, end = file+part+": {", end+"}"
		}
	}
	_, err := jobfile.Parse("x.yaml", []byte(file+"zzzzqqqq: 1"+end), jobfile.Options{})
	var errs jobfile.Errors
	if !errors.As(err, &errs) {
		t.Fatalf("%s: %v", path, err)
	}
	_, list, ok := strings.Cut(errs[0].Msg, "Allowed ")
	if _, list, _ = strings.Cut(list, ": "); !ok || list == "" {
		t.Fatalf("%s: %v", path, err)
	}
	return strings.Split(list, ", ")
}

func TestEveryKeyOfTheFileHasItsCaseAboutRestarts(t *testing.T) {
	cases := keyCases()
	inner := []string{"", "run", "run.process", "run.noop", "placement", "restart", "unreachable", "update", "schedule", "outputs"}
	for _, path := range inner {
		for _, key := range keysOf(t, path) {
			full := strings.TrimPrefix(path+"."+key, ".")
			if _, ok := cases[full]; ok || slices.Contains(inner, full) || full == "name" || full == "type" || full == "secrets" || full == "resources" { // what they are does not stand there; anything may be a resource
				continue
			}
			t.Errorf("%s has no case: does a change of it restart tasks?", full)
		}
	}
}
