package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate/jobfile"

	"github.com/spf13/pflag"
)

// keysAndFlags says for each key of a job file which flag of `peer run` says the same; "" with a
// reason for those that have none.
var keysAndFlags = map[string]struct{ flag, why string }{
	"name":                      {"name", ""},
	"type":                      {"", "a service is known by its name and updated by a new file; what run says would be gone"},
	"count":                     {"array", "1-N gives as many slots, each with its number"},
	"array":                     {"array", ""},
	"each":                      {"each-line", "a list on the command line is lines of stdin"},
	"each_line":                 {"each-line", ""},
	"escaped":                   {"", "run reads any bytes and writes them so itself"},
	"matrix":                    {"matrix", ""},
	"run.process.command":       {"", "it is what follows the flags"},
	"run.process.env":           {"env", ""},
	"run.process.dir":           {"dir", ""},
	"run.process.shell":         {"shell", ""},
	"run.process.script":        {"script", ""},
	"run.process.script_name":   {"script", ""},
	"inputs":                    {"in", ""},
	"secrets":                   {"secret", ""},
	"run.noop.duration":         {"", "a no-op runs no command; it is for measurements"},
	"resources.cpus":            {"cpus", ""},
	"resources.memory":          {"memory", ""},
	"resources.disk":            {"disk", ""},
	"resources.gpus":            {"gpus", "any other name: resource"},
	"isolate":                   {"isolate", ""},
	"net":                       {"net", ""},
	"limits":                    {"limit", ""},
	"max_output":                {"max-output", ""},
	"outputs.globs":             {"out", ""},
	"outputs.missing":           {"", "who expects that there is nothing writes a file"},
	"keep":                      {"keep", ""},
	"keep_logs":                 {"keep-logs", ""},
	"timeout":                   {"timeout", ""},
	"parallel":                  {"parallel", ""},
	"delay":                     {"delay", ""},
	"unreachable.replace_after": {"replace-after", ""},
	"unreachable.wait":          {"at-most-once", ""},
	"constraints":               {"constraint", ""},
	"placement.strategy":        {"strategy", ""},
	"placement.over":            {"over", ""},
	"placement.max_per_peer":    {"max-per-peer", ""},
	"restart.condition":         {"restart", ""},
	"restart.attempts":          {"restart", "on-failure:3"},
	"restart.delay":             {"", "who cares for the pace of restarts writes a file"},
	"restart.window":            {"", "who cares for the pace of restarts writes a file"},
	"max_fails":                 {"max-fails", ""},
	"update.parallelism":        {"", "only a service is updated"},
	"update.delay":              {"", "only a service is updated"},
	"update.monitor":            {"", "only a service is updated"},
	"update.max_failure_ratio":  {"", "only a service is updated"},
	"update.on_failure":         {"", "only a service is updated"},
	"update.order":              {"", "only a service is updated"},
	"after":                     {"after", ""},
	"schedule.cron":             {"", "a schedule is known by its name and updated by a new file"},
	"schedule.zone":             {"", "a schedule is known by its name and updated by a new file"},
	"schedule.overlap":          {"", "a schedule is known by its name and updated by a new file"},
	"priority":                  {"priority", ""},
}

// flagsWithoutKeys are the flags of `peer run` that no key says, and why.
var flagsWithoutKeys = map[string]string{
	"stdin":      "what a command reads is not in a file",
	"no-stdin":   "what a command reads is not in a file",
	"null":       "it says how a list on stdin is written",
	"resource":   "a key of any other name below resources",
	"detach":     "about the command that waits, not about the job",
	"dry-run":    "about the command that waits, not about the job",
	"keep-going": "about the command that waits, not about the job",
	"keep-order": "about the command that waits, not about the job",
	"tag":        "about the command that waits, not about the job",
	"results":    "about the command that waits, not about the job",
	"to":         "about the command that waits, not about the job",
	"exclude":    "about what is read, not about the job",
	"flat":       "about the command that waits, not about the job",
	"force":      "about the command that waits, not about the job",
	"joblog":     "about the command that waits, not about the job",
}

// allowed are the keys that may stand in a place of a job file, as its reader lists them.
var allowed = regexp.MustCompile(`Allowed [^:]*: ([a-z_, ]+)`)

func keysAt(t *testing.T, file string) []string {
	t.Helper()
	_, err := jobfile.Parse("x.yaml", []byte(file), jobfile.Options{})
	if err == nil {
		t.Fatalf("%s: accepted", file)
	}
	found := allowed.FindStringSubmatch(err.Error())
	if found == nil {
		t.Fatalf("%s: %v", file, err)
	}
	return strings.Split(found[1], ", ")
}

func TestEveryKeyOfAJobFileHasAFlagOfRunOrAReasonAndTheReverse(t *testing.T) {
	var keys []string
	for _, top := range keysAt(t, "zzz: 1") {
		switch top {
		case "run":
			for _, k := range keysAt(t, "run: {process: {zzz: 1}}") {
				keys = append(keys, "run.process."+k)
			}
			keys = append(keys, "run.noop.duration")
		case "resources": // any other name is one, too
			keys = append(keys, "resources.cpus", "resources.memory", "resources.disk", "resources.gpus")
		case "unreachable", "placement", "restart", "update", "schedule", "outputs":
			for _, k := range keysAt(t, top+": {zzz: 1, yyy: 0}") {
				keys = append(keys, top+"."+k)
			}
		default:
			keys = append(keys, top)
		}
	}
	for _, k := range keys {
		if x, ok := keysAndFlags[k]; !ok || x.flag+x.why == "" {
			t.Errorf("the key %s has no flag of `peer run`, and no reason for that in keysAndFlags", k)
		}
	}
	known := map[string]bool{}
	flags := runCommand(&cli{}).Flags()
	for k, x := range keysAndFlags {
		if !slices.Contains(keys, k) {
			t.Errorf("there is no key %s", k)
		}
		if known[x.flag] = true; x.flag != "" && flags.Lookup(x.flag) == nil {
			t.Errorf("the key %s should be --%s, which there is not", k, x.flag)
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !known[f.Name] && flagsWithoutKeys[f.Name] == "" {
			t.Errorf("--%s of `peer run` has no key in job files, and no reason for that in flagsWithoutKeys", f.Name)
		}
	})
}
