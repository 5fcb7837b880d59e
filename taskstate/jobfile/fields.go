package jobfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coveyproject/covey/taskstate"

	"github.com/goccy/go-yaml/ast"
)

// MaxList caps the file each_line names, in bytes.
const MaxList = 4 << 20

// top reads the keys of the file. A key that is built moves from the list of those that are not to
// a line of its own.
func (r *reader) top(n ast.Node, j *taskstate.Job) {
	before := len(r.errs)
	r.object(n, "", []field{
		{"name", func(n ast.Node, p string) { j.Name = r.jobName(n, p) }},
		{"type", func(n ast.Node, p string) {
			j.Type = oneWord(r, n, p, taskstate.BatchJob, taskstate.ServiceJob, taskstate.GlobalJob)
		}},
		{"count", func(n ast.Node, p string) { j.Count = r.whole(n, p, 0, MaxCount) }},
		{"array", func(n ast.Node, p string) { r.array(n, p, j) }},
		{"each", func(n ast.Node, p string) { j.Each = r.each(n, p) }},
		{"each_line", func(n ast.Node, p string) { r.eachLine(n, p, j) }},
		{"escaped", func(n ast.Node, p string) { j.Escaped = r.flag(n, p) }},
		{"matrix", func(n ast.Node, p string) { j.Matrix = r.matrix(n, p) }},
		{"run", func(n ast.Node, p string) { r.run(n, p, &j.Run) }},
		{"resources", func(n ast.Node, p string) { r.resources(n, p, &j.Resources) }},
		{"isolate", func(n ast.Node, p string) {
			j.Isolate = oneWord(r, n, p, taskstate.IsolateNone, taskstate.IsolateFS, taskstate.IsolateStrong)
		}},
		{"net", func(n ast.Node, p string) { j.Net = oneWord(r, n, p, taskstate.NetNone, taskstate.NetAny) }},
		{"limits", func(n ast.Node, p string) { j.Limits = r.limits(n, p) }},
		{"max_output", func(n ast.Node, p string) { j.MaxOutput = quantity(r, n, p, ParseOutput) }},
		{"inputs", func(n ast.Node, p string) { r.inputs(n, p, j) }},
		{"secrets", func(n ast.Node, p string) { r.secrets(n, p) }},
		{"outputs", func(n ast.Node, p string) { r.outputs(n, p, j) }},
		{"keep", func(n ast.Node, p string) { r.output(j).Keep = r.whole(n, p, 1, taskstate.MaxKeep) }},
		{"keep_logs", func(n ast.Node, p string) { j.KeepLogs = r.whole(n, p, 1, taskstate.MaxKeep) }},
		{"timeout", func(n ast.Node, p string) { j.Timeout = r.positive(n, p) }},
		{"parallel", func(n ast.Node, p string) { j.Parallel = r.whole(n, p, 1, MaxCount) }},
		{"delay", func(n ast.Node, p string) { j.Delay = r.positive(n, p) }},
		{"unreachable", func(n ast.Node, p string) { r.unreachable(n, p, &j.Unreachable) }},
		{"constraints", func(n ast.Node, p string) { j.Constraints = r.texts(n, p, `["peer.os == linux"]`) }},
		{"placement", func(n ast.Node, p string) { r.placement(n, p, j) }},
		{"restart", func(n ast.Node, p string) { j.Restart = r.restart(n, p) }},
		{"max_fails", func(n ast.Node, p string) { j.MaxFails = r.whole(n, p, 1, MaxCount) }},
		{"update", func(n ast.Node, p string) { j.Update = r.update(n, p) }},
		{"after", func(n ast.Node, p string) { j.After = r.after(n, p) }},
		{"schedule", func(n ast.Node, p string) { j.Schedule = r.schedule(n, p) }},
		{"priority", func(n ast.Node, p string) { j.Priority = r.whole(n, p, 0, MaxPriority) }},
	})
	if _, ok := r.at["run"]; !ok && len(r.errs) == before { // else the fault reported may be why
		r.fail(placeAt(n), "run is missing: say what to run, as in run: {process: {command: [hostname]}}")
	}
	r.oneOf("", "count", "array", "each", "each_line", "matrix")
	r.oneOf("", "each_line", "escaped") // a list is read as it is
}

// oneOf refuses more than one of keys that cannot be used together.
func (r *reader) oneOf(path string, keys ...string) (given int) {
	first := ""
	for _, k := range keys {
		at, ok := r.at[strings.TrimPrefix(path+"."+k, ".")]
		switch {
		case !ok:
			continue
		case first != "":
			r.fail(at, "%s%s and %s cannot be used together; keep one", prefix(path), first, k)
		default:
			first = k
		}
		given++
	}
	return given
}

// filled reads a text that must not be empty.
func (r *reader) filled(n ast.Node, path string) string {
	s, ok := r.text(n, path)
	if ok && s == "" {
		r.fail(placeAt(n), "%s is empty; leave the key out to have none", path)
	}
	return s
}

// jobName refuses an empty name, which would otherwise pass for none.
func (r *reader) jobName(n ast.Node, path string) string {
	name, ok := r.text(n, path)
	if ok && name == "" {
		r.fail(placeAt(n), "%s: %s", path, nameRule)
	}
	return name
}

// oneWord reads one of the words a key may have.
func oneWord[W ~string](r *reader, n ast.Node, path string, allowed ...W) W {
	s, ok := r.text(n, path)
	if !ok || slices.Contains(allowed, W(s)) {
		return W(s)
	}
	words := make([]string, len(allowed))
	for i, w := range allowed {
		words[i] = string(w)
	}
	hint := ""
	if near := nearest(s, words); near != "" {
		hint = "did you mean " + near + "? "
	}
	r.fail(placeAt(n), "%s: unknown word %q: %sAllowed is %s", path, clip(s), hint, strings.Join(words, ", "))
	return ""
}

// array reads numbers as `peer run --array` does; a lone one is a number to YAML.
func (r *reader) array(n ast.Node, path string, j *taskstate.Job) {
	s, ok := r.text(n, path)
	if !ok {
		return
	}
	if err := Array(j, s); err != nil {
		r.fail(placeAt(n), "%s: %v", path, err)
	}
}

func (r *reader) each(n ast.Node, path string) []string {
	items := r.texts(n, path, "[a.jpg, b.jpg]")
	if seq, ok := n.(*ast.SequenceNode); ok && len(seq.Values) == 0 {
		r.fail(placeAt(n), "%s: the list is empty, so there is nothing to run", path)
	}
	return items
}

func (r *reader) eachLine(n ast.Node, path string, j *taskstate.Job) {
	s, ok := r.text(n, path)
	if !ok {
		return
	}
	full := filepath.FromSlash(s)
	if !filepath.IsAbs(full) {
		full = filepath.Join(filepath.Dir(r.file), full)
	}
	read := r.opts.ReadFile
	if read == nil {
		read = readList
	}
	data, err := read(full)
	if err == nil {
		j.Each, j.Escaped, err = Lines(data)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.fail(placeAt(n), "%s: there is no file %q (paths count from the job file's folder)", path, clip(s))
	case err != nil:
		r.fail(placeAt(n), "%s: %q: %v", path, clip(s), cause(err))
	}
}

// cause drops the path an fs error repeats.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

func readList(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxList+1)) // Lines refuses the byte too many
}

func (r *reader) run(n ast.Node, path string, run *taskstate.Run) {
	r.object(n, path, []field{
		{"process", func(n ast.Node, p string) { run.Process = r.process(n, p) }},
		{"noop", func(n ast.Node, p string) { run.Noop = r.noop(n, p) }},
	}, "container", "wasm")
	if pairs, ok := entries(n); ok && len(pairs) == 0 {
		r.fail(placeAt(n), "run: say what to run, as in run: {process: {command: [hostname]}}")
	}
	r.oneOf(path, "process", "noop")
}

func (r *reader) process(n ast.Node, path string) *taskstate.Process {
	before := len(r.errs)
	p := &taskstate.Process{}
	var command ast.Node
	r.object(n, path, []field{
		{"command", func(n ast.Node, _ string) { command = n }}, // its form depends on shell, which may follow
		{"env", func(n ast.Node, at string) { p.Env = r.env(n, at) }},
		{"dir", func(n ast.Node, at string) { p.Dir, _ = r.text(n, at) }},
		{"shell", func(n ast.Node, at string) { p.Shell = r.flag(n, at) }},
		{"script", func(n ast.Node, at string) { p.Script = []byte(r.filled(n, at)) }},
		{"script_name", func(n ast.Node, at string) { p.ScriptName = r.filled(n, at) }},
	})
	at := path + ".command"
	switch {
	case command == nil && (len(r.errs) > before || len(p.Script) > 0): // the fault reported may be why; a script needs no arguments
	case command == nil:
		r.fail(placeAt(n), "%s is missing: what to execute, as in command: [convert, in.png, out.png]", at)
	case p.Shell && command.Type() != ast.SequenceType:
		if line, ok := r.text(command, at); ok {
			p.Command = []string{line}
		}
	case command.Type() == ast.StringType || command.Type() == ast.LiteralType:
		r.fail(placeAt(command), "%s: expected a list of words, as in [convert, in.png, out.png], got %s; for a line of shell add shell: true", at, kind(command))
	default:
		p.Command = r.texts(command, at, "[convert, in.png, out.png]")
	}
	return p
}

func (r *reader) env(n ast.Node, path string) map[string]string {
	pairs, ok := entries(n)
	if !ok {
		r.fail(placeAt(n), "%s: expected names and values, as in {LANG: C}, got %s", path, kind(n))
		return nil
	}
	env := make(map[string]string, len(pairs))
	for _, kv := range pairs {
		key := kv.Key.GetToken().Value
		full := path + "." + key
		if _, twice := env[key]; twice {
			r.fail(placeAt(kv.Key), "the key %q is given twice", key)
		}
		r.at[full] = placeAt(kv.Key)
		if kv.Value == nil || kv.Value.Type() == ast.NullType {
			r.fail(placeAt(kv.Key), `%s has no value; for an empty one write ""`, full)
			continue
		}
		env[key], _ = r.text(kv.Value, full)
	}
	return env
}

func (r *reader) noop(n ast.Node, path string) *taskstate.Noop {
	noop := &taskstate.Noop{}
	r.object(n, path, []field{{"duration", func(n ast.Node, p string) { noop.Duration = r.duration(n, p) }}})
	return noop
}

func (r *reader) unreachable(n ast.Node, path string, u *taskstate.Unreachable) {
	r.object(n, path, []field{
		{"replace_after", func(n ast.Node, p string) { u.ReplaceAfter = r.duration(n, p) }},
		{"wait", func(n ast.Node, p string) { u.Wait = r.flag(n, p) }},
	})
	r.oneOf(path, "replace_after", "wait")
}

func (r *reader) placement(n ast.Node, path string, j *taskstate.Job) {
	r.object(n, path, []field{
		{"strategy", func(n ast.Node, p string) {
			j.Strategy = oneWord(r, n, p, taskstate.Spread, taskstate.Binpack, taskstate.Random)
		}},
		{"over", func(n ast.Node, p string) { j.Over = r.filled(n, p) }},
		{"max_per_peer", func(n ast.Node, p string) { j.MaxPerPeer = r.whole(n, p, 1, MaxCount) }},
	})
}

// positive reads a duration that must not be zero.
func (r *reader) positive(n ast.Node, path string) int64 {
	before := len(r.errs)
	ms := r.duration(n, path)
	if ms == 0 && len(r.errs) == before {
		r.fail(placeAt(n), "%s: must be more than zero; leave the key out to have none", path)
	}
	return ms
}
