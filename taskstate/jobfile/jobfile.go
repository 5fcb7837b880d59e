package jobfile

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coveyproject/covey/taskstate"
)

// MaxFile caps a job file in bytes.
const MaxFile = 1 << 20

// maxErrors is how many errors one reading reports: enough to mend a file in one go, few enough to
// read.
const maxErrors = 10

// Options of Parse; the zero value is usable.
type Options struct {
	// ReadFile reads the file each_line names, given its path with the job file's folder in front.
	// nil reads from disk, at most MaxList bytes.
	ReadFile func(path string) ([]byte, error)
	// Local gets the inputs that are paths, whose Ref is empty then. nil: such inputs are refused.
	Local *[]LocalInput
	// Secrets gets where the values of secrets are. nil: a file with secrets is refused.
	Secrets *[]LocalSecret
}

// Error is one fault of a job file, at a place in it. Line and Col count from 1.
type Error struct {
	File      string
	Line, Col int
	Msg       string
}

// Error is FILE:LINE:COLUMN: MESSAGE, which terminals and editors turn into a link.
func (e *Error) Error() string { return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Msg) }

// Errors are the faults of one job file in the order of its lines, at most ten. Parse returns this
// type.
type Errors []*Error

// Error lists one fault per line.
func (e Errors) Error() string {
	s := make([]string, len(e))
	for i, x := range e {
		s[i] = x.Error()
	}
	return strings.Join(s, "\n")
}

// Unwrap gives errors.As each fault.
func (e Errors) Unwrap() []error {
	s := make([]error, len(e))
	for i, x := range e {
		s[i] = x
	}
	return s
}

// Parse reads a job file. name is its path: it stands in errors, names the job that does not name
// itself, and its folder is where each_line is looked for. The job has its defaults and has passed
// Validate; id and submitter are still empty. The error is an Errors.
func Parse(name string, data []byte, opts Options) (*taskstate.Job, error) {
	r := &reader{file: name, opts: opts, at: map[string]place{}}
	job := r.job(data)
	if len(r.errs) == 0 {
		for _, p := range fillMarks(job) {
			r.fail(r.placeOf(p.field), "%s", p.String())
		}
		for _, p := range problems(job) {
			if slices.Contains(r.local, p.field) {
				continue
			}
			r.fail(r.placeOf(p.field), "%s", p.String())
		}
	}
	if len(r.errs) == 0 {
		return job, nil
	}
	slices.SortStableFunc(r.errs, func(a, b *Error) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col)) })
	return nil, r.errs[:min(len(r.errs), maxErrors)]
}

// place is a position in the file, from 1.
type place struct{ line, col int }

// reader is one reading of one file: it collects errors instead of stopping at the first.
type reader struct {
	file  string
	opts  Options
	errs  Errors
	local []string         // fields that are to be filled in
	at    map[string]place // where a field ("run.process.env.K") stands
}

func (r *reader) fail(at place, format string, args ...any) {
	r.errs = append(r.errs, &Error{File: r.file, Line: max(at.line, 1), Col: max(at.col, 1), Msg: oneLine(fmt.Sprintf(format, args...))})
}

// oneLine spells out what would break a line or change a terminal: keys come from the file as they
// are.
func oneLine(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	var b strings.Builder
	for _, c := range s {
		if unicode.IsControl(c) {
			b.WriteString(strings.Trim(strconv.QuoteRune(c), "'"))
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

// placeOf finds a field's place, or that of the nearest thing around it.
func (r *reader) placeOf(field string) place {
	for field != "" {
		if p, ok := r.at[field]; ok {
			return p
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return place{1, 1}
}

// job reads the whole: bytes, tokens, tree, fields, defaults.
func (r *reader) job(data []byte) *taskstate.Job {
	if len(data) > MaxFile {
		r.fail(place{}, "the file has %d bytes, a job file has at most %d; put a long list into a file of its own and name it with each_line", len(data), MaxFile)
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		r.fail(invalidUTF8(data), "this is not UTF-8 text")
		return nil
	}
	// To YAML all line ends are one; its library knows the others only outside of quotes.
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data))
	if !strings.HasSuffix(text, "\n") {
		text += "\n" // without it the library does not fold a last line
	}
	root := r.parse(text)
	if root == nil {
		return nil
	}
	j := &taskstate.Job{}
	r.top(root, j)
	if len(r.errs) > 0 {
		return nil
	}
	j.Name = cmp.Or(j.Name, NameFrom(r.file))
	r.complete(j)
	return j
}

// complete fills in what the file leaves out. A zero that stands in the file was meant: it is no
// gap for Defaults to fill.
func (r *reader) complete(j *taskstate.Job) {
	given := *j
	if j.Restart != nil {
		r.completeRestart(j)
	}
	Defaults(j)
	if r.said("count") {
		j.Count = given.Count
	}
	if r.said("resources.cpus") {
		j.Resources.MilliCPU = given.Resources.MilliCPU
	}
	if r.said("unreachable.replace_after") {
		j.Unreachable = given.Unreachable
	}
	if r.said("priority") {
		j.Priority = given.Priority
	}
}

// said tells whether the file has the key.
func (r *reader) said(path string) bool {
	_, ok := r.at[path]
	return ok
}

func invalidUTF8(data []byte) place {
	p := place{1, 1}
	for len(data) > 0 {
		c, n := utf8.DecodeRune(data)
		switch {
		case c == utf8.RuneError && n == 1:
			return p
		case c == '\n':
			p = place{p.line + 1, 1}
		default:
			p.col++
		}
		data = data[n:]
	}
	return p
}
