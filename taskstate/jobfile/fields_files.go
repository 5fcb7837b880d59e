package jobfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/taskstate"

	"github.com/goccy/go-yaml/ast"
)

// outputs reads which files of a task are kept: patterns, or them with what follows if there are
// none.
func (r *reader) outputs(n ast.Node, path string, j *taskstate.Job) {
	o := r.output(j)
	const example = `["frames/*.png"]`
	if _, ok := entries(n); !ok {
		o.Globs = r.texts(n, path, example)
		r.some(n, path)
		return
	}
	before := len(r.errs)
	r.object(n, path, []field{
		{"globs", func(n ast.Node, at string) {
			o.Globs = r.texts(n, path, example) // called as in the short form
			r.some(n, at)
		}},
		{"missing", func(n ast.Node, at string) {
			o.Missing = oneWord(r, n, at, taskstate.MissingFails, taskstate.MissingWarns, taskstate.MissingOK)
		}},
	})
	if !r.said(path+".globs") && len(r.errs) == before {
		r.fail(placeAt(n), "%s.globs is missing: which files of a task are kept, as in globs: %s", path, example)
	}
}

// some refuses a list in which there is nothing.
func (r *reader) some(n ast.Node, path string) {
	if seq, ok := n.(*ast.SequenceNode); ok && len(seq.Values) == 0 {
		r.fail(placeAt(n), "%s: the list is empty; leave the key out to keep no files", path)
	}
}

// output is where the keys about outputs are put, in whatever order they come.
func (r *reader) output(j *taskstate.Job) *taskstate.Outputs {
	if j.Outputs == nil {
		j.Outputs = &taskstate.Outputs{}
	}
	return j.Outputs
}

// outputs checks what of a task's files is kept.
func (ps *checks) outputs(j *taskstate.Job) {
	ps.between("keep_logs", int64(j.KeepLogs), 0, taskstate.MaxKeep)
	o := j.Outputs
	if o == nil {
		return
	}
	ps.between("keep", int64(o.Keep), 0, taskstate.MaxKeep)
	ps.oneOf("outputs.missing", string(o.Missing), "", string(taskstate.MissingFails), string(taskstate.MissingWarns), string(taskstate.MissingOK))
	switch {
	case len(o.Globs) == 0 && j.Type.Lasts(): // that is said already
	case len(o.Globs) == 0 && o.Keep > 0:
		ps.bad("keep", "it says how many copies there are of outputs, and there are none: say which files, as in outputs: [\"*.png\"]; for what tasks print use keep_logs")
	case len(o.Globs) == 0:
		ps.bad("outputs", "it names no files; say which, as in [\"*.png\"], or leave it out")
	case len(o.Globs) > taskstate.MaxOutputGlobs:
		ps.bad("outputs", "%d patterns, at most %d are allowed; put the files into one folder and name that", len(o.Globs), taskstate.MaxOutputGlobs)
		return
	}
	if j.KeepLogs > 0 && !j.Type.Lasts() {
		ps.bad("keep_logs", "what tasks print is kept with their outputs, as often as them; leave it out and set keep")
	}
	for i, g := range o.Globs {
		ps.glob(fmt.Sprintf("outputs[%d]", i), g)
		if k := slices.Index(o.Globs[:i], g); k >= 0 {
			ps.bad(fmt.Sprintf("outputs[%d]", i), "it is the same as outputs[%d]", k)
		}
	}
}

// glob refuses a pattern that cannot match, or not what its author meant.
func (ps *checks) glob(field, g string) {
	_, err := tree.ParseGlob(g)
	switch {
	case !plain(g):
		ps.bad(field, "a path is UTF-8 text without zero bytes")
	case strings.Contains(g, "{}") || strings.Contains(g, "${"):
		ps.bad(field, "%s", notFilled(g))
	case err != nil:
		ps.bad(field, "expected a path below the task's own folder, as in frames/*.png or out/**, got %q: %v", clip(g), err)
	}
}

func notFilled(glob string) string {
	return fmt.Sprintf("nothing is filled in here, got %q: every task has a folder of its own, so a pattern for all of them is enough, as in frame-*.png", clip(glob))
}
