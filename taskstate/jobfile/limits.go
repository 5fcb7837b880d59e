package jobfile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/coveyproject/covey/taskstate"

	"github.com/goccy/go-yaml/ast"
)

// maxLimit bounds numbers of files and processes: what Linux can count.
const maxLimit = 1<<22 - 1

// limit is what a key of limits takes.
type limit struct {
	name  string
	least int64
	bytes bool // else a number
}

func limits() []limit {
	return []limit{
		{taskstate.LimitFiles, taskstate.LeastFiles, false},
		{taskstate.LimitProcesses, 1, false},
		{taskstate.LimitCore, 0, true},
		{taskstate.LimitFileSize, 1, true},
	}
}

func (r *reader) limits(n ast.Node, path string) map[string]int64 {
	all := map[string]int64{}
	fields := make([]field, 0, len(limits()))
	for _, l := range limits() {
		fields = append(fields, field{l.name, func(n ast.Node, at string) {
			if l.bytes {
				all[l.name] = quantity(r, n, at, l.parse)
			} else {
				all[l.name] = int64(r.whole(n, at, int(l.least), maxLimit))
			}
		}})
	}
	r.object(n, path, fields)
	if len(all) == 0 {
		return nil
	}
	return all
}

// parse reads a limit as it is spelt on the command line and in files.
func (l limit) parse(s string) (v int64, err error) {
	if !l.bytes {
		v, err = strconv.ParseInt(s, 10, 64)
		if err != nil || v < l.least || v > maxLimit {
			return 0, fmt.Errorf("expected a whole number from %d to %s, got %q", l.least, grouped(maxLimit), clip(s))
		}
		return v, nil
	}
	if v, err = ParseSize(s); err == nil && v < l.least {
		err = fmt.Errorf("expected at least %dB, got %s", l.least, clip(s))
	}
	return v, err
}

// Limit reads one limit of each process of a task, as in files=1024, into those of a job.
func Limit(j *taskstate.Job, s string) error {
	name, value, ok := strings.Cut(s, "=")
	at := slices.IndexFunc(limits(), func(l limit) bool { return l.name == name })
	if !ok || at < 0 {
		return fmt.Errorf("expected %s, got %q", limitWords("=N or =SIZE, "), clip(s))
	}
	if _, twice := j.Limits[name]; twice {
		return fmt.Errorf("%s is given twice", name)
	}
	v, err := limits()[at].parse(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if j.Limits == nil {
		j.Limits = map[string]int64{}
	}
	j.Limits[name] = v
	return nil
}

func limitWords(between string) string {
	var words []string
	for _, l := range limits() {
		words = append(words, l.name)
	}
	return strings.Join(words, between)
}

// limits checks what was not read here.
func (ps *checks) limits(j *taskstate.Job) {
	for _, name := range slices.Sorted(maps.Keys(j.Limits)) {
		at := slices.IndexFunc(limits(), func(l limit) bool { return l.name == name })
		switch v := j.Limits[name]; {
		case at < 0:
			ps.bad("limits", "there is no limit %q; allowed is %s", clip(name), limitWords(", "))
		case limits()[at].bytes && v < limits()[at].least:
			ps.bad("limits."+name, "expected at least %dB, got %d", limits()[at].least, v)
		case !limits()[at].bytes:
			ps.between("limits."+name, v, limits()[at].least, maxLimit)
		}
	}
}

func (w *writer) limits(j *taskstate.Job) {
	var parts []string
	for _, l := range limits() {
		v, ok := j.Limits[l.name]
		switch {
		case ok && l.bytes:
			parts = append(parts, l.name+": "+size(v))
		case ok:
			parts = append(parts, l.name+": "+strconv.FormatInt(v, 10))
		}
	}
	if len(parts) > 0 {
		w.line(0, "limits", "{"+strings.Join(parts, ", ")+"}")
	}
}
