package jobfile

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/taskstate"

	"github.com/goccy/go-yaml/ast"
)

// LocalInput is an input that is a file or folder of whoever wrote the job file: they put it, and
// fill in its Ref.
type LocalInput struct {
	Index int    // in Job.Inputs
	Path  string // with the job file's folder in front
	At    string // FILE:LINE:COLUMN
}

// inputs reads what every task finds in its folder.
func (r *reader) inputs(n ast.Node, path string, j *taskstate.Job) {
	seq, ok := n.(*ast.SequenceNode)
	switch {
	case !ok:
		r.fail(placeAt(n), "%sexpected a list, as in [scene.blend, textures/], got %s", prefix(path), kind(n))
		return
	case len(seq.Values) == 0:
		r.fail(placeAt(n), "%s: the list is empty; leave the key out to have none", path)
	}
	for i, v := range seq.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		r.at[at] = placeAt(v)
		r.input(v, at, j)
	}
}

// input reads one: a path, or keys.
func (r *reader) input(n ast.Node, at string, j *taskstate.Job) {
	in, local := taskstate.Input{}, ""
	before := len(r.errs)
	if _, ok := entries(n); !ok {
		local, _ = r.text(n, at)
	} else {
		r.object(n, at, []field{
			{"path", func(n ast.Node, p string) { local = r.filled(n, p) }},
			{"ref", func(n ast.Node, p string) { in.Ref = r.filled(n, p) }},
			{"from", func(n ast.Node, p string) { in.From = taskstate.JobID(r.filled(n, p)) }},
			{"slot", func(n ast.Node, p string) { in.SameSlot = oneWord(r, n, p, sameSlot) == sameSlot }},
			{"name", func(n ast.Node, p string) { in.Name = r.filled(n, p) }},
			{"exec", func(n ast.Node, p string) { in.Exec = r.flag(n, p) }},
			{"writable", func(n ast.Node, p string) { in.Writable = r.flag(n, p) }},
		})
		if r.oneOf(at, "path", "ref", "from") == 0 && len(r.errs) == before {
			r.fail(placeAt(n), "%s: say which file or folder: path: DATA, ref: b3:… as `peer put` prints it, or from: JOB for what its tasks left", at)
		}
	}
	if len(r.errs) > before {
		return
	}
	switch {
	case in.From != "":
		if in.Name == "" {
			in.Name = string(in.From)
		}
	case local == "":
		if in.Name == "" && in.Ref != "" {
			r.fail(placeAt(n), "%s: a ref has no name; say what it is called there, as in {ref: %s, name: data}", at, clip(in.Ref))
			return
		}
	case r.opts.Local == nil:
		r.fail(placeAt(n), "%s: paths are read by `peer submit`; what was put already is named by ref: b3:…", at)
		return
	default:
		full := filepath.FromSlash(local)
		if !filepath.IsAbs(full) {
			full = filepath.Join(filepath.Dir(r.file), full)
		}
		p := placeAt(n)
		*r.opts.Local = append(*r.opts.Local, LocalInput{len(j.Inputs), full, fmt.Sprintf("%s:%d:%d", r.file, p.line, p.col)})
		if in.Name == "" {
			in.Name = InputName(local)
		}
		r.local = append(r.local, fmt.Sprintf("inputs[%d].ref", len(j.Inputs)))
	}
	j.Inputs = append(j.Inputs, in)
}

// InputName is what an input is called whose author says nothing: the last part of its path. The
// folder that a path begins at is that of the task.
func InputName(local string) string {
	name := path.Base(path.Clean(filepath.ToSlash(local)))
	if name == "/" || name == ".." {
		return ""
	}
	return name
}

// inputRule is what an input may be called.
const inputRule = "expected what it is called in the task's own folder: a relative path with slashes, without .., colons and backslashes, or . for a folder whose files lie in it"

// inputs checks what tasks find in their folders.
func (ps *checks) inputs(j *taskstate.Job) {
	if len(j.Inputs) == 0 {
		return
	}
	if j.Run.Process == nil {
		ps.bad("inputs", "only a process reads files")
	}
	if len(j.Inputs) > taskstate.MaxInputs {
		ps.bad("inputs", "there are %d, at most %d are allowed; put the files into one folder and name that", len(j.Inputs), taskstate.MaxInputs)
		return
	}
	for i, in := range j.Inputs {
		at := fmt.Sprintf("inputs[%d]", i)
		ps.inputName(at+".name", in.Name)
		ref, err := tree.ParseRef(in.Ref)
		switch {
		case in.From != "":
			ps.from(at, in)
		case in.SameSlot:
			ps.bad(at+".slot", "it says which of the tasks of another job is meant, and goes with from: JOB")
		case err != nil:
			ps.bad(at+".ref", "expected b3:… as `peer put` prints it, got %q", clip(in.Ref))
		case in.Name == "." && !ref.Dir:
			ps.bad(at+".name", "only a folder can be the task's own; a file has a name")
		case ref.Dir && in.Exec:
			ps.bad(at+".exec", "it is a folder; its files say themselves whether they may be executed")
		}
		if in.Bytes < 0 || in.Files < 0 {
			ps.bad(at, "it has %d bytes in %d files", in.Bytes, in.Files)
		}
		for k, other := range j.Inputs[:i] {
			if collide(in.Name, other.Name) {
				ps.bad(at+".name", "%q and %q (inputs[%d]) are in each other's way; give one of them another name", clip(in.Name), clip(other.Name), k)
			}
		}
		if p := j.Run.Process; p != nil && len(p.Script) > 0 && collide(in.Name, p.ScriptFile()) {
			ps.bad(at+".name", "%q is what the script is called there; give it another name", clip(in.Name))
		}
	}
}

// sameSlot says that a task finds only what that of the same slot left.
const sameSlot = "same"

// from checks an input that another job leaves.
func (ps *checks) from(at string, in taskstate.Input) {
	switch {
	case in.Ref != "":
		ps.bad(at+".ref", "it is what job %s leaves, or what was put; not both", clip(string(in.From)))
	case !validName(string(in.From)):
		ps.bad(at+".from", "expected the name or the id of a job, got %q", clip(string(in.From)))
	case in.Exec:
		ps.bad(at+".exec", "what a job leaves is a folder; its files say themselves whether they may be executed")
	}
}

// collide tells whether two names cannot be in one folder. What the files of a folder called . are
// nobody knows here.
func collide(a, b string) bool {
	if a == "." || b == "." {
		return a == b
	}
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

func (ps *checks) inputName(field, name string) {
	bad := len(name) > maxDir || !plain(name) || strings.ContainsAny(name, `\:`) || strings.ContainsFunc(name, unicode.IsControl)
	parts := strings.Split(name, "/")
	bad = bad || name != "." && (slices.Contains(parts, "") || slices.Contains(parts, ".") || slices.Contains(parts, "..")) ||
		slices.ContainsFunc(parts, func(p string) bool { return len(p) > 255 })
	if bad {
		ps.bad(field, "%s; got %q", inputRule, clip(name))
	}
}
