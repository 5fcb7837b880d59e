package jobfile_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// written is a job and the file that says so: values that are not said have their defaults.
type written struct {
	job  taskstate.Job
	file map[string]any
}

// says writes a key below others: "run.process.dir".
func (w *written) says(path string, v any) {
	m, keys := w.file, strings.Split(path, ".")
	for _, k := range keys[:len(keys)-1] {
		if m[k] == nil {
			m[k] = map[string]any{}
		}
		m = m[k].(map[string]any)
	}
	m[keys[len(keys)-1]] = v
}

// span writes milliseconds in one of several ways.
func span(t *rapid.T, ms int64) string {
	if ms%1000 == 0 && rapid.Bool().Draw(t, "in seconds") {
		return fmt.Sprintf("%ds", ms/1000)
	}
	return fmt.Sprintf("%dms", ms)
}

// anyJobFile draws a batch job or service and what its file says.
func anyJobFile(t *rapid.T) *written {
	w := &written{file: map[string]any{}}
	maybe := func(what string) bool { return rapid.Bool().Draw(t, what) }
	word := rapid.StringOf(rapid.Rune().Filter(func(r rune) bool { return r != 0 && r != 0xFEFF && r != '{' })) // marks are drawn by marks
	words := rapid.SliceOfN(word, 1, 3)
	ms := rapid.Int64Range(1, 100_000)
	j := &w.job
	j.Name = rapid.StringMatching(`[a-z][a-z0-9-]{0,20}`).Draw(t, "name")
	w.says("name", j.Name)
	j.Run.Process = &taskstate.Process{Command: append([]string{"run"}, words.Draw(t, "command")...)}
	w.says("run.process.command", j.Run.Process.Command)
	if maybe("environment") {
		j.Run.Process.Env = map[string]string{}
		for _, k := range rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Z_][A-Z0-9_]{0,5}`), 1, 3, rapid.ID).Draw(t, "names") {
			j.Run.Process.Env[k] = word.Draw(t, "value")
		}
		w.says("run.process.env", j.Run.Process.Env)
	}
	if maybe("folder") {
		j.Run.Process.Dir = rapid.StringMatching(`[a-z]{1,5}(/[a-z ]{1,5})?`).Draw(t, "dir")
		w.says("run.process.dir", j.Run.Process.Dir)
	}
	if j.Type = taskstate.BatchJob; maybe("a service") {
		j.Type = taskstate.ServiceJob
		w.says("type", "service")
		j.Count = rapid.IntRange(0, 5).Draw(t, "count")
		w.says("count", j.Count)
	} else {
		w.slots(t, words)
		w.marks(t)
		if maybe("max_output") {
			j.MaxOutput = rapid.Int64Range(jobfile.MinOutput, jobfile.MaxOutput).Draw(t, "max_output")
			w.says("max_output", fmt.Sprintf("%dB", j.MaxOutput))
		}
		w.saves(t)
		w.isolates(t)
		w.takes(t)
		if maybe("timeout") {
			j.Timeout = ms.Draw(t, "timeout")
			w.says("timeout", span(t, j.Timeout))
		}
	}
	if maybe("cpus") {
		j.Resources.MilliCPU = rapid.Int64Range(0, 5000).Draw(t, "milli")
		w.says("resources.cpus", fmt.Sprintf("%dm", j.Resources.MilliCPU))
	}
	if maybe("memory") {
		n := rapid.Int64Range(0, 5000).Draw(t, "MiB")
		j.Resources.Memory = n << 20
		w.says("resources.memory", fmt.Sprintf("%dMiB", n))
	}
	if maybe("disk") {
		n := rapid.Int64Range(0, 5000).Draw(t, "GiB")
		j.Resources.Disk = n << 30
		w.says("resources.disk", fmt.Sprintf("%dGiB", n))
	}
	if maybe("priority") {
		j.Priority = rapid.IntRange(0, 100).Draw(t, "how much")
		w.says("priority", j.Priority)
	}
	if maybe("peers") {
		j.Constraints = []string{"peer.os == linux", "peer.label.x in (a, \"b c\")"}[:rapid.IntRange(1, 2).Draw(t, "constraints")]
		w.says("constraints", j.Constraints)
	}
	if maybe("replaced") {
		j.Unreachable.ReplaceAfter = rapid.Int64Range(0, 100_000).Draw(t, "after")
		w.says("unreachable.replace_after", span(t, j.Unreachable.ReplaceAfter))
	}
	return w
}

// takes says what other jobs left, or what was put, that tasks find.
func (w *written) takes(t *rapid.T) {
	for i := range rapid.IntRange(0, 3).Draw(t, "inputs") {
		in, said := taskstate.Input{Name: "in" + itoa(i)}, map[string]any{}
		if rapid.Bool().Draw(t, "from a job") {
			in.From = taskstate.JobID(rapid.StringMatching(`[a-z][a-z0-9-]{0,9}`).Draw(t, "job"))
			said["from"] = in.From
			if in.SameSlot = rapid.Bool().Draw(t, "same slot"); in.SameSlot {
				said["slot"] = "same"
			}
		} else {
			in.Ref = "b3:" + strings.Repeat("0", 64) + "/"
			said["ref"] = in.Ref
		}
		if said["name"] = in.Name; in.From != "" && rapid.Bool().Draw(t, "called as the job") {
			in.Name = string(in.From)
			delete(said, "name")
		}
		if slices.ContainsFunc(w.job.Inputs, func(x taskstate.Input) bool { return x.Name == in.Name }) {
			continue
		}
		if in.Writable = rapid.Bool().Draw(t, "writable"); in.Writable {
			said["writable"] = true
		}
		w.job.Inputs = append(w.job.Inputs, in)
		list, _ := w.file["inputs"].([]any)
		w.file["inputs"] = append(list, said)
	}
}

// isolates says what is kept from tasks, at least.
func (w *written) isolates(t *rapid.T) {
	if l := rapid.SampledFrom([]string{"", taskstate.IsolateNone, taskstate.IsolateFS, taskstate.IsolateStrong}).Draw(t, "isolate"); l != "" {
		w.job.Isolate = l
		w.says("isolate", l)
	}
	if n := rapid.SampledFrom([]string{"", taskstate.NetNone, taskstate.NetAny}).Draw(t, "net"); n != "" {
		w.job.Net = n
		w.says("net", n)
	}
	if files := rapid.Int64Range(3, 50).Draw(t, "files"); files > 3 {
		w.job.Limits = map[string]int64{taskstate.LimitFiles: files}
		w.says("limits.files", files)
		if core := rapid.Int64Range(0, 9).Draw(t, "core"); core < 9 {
			w.job.Limits[taskstate.LimitCore] = core << 10
			w.says("limits.core", fmt.Sprintf("%dKiB", core))
		}
	}
}

// saves says which files are kept, or how often what tasks print is.
func (w *written) saves(t *rapid.T) {
	switch rapid.IntRange(0, 3).Draw(t, "what is kept") {
	case 0:
	case 1:
		w.job.KeepLogs = rapid.IntRange(1, taskstate.MaxKeep).Draw(t, "copies")
		w.says("keep_logs", w.job.KeepLogs)
	default:
		o := &taskstate.Outputs{Globs: rapid.SliceOfNDistinct(rapid.StringMatching(`[a-zé \*?']{1,5}(/\*\*|/\{a,b\})?`), 1, 40, rapid.ID).Draw(t, "globs")}
		if w.job.Outputs = o; rapid.Bool().Draw(t, "short") {
			w.says("outputs", o.Globs)
		} else {
			o.Missing = rapid.SampledFrom([]taskstate.Missing{"fail", "warn", "ok"}).Draw(t, "missing")
			w.says("outputs.globs", o.Globs)
			w.says("outputs.missing", o.Missing)
		}
		if rapid.Bool().Draw(t, "how often") {
			o.Keep = rapid.IntRange(1, taskstate.MaxKeep).Draw(t, "copies")
			w.says("keep", o.Keep)
		}
	}
}

// slots says how many there are, in one of three ways.
func (w *written) slots(t *rapid.T, words *rapid.Generator[[]string]) {
	switch rapid.IntRange(0, 2).Draw(t, "slots") {
	case 0:
		w.job.Count = rapid.IntRange(1, 1000).Draw(t, "count")
		w.says("count", w.job.Count)
	case 1:
		w.job.Each = words.Draw(t, "items")
		w.says("each", w.job.Each)
	default: // a map has no order, so one axis
		w.job.Matrix = []taskstate.Axis{{Name: "size", Values: words.Draw(t, "values")}}
		w.says("matrix", map[string]any{"size": w.job.Matrix[0].Values})
	}
}

// marks says words with marks and with braces that are none.
func (w *written) marks(t *rapid.T) {
	items, axis := len(w.job.Each)+len(w.job.Matrix) > 0, len(w.job.Matrix) > 0
	p := w.job.Run.Process
	said, meant := slices.Clone(p.Command), slices.Clone(p.Command)
	for range rapid.IntRange(0, 3).Draw(t, "words with braces") {
		file, job := "", ""
		for range rapid.IntRange(1, 4).Draw(t, "pieces") {
			piece := rapid.SampledFrom([]string{"{}", `\{}`, "{size}", `\{size}`, `\{siez}`, "${size}", "${COVEY_SIZE}", "{a,b}", `{"a":1}`, "{ ", "}", "x", `\{y}`, "{y}"}).Draw(t, "piece")
			file += piece
			switch {
			case piece == "{}" && items:
				p.Braces = true
			case piece == "{size}" && axis:
				piece = "${COVEY_SIZE}"
			case axis && (piece == `\{size}` || piece == `\{siez}`):
				piece = piece[1:]
			}
			job += piece
		}
		said, meant = append(said, file), append(meant, job)
	}
	for i := range meant {
		if items && !p.Braces {
			meant[i] = strings.ReplaceAll(meant[i], `\{}`, "{}")
		}
	}
	p.Command = meant
	w.says("run.process.command", said)
}

// complete fills in what is not said, as the documentation tells it.
func (w *written) complete() {
	j := &w.job
	_, counted := w.file["count"]
	if !counted {
		j.Count = max(len(j.Each), 1)
		if len(j.Matrix) > 0 {
			j.Count = len(j.Matrix[0].Values)
		}
	}
	if res, _ := w.file["resources"].(map[string]any); res["cpus"] == nil {
		j.Resources.MilliCPU = 1000
	}
	if w.file["priority"] == nil {
		j.Priority = 50
	}
	if w.file["unreachable"] == nil && j.Type == taskstate.BatchJob {
		j.Unreachable.ReplaceAfter = 10_000
	}
	j.Restart = taskstate.DefaultRestart(j.Type)
}

// JSON is YAML: whatever a program writes as JSON is read as what it meant, to the letter.
func TestAFileMeansToTheLetterWhatItSays(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := anyJobFile(r)
		b, err := json.Marshal(w.file)
		if err != nil {
			r.Fatal(err)
		}
		w.complete()
		got, err := jobfile.Parse("x.yaml", b, jobfile.Options{})
		if err != nil {
			r.Fatalf("%s\n%v", b, err)
		}
		if d := cmp.Diff(&w.job, got); d != "" {
			r.Fatalf("%s\n%s", b, d)
		}
	})
}

// The order of keys says nothing.
func TestTheOrderOfKeysMeansNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := anyJobFile(r)
		var keys, lines []string
		for k := range w.file {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range rapid.Permutation(keys).Draw(r, "order") {
			b, err := json.Marshal(w.file[k])
			if err != nil {
				r.Fatal(err)
			}
			lines = append(lines, k+": "+string(b))
		}
		drawn := strings.Join(lines, "\n")
		slices.Sort(lines)
		one, err1 := jobfile.Parse("x.yaml", []byte(drawn), jobfile.Options{})
		other, err2 := jobfile.Parse("x.yaml", []byte(strings.Join(lines, "\n")), jobfile.Options{})
		if err1 != nil || err2 != nil || cmp.Diff(one, other) != "" {
			r.Fatalf("%s\n%v %v %s", drawn, err1, err2, cmp.Diff(one, other))
		}
	})
}

func TestANameMadeOfAPathIsAlwaysOneAndStaysAsItIs(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		name := jobfile.NameFrom(rapid.String().Draw(r, "path"))
		j := process(func(j *taskstate.Job, _ *taskstate.Process) { j.Name = name })
		if err := jobfile.Validate(j); err != nil || jobfile.NameFrom(name) != name {
			r.Fatalf("%q: %v; of itself it makes %q", name, err, jobfile.NameFrom(name))
		}
	})
}

func TestALineOfAListIsTheLineItself(t *testing.T) {
	line := rapid.StringOf(rapid.Rune().Filter(func(r rune) bool { return r != '\n' && r != '\r' && r != 0xFEFF }))
	rapid.Check(t, func(r *rapid.T) {
		all := rapid.SliceOf(line).Draw(r, "lines")
		var want []string
		for _, l := range all {
			if strings.TrimSpace(l) != "" {
				want = append(want, l)
			}
		}
		end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(r, "end")
		got, escaped, err := jobfile.Lines([]byte(strings.Join(all, end)))
		if escaped || (err == nil) != (len(want) > 0) || !slices.Equal(got, want) {
			r.Fatalf("%q is read as %q, %v", all, got, err)
		}
	})
}
