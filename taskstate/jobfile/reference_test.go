package jobfile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// keyOf is a row of docs/jobfile.md: a key, in a file that is read when the page is made. what ends
// with the default, if there is one.
type keyOf struct{ key, example, what string }

// placesOfKeys are the keys of one place in a job file, in the order of the parser.
var placesOfKeys = []struct {
	in, say string
	keys    []keyOf
}{
	{"", "", []keyOf{
		{"name", "name: frames", "What the job is called: `[a-z0-9-]`. A service, global or scheduled job is known by it. Default: from the file's name"},
		{"type", "type: service", "`batch` ends; `service` keeps `count` tasks running; `global` runs one on each peer that fits. Default `batch`"},
		{"count", "count: 10", fmt.Sprintf("How many tasks, up to %d; a service may have 0. Default 1, or one per item", jobfile.MaxCount)},
		{"array", "array: 1-10:2", "One task per number of `A-B`, or of `5`, `1,3,5`, `1-10:2`, `01-10`; `{}` is the number"},
		{"each", "each: [a.png, b.png]", "One task per item; `{}` and `${COVEY_ITEM}` are the item"},
		{"each_line", "each_line: list.txt", "One task per line of that file, which is in the job file's folder; `{}` is the line"},
		{"escaped", "each: ['a\\xff']\nescaped: true", "`true`: items of `each` are written with `\\\\` and `\\xHH`"},
		{"matrix", "matrix: {size: [s, l], seed: 1-10}", "One task per combination of lists, or of ranges as in `array`; `{size}` is the value of that axis, `{}` all of them. A list has its texts as they are"},
		{"run", "run: {noop: {}}", "What to run: `process` or `noop`. The only key there must be"},
		{"resources", "resources: {cpus: 2}", "What each task reserves of what its peer offers"},
		{"isolate", "isolate: fs", "At least this: `fs` keeps a task to its own folder and the system's files, `strong` has it see itself only, without network. Default `none`; a peer's owner may ask for more"},
		{"net", "net: none", "`none`: no network; `any`: also where `isolate: strong` takes it away, if the peer's owner lets it"},
		{"limits", "limits: {files: 1024}", "What each process of a task may have at most"},
		{"max_output", "max_output: 1GiB", "How much is kept of each task's stdout, and as much of its stderr. Default 64MiB"},
		{"inputs", "inputs: [scene.blend, textures]", "Files and folders that every task finds in its folder, read-only: paths in the job file's folder, or keys"},
		{"secrets", "secrets: {DB: {file: db.txt}}", "Names, and the files of yours that hold the values; tasks find them in `$COVEY_SECRETS`"},
		{"outputs", `outputs: ["frames/*.png"]`, "Which files below a task's folder are kept: patterns, or keys"},
		{"keep", "outputs: [a]\nkeep: 3", fmt.Sprintf("How many copies of them, up to %d. Default 2", taskstate.MaxKeep)},
		{"keep_logs", "keep_logs: 2", fmt.Sprintf("Of batch jobs without `outputs`: how many copies of what tasks print there are before they are complete, up to %d. Default: another one soon after the end; 1: none elsewhere", taskstate.MaxKeep)},
		{"timeout", "timeout: 10m", "After how long an attempt is stopped. Default: never"},
		{"parallel", "parallel: 4", "How many tasks run at once at most. Default: as many as there is room for"},
		{"delay", "delay: 1s", "Of batch jobs: how long after one task the next may start. Default 0s"},
		{"unreachable", "unreachable: {wait: true}", "What happens to tasks of a peer that is lost"},
		{"constraints", `constraints: ["peer.os == linux"]`, "Which peers fit: all of them must hold"},
		{"placement", "placement: {strategy: binpack}", "Which peers go first among those that fit"},
		{"restart", "restart: on-failure:3", "When a task that ended starts again: `none`, `on-failure`, `any`, each also with `:N` for at most N times, or keys. Default `none`; of services and global jobs `any`"},
		{"max_fails", "max_fails: 5", "After how many failed tasks the rest is cancelled. Default: never"},
		{"update", "type: service\nupdate: {parallelism: 2}", "How a change of a service or global job replaces its tasks"},
		{"after", "after: [frames]", "Jobs, by name or id, that must be complete before this one starts. If one fails, this one is cancelled; when that one is retried, a batch job cancelled so waits for it again, and so do those after it. Services, schedules, jobs whose order has expired, and what a person cancelled stay cancelled, and jobs that have begun are not repeated"},
		{"schedule", `schedule: "0 3 * * *"`, "When the job starts again and again: five fields as in cron, or keys"},
		{"priority", "priority: 80", fmt.Sprintf("From 0 to %d: higher goes first. Default %d", jobfile.MaxPriority, taskstate.DefaultPriority)},
	}},
	{"run", "run: {…}", []keyOf{
		{"process", "run: {process: {command: [hostname]}}", "A command"},
		{"noop", "run: {noop: {duration: 1s}}", "Nothing, for so long: to try things out"},
	}},
	{"run.process", "", []keyOf{
		{"command", "run: {process: {command: [convert, in.png, out.png]}}", "The words of the command; with `shell: true` one line; with a script its arguments. `${COVEY_…}` is expanded. Where tasks have items `{}` is the item, and `\\{}` is `{}`; so it is here only, not in `env`, a script or other keys"},
		{"env", "run: {process: {command: [env], env: {LANG: C}}}", "More environment. Public: for passwords there is `secrets`"},
		{"dir", "run: {process: {command: [ls], dir: sub}}", "Where below the task's folder it runs"},
		{"shell", "run: {process: {shell: true, command: 'a | b'}}", "`true`: the command is a line for `/bin/sh -c`"},
		{"script", "run: {process: {script: \"#!/bin/sh\\nhostname\\n\"}}", "A script of up to 64 KiB that travels with the job; it begins with `#!`"},
		{"script_name", "run: {process: {script: \"#!/bin/sh\\nhostname\\n\", script_name: h.sh}}", "What the script's file is called"},
	}},
	{"run.noop", "", []keyOf{{"duration", "run: {noop: {duration: 1s}}", "How long it takes. Default 0s"}}},
	{"resources", "resources: {…}", []keyOf{
		{"cpus", "resources: {cpus: 0.5}", "Default 1; of a noop 0"},
		{"memory", "resources: {memory: 512MiB}", "Default: none is reserved"},
		{"disk", "resources: {disk: 20GiB}", "Default: none is reserved"},
		{"gpus", "resources: {gpus: 1}", "Of those a peer offers (`peer up --gpus`). Any other name is one of `peer up --offer`"},
	}},
	{"limits", "limits: {…}", []keyOf{
		{"files", "limits: {files: 1024}", "Open files"},
		{"processes", "limits: {processes: 100}", "Processes and threads of the user it runs as, in all its tasks"},
		{"core", "limits: {core: 1MiB}", "Size of a core dump"},
		{"file_size", "limits: {file_size: 1GiB}", "Size of a file that it writes"},
	}},
	{"inputs[0]", "inputs: [{…}]", []keyOf{
		{"path", "inputs: [{path: scene.blend}]", "A file or folder of yours, put when the job is submitted"},
		{"ref", "inputs: [{ref: 'b3:" + zeros + "/', name: data}]", "What was put already, as `peer put` prints it; or one of these three:"},
		{"from", "inputs: [{from: frames}]", "What the tasks of that job left"},
		{"slot", "inputs: [{from: frames, slot: same}]", "`same`: only what the task of the same slot left"},
		{"name", "inputs: [{path: ../v2/scene.blend, name: scene}]", "What it is called in the task's folder. Default: the last part of the path, or the job's name"},
		{"exec", "inputs: [{path: tool, exec: true}]", "`true`: a file that can be executed"},
		{"writable", "inputs: [{path: cache, writable: true}]", "`true`: each task gets a copy that it may change"},
	}},
	{"secrets.DB", "secrets: {NAME: {…}}", []keyOf{{"file", "secrets: {DB: {file: db.txt}}", "The file that holds the value; it is read when the job is submitted, and sealed"}}},
	{"outputs", "outputs: {…}", []keyOf{
		{"globs", `outputs: {globs: ["*.o"]}`, "The patterns; `**` is any number of folders"},
		{"missing", `outputs: {globs: ["*.o"], missing: warn}`, "When nothing matches: `fail` the task, `warn`, or `ok`. Default `fail`"},
	}},
	{"unreachable", "unreachable: {…}", []keyOf{
		{"replace_after", "unreachable: {replace_after: 2m}", "How long after the peer is declared dead its tasks start elsewhere. Default 10s; of services and global jobs 0s"},
		{"wait", "unreachable: {wait: true}", "`true`: never run a task twice; it waits for its peer, or for you"},
	}},
	{"placement", "placement: {…}", []keyOf{
		{"strategy", "placement: {strategy: random}", "`spread`: the emptiest; `binpack`: the fullest; `random`. Default `spread`"},
		{"over", "placement: {over: peer.label.zone}", "Spread evenly over the values of this first"},
		{"max_per_peer", "placement: {max_per_peer: 1}", "How many of its tasks a peer has at once at most"},
	}},
	{"restart", "restart: {…}", []keyOf{
		{"condition", "restart: {condition: on-failure}", "`none`, `on-failure`, `any`. Default `on-failure`; of services and global jobs `any`"},
		{"attempts", "restart: {attempts: 3}", "How often at most; 0 is any number of times"},
		{"delay", "restart: {delay: 5s}", "How long to wait before. Default 0s; of services and global jobs " + fmt.Sprint(taskstate.DefaultRestartDelay)},
		{"window", "restart: {attempts: 3, window: 1h}", "The time in which `attempts` are counted. Default: all of it"},
	}},
	{"update", "update: {…}", []keyOf{
		{"parallelism", "type: service\nupdate: {parallelism: 0}", "How many tasks are replaced at once; 0: all. " + updateDefault(func(u taskstate.Update) any { return u.Parallelism })},
		{"delay", "type: service\nupdate: {delay: 5s}", "How long between one and the next. " + updateDefault(func(u taskstate.Update) any { return ms(u.Delay) })},
		{"monitor", "type: service\nupdate: {monitor: 30s}", "How long a new task is watched. " + updateDefault(func(u taskstate.Update) any { return ms(u.Monitor) })},
		{"max_failure_ratio", "type: service\nupdate: {max_failure_ratio: 0.1}", "Which share may fail, from 0 to 1. " + updateDefault(func(u taskstate.Update) any { return u.MaxFailureRatio })},
		{"on_failure", "type: service\nupdate: {on_failure: rollback}", "When more fail: `pause`, `continue`, `rollback`. " + updateDefault(func(u taskstate.Update) any { return u.OnFailure })},
		{"order", "type: service\nupdate: {order: start-first}", "`stop-first` or `start-first`. " + updateDefault(func(u taskstate.Update) any { return u.Order })},
	}},
	{"schedule", "schedule: {…}", []keyOf{
		{"cron", `schedule: {cron: "*/5 * * * *"}`, "Minute, hour, day, month, weekday"},
		{"zone", `schedule: {cron: "0 3 * * *", zone: Europe/Berlin}`, "Whose clock. Default UTC"},
		{"overlap", `schedule: {cron: "0 3 * * *", overlap: allow}`, "While the last run goes on: `skip` the next one, or `allow` it. Default `skip`"},
	}},
}

var zeros = strings.Repeat("0", 64)

func ms(n int64) string { return fmt.Sprintf("%gs", float64(n)/1000) }

func updateDefault(of func(taskstate.Update) any) string {
	return fmt.Sprintf("Default %v", of(taskstate.DefaultUpdate()))
}

const jobfileIntro = `# Job files

Made from the parser and checked against it, every example on this page included: ` + "`go test ./taskstate/jobfile -run Reference -update`" + ` writes it
anew. A job file is YAML. ` + "`peer submit FILE`" + ` runs it, ` + "`--dry-run`" + ` only says what it would do, and ` + "`peer job ID --file`" + ` writes one
of a job that there is. What it does not know stops it, with line and column; nothing is ever skipped. [examples](../examples) has one of each kind.

Sizes are written like ` + "`512MiB`" + ` or ` + "`20GB`" + `, times like ` + "`1h30m`" + ` or ` + "`2d`" + `; both need their unit. Of ` + "`count` `array` `each` `each_line` `matrix`" + ` there
may be one.
`

// with is a job file: one that only lacks what to run gets something.
func with(example string) []byte {
	if !strings.HasPrefix(example, "run:") {
		example += "\nrun: {process: {command: [hostname]}}"
	}
	return []byte(example + "\n")
}

func parse(text []byte) error {
	var local []jobfile.LocalInput
	var secret []jobfile.LocalSecret
	_, err := jobfile.Parse("job.yaml", text, jobfile.Options{
		Local: &local, Secrets: &secret, ReadFile: func(string) ([]byte, error) { return []byte("a\nb\n"), nil },
	})
	return err
}

// allowed are the keys the parser takes at a place, as it says itself.
func allowed(t *testing.T, in string) []string {
	t.Helper()
	text := "memry: 1\nrun: {noop: {}}\n"
	if in != "" {
		parts := strings.Split(strings.ReplaceAll(in, "[0]", ""), ".")
		text = "memry: 1"
		for _, p := range slices.Backward(parts) {
			text = p + ": {" + text + "}"
		}
		if strings.HasSuffix(in, "[0]") {
			text = parts[0] + ": [{memry: 1}]"
		}
		text += "\n"
	}
	err := parse([]byte(text))
	if err == nil {
		t.Fatalf("%s: it takes a key memry", in)
	}
	for line := range strings.Lines(err.Error()) {
		if _, after, ok := strings.Cut(line, "Allowed "); ok && strings.Contains(line, "memry") {
			_, names, _ := strings.Cut(strings.TrimSpace(after), ": ")
			return strings.Split(names, ", ")
		}
	}
	t.Fatalf("%s: %v", in, err)
	return nil
}

func TestTheReferenceOfJobFilesHasTheKeysOfTheParserAndExamplesThatItTakes(t *testing.T) {
	var page strings.Builder
	page.WriteString(jobfileIntro)
	for _, place := range placesOfKeys {
		var names []string
		title := "The keys"
		if place.in != "" {
			title = "`" + place.say + "`"
			if place.in == "run.process" || place.in == "run.noop" {
				title = "`" + place.in + "`"
			}
		}
		fmt.Fprintf(&page, "\n## %s\n\n| key | | example |\n|---|---|---|\n", title)
		for _, k := range place.keys {
			names = append(names, k.key)
			if err := parse(with(k.example)); err != nil {
				t.Errorf("%s: %s: %v", k.key, k.example, err)
			}
			if !strings.Contains(k.example, k.key+":") {
				t.Errorf("%s: its example %q does not show it", k.key, k.example)
			}
			line := strings.NewReplacer("\n", "` `", "|", `\|`).Replace(strings.Replace(k.example, zeros, "…", 1))
			fmt.Fprintf(&page, "| `%s` | %s | `%s` |\n", k.key, k.what, line)
		}
		if takes := allowed(t, place.in); !slices.Equal(takes, names) {
			t.Errorf("%q: the parser takes %q, the page has %q", place.in, takes, names)
		}
	}
	if err := golden.Check("../../docs/jobfile.md", page.String()); err != nil {
		t.Error(err)
	}
}
