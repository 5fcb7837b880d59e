package jobfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"

	"github.com/goccy/go-yaml/ast"
)

// restart reads a policy; what it leaves out depends on the job's type, which may follow: see
// completeRestart.
func (r *reader) restart(n ast.Node, path string) *taskstate.Restart {
	p := &taskstate.Restart{}
	if _, ok := entries(n); !ok && n.Type() != ast.SequenceType {
		s, _ := r.text(n, path)
		p, err := RestartPolicy(s)
		if err != nil {
			r.fail(placeAt(n), "%s: %v, or keys and values, as in {condition: on-failure, attempts: 3, delay: 1s}", path, err)
		}
		return p
	}
	r.object(n, path, []field{
		{"condition", func(n ast.Node, at string) {
			p.Condition = oneWord(r, n, at, taskstate.RestartNone, taskstate.RestartOnFailure, taskstate.RestartAny)
		}},
		{"attempts", func(n ast.Node, at string) { p.Attempts = r.whole(n, at, 0, taskstate.MaxRestartAttempts) }},
		{"delay", func(n ast.Node, at string) { p.Delay = r.duration(n, at) }},
		{"window", func(n ast.Node, at string) { p.Window = r.duration(n, at) }},
	})
	return p
}

// RestartPolicy reads the short form of a policy: "on-failure", or "on-failure:3" for at most three
// restarts. The error says what is wanted; the policy is never nil.
func RestartPolicy(s string) (*taskstate.Restart, error) {
	when, times, limited := strings.Cut(s, ":")
	p := &taskstate.Restart{Condition: taskstate.RestartCondition(when)}
	known := []taskstate.RestartCondition{taskstate.RestartNone, taskstate.RestartOnFailure, taskstate.RestartAny}
	n, err := strconv.Atoi(times)
	if !slices.Contains(known, p.Condition) || limited && (err != nil || n < 1) {
		return p, fmt.Errorf("expected none, on-failure or any, or with a number of times, as in on-failure:3, got %q", clip(s))
	}
	p.Attempts = n
	return p, nil
}

// completeRestart fills in what a policy leaves out: who writes one for a batch job means failures,
// and the others keep their default delay.
func (r *reader) completeRestart(j *taskstate.Job) {
	p := j.Restart
	if p.Condition == "" {
		p.Condition = taskstate.RestartOnFailure
		if j.Type.Lasts() {
			p.Condition = taskstate.RestartAny
		}
	}
	if j.Type.Lasts() && p.Condition != taskstate.RestartNone && !r.said("restart.delay") {
		p.Delay = taskstate.DefaultRestartDelay.Milliseconds()
	}
}

func (r *reader) update(n ast.Node, path string) *taskstate.Update {
	u := taskstate.DefaultUpdate()
	r.object(n, path, []field{
		{"parallelism", func(n ast.Node, at string) { u.Parallelism = r.whole(n, at, 0, MaxCount) }},
		{"delay", func(n ast.Node, at string) { u.Delay = r.duration(n, at) }},
		{"monitor", func(n ast.Node, at string) { u.Monitor = r.duration(n, at) }},
		{"max_failure_ratio", func(n ast.Node, at string) { u.MaxFailureRatio = r.ratio(n, at) }},
		{"on_failure", func(n ast.Node, at string) {
			u.OnFailure = oneWord(r, n, at, taskstate.PauseUpdate, taskstate.ContinueUpdate, taskstate.RollBackUpdate)
		}},
		{"order", func(n ast.Node, at string) { u.Order = oneWord(r, n, at, taskstate.StopFirst, taskstate.StartFirst) }},
	})
	return &u
}

func (r *reader) ratio(n ast.Node, path string) float64 {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		s := n.GetToken().Value
		v, err := strconv.ParseFloat(s, 64)
		if err == nil && validRatio(v) && strings.Trim(s, "0123456789.") == "" {
			return v
		}
		r.fail(placeAt(n), "%s: %s, got %s", path, ratioRule, clip(s))
	default:
		r.fail(placeAt(n), "%s: %s, got %s", path, ratioRule, kind(n))
	}
	return 0
}

func (r *reader) after(n ast.Node, path string) []taskstate.JobID {
	words := r.texts(n, path, "[other-job]")
	out := make([]taskstate.JobID, len(words))
	for i, w := range words {
		out[i] = taskstate.JobID(w)
	}
	return out
}

// schedule reads an expression, or one with what belongs to it.
func (r *reader) schedule(n ast.Node, path string) *taskstate.Schedule {
	s := &taskstate.Schedule{}
	if _, ok := entries(n); !ok {
		if n.Type() == ast.SequenceType {
			r.fail(placeAt(n), `%s: expected a cron expression, as in "0 3 * * *", or {cron: "0 3 * * *", zone: Europe/Berlin, overlap: skip}, got a list`, path)
			return s
		}
		s.Cron, _ = r.text(n, path)
		return s
	}
	before := len(r.errs)
	r.object(n, path, []field{
		{"cron", func(n ast.Node, at string) { s.Cron, _ = r.text(n, at) }},
		{"zone", func(n ast.Node, at string) { s.Zone = r.filled(n, at) }},
		{"overlap", func(n ast.Node, at string) {
			s.Overlap = oneWord(r, n, at, taskstate.SkipOverlap, taskstate.AllowOverlap)
		}},
	})
	if !r.said(path+".cron") && len(r.errs) == before {
		r.fail(placeAt(n), `%s.cron is missing: when to start, as in cron: "0 3 * * *"`, path)
	}
	return s
}

// matrix reads the axes in the order of the file: the last one turns fastest.
func (r *reader) matrix(n ast.Node, path string) []taskstate.Axis {
	pairs, ok := entries(n)
	if !ok {
		r.fail(placeAt(n), "%s: expected names and lists of values, as in {size: [s, l], seed: [1, 2, 3]}, got %s", path, kind(n))
		return nil
	}
	if len(pairs) == 0 {
		r.fail(placeAt(n), "%s has no axes: give it some, as in {size: [s, l]}, or leave it out", path)
	}
	var axes []taskstate.Axis
	for _, kv := range pairs {
		name := kv.Key.GetToken().Value
		at := path + "." + name
		r.at[at] = placeAt(kv.Key)
		if kv.Value == nil || kv.Value.Type() == ast.NullType {
			r.fail(placeAt(kv.Key), "%s has no values; give it some, as in [1, 2, 3]", at)
			continue
		}
		axes = append(axes, taskstate.Axis{Name: name, Values: r.axis(kv.Value, at)})
	}
	return axes
}

// axis reads the values of an axis: a list of them, or a range of numbers as in array.
func (r *reader) axis(n ast.Node, path string) []string {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode:
		if values, ok, err := rangeValues(spelling(n)); ok && err != nil {
			r.fail(placeAt(n), "%s: %v", path, err)
			return nil
		} else if ok {
			return values
		}
	}
	return r.texts(n, path, "[1, 2, 3] or 1-3")
}

// resources reads what has a unit, and numbers of anything else by name. A slip of the finger must
// not become a name of its own.
func (r *reader) resources(n ast.Node, path string, res *taskstate.Resources) {
	counts := map[string]int64{}
	count := func(n ast.Node, at string) {
		counts[strings.TrimPrefix(at, path+".")] = int64(r.whole(n, at, 0, taskstate.MaxCountOf))
	}
	fields := []field{
		{"cpus", func(n ast.Node, p string) { res.MilliCPU = quantity(r, n, p, spell.CPUs) }},
		{"memory", func(n ast.Node, p string) { res.Memory = quantity(r, n, p, ParseSize) }},
		{"disk", func(n ast.Node, p string) { res.Disk = quantity(r, n, p, ParseSize) }},
		{taskstate.GPUs, count},
	}
	before := len(r.errs)
	pairs, _ := entries(n)
	for _, kv := range pairs {
		name, at := kv.Key.GetToken().Value, placeAt(kv.Key)
		if !ownName(name) {
			continue
		}
		fields = append(fields, field{name, func(n ast.Node, p string) {
			if err := taskstate.CheckCountName(name); err != nil {
				r.fail(at, "%s: %v", path, err)
				return
			}
			count(n, p)
		}})
	}
	r.object(n, path, fields)
	if len(r.errs) == before {
		res.Others = taskstate.CountsOf(counts)
	}
}

// ownName tells whether a key under resources is meant as the name of something counted: it is not
// a key known here or elsewhere, nor what a person wrote who meant one of them.
func ownName(key string) bool {
	switch key {
	case "tpu", "tpus", "npu", "npus", "vpu", "vpus", "dpu", "dpus", "ipu", "ipus": // processors that only look like cpus and gpus
		return true
	}
	return homes()[key] == "" && nearest(key, []string{"cpus", "memory", "disk", taskstate.GPUs}) == ""
}

const ratioRule = "expected a share from 0 to 1, as in 0.25"

// validRatio is false for what is no number, too.
func validRatio(v float64) bool { return v >= 0 && v <= 1 }

// points is how many slots a matrix has; above MaxCount it says MaxCount+1, however many there are.
func points(axes []taskstate.Axis) int {
	n := min(1, len(axes))
	for _, a := range axes {
		if n = n * len(a.Values); n > MaxCount {
			return MaxCount + 1
		}
	}
	return n
}
