package jobfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
)

// Format writes a job as a file that Parse reads as the same job: what a person would write,
// without what is the default anyway. What belongs to one submission – id, submitter, version,
// origin – is left out. The error says what a file cannot hold.
func Format(j *taskstate.Job) ([]byte, error) {
	w := &writer{}
	if j.Stdin {
		w.b.WriteString("# What it read from stdin is not in this file: a job file's task reads nothing.\n")
	}
	w.line(0, "name", scalar(j.Name))
	if j.Type != taskstate.BatchJob {
		w.line(0, "type", string(j.Type))
	}
	w.slots(j)
	if err := w.run(j); err != nil {
		return nil, err
	}
	w.inputs(j.Inputs)
	w.secrets(j.Secrets)
	w.resources(j)
	if j.Isolate != "" {
		w.line(0, "isolate", j.Isolate)
	}
	if j.Net != "" {
		w.line(0, "net", j.Net)
	}
	w.limits(j)
	w.list(0, "constraints", j.Constraints)
	w.placement(j)
	w.number(0, "parallel", j.Parallel)
	if j.Delay > 0 {
		w.line(0, "delay", spell.Span(j.Delay))
	}
	w.restart(j)
	w.unreachable(j)
	if j.MaxOutput > 0 {
		w.line(0, "max_output", size(j.MaxOutput))
	}
	w.outputs(j.Outputs)
	w.number(0, "keep_logs", j.KeepLogs)
	if j.Timeout > 0 {
		w.line(0, "timeout", spell.Span(j.Timeout))
	}
	w.number(0, "max_fails", j.MaxFails)
	w.update(j.Update)
	w.list(0, "after", texts(j.After))
	w.schedule(j.Schedule)
	if j.Priority != taskstate.DefaultPriority {
		w.line(0, "priority", strconv.Itoa(j.Priority))
	}
	return w.check(j)
}

type writer struct{ b strings.Builder }

// secrets names them; nobody but its tasks is told what they say.
func (w *writer) secrets(s *taskstate.Secrets) {
	if s == nil {
		return
	}
	w.b.WriteString("# The values are not known here: put each into its file.\n")
	w.line(0, "secrets", "")
	for _, name := range s.Names {
		w.line(1, name, "{file: "+name+"}")
	}
}

// check holds what was written against what reading it again gives: a file that means something
// else is worse than none.
func (w *writer) check(j *taskstate.Job) ([]byte, error) {
	out := []byte(w.b.String())
	var secrets []LocalSecret
	again, err := Parse("job.yaml", out, Options{Secrets: &secrets})
	if err != nil {
		return nil, fmt.Errorf("this job cannot be written as a job file: %w", err)
	}
	want := *j
	want.ID, want.Submitter, want.Version, want.Origin, want.Stdin, want.Secrets, want.Order = "", "", 0, nil, false, nil, nil
	if len(want.Matrix)+len(want.Each) > 0 || want.Type == taskstate.GlobalJob {
		want.Count = again.Count
	}
	want.Inputs = slices.Clone(want.Inputs)
	for i := range want.Inputs {
		want.Inputs[i].Bytes, want.Inputs[i].Files = 0, 0 // of what the ref names
	}
	if p := want.Run.Process; p != nil {
		same := *p
		plainBraces(&same)
		if p.Shell || p.Braces && !items(j) {
			same.Command, same.Braces = again.Run.Process.Command, again.Run.Process.Braces // keepMarks writes other text that means the same
		}
		want.Run.Process = &same
	}
	want.Restart = cmp.Or(want.Restart, again.Restart)
	meant, err := wire.Marshal(want) // what is empty looks alike there, however it came to be
	if read, wrong := wire.Marshal(again); err != nil || wrong != nil || !bytes.Equal(meant, read) {
		return nil, errors.New("this job was submitted by a program, and says what a job file cannot say")
	}
	return out, nil
}

func (w *writer) line(depth int, key, value string) {
	w.b.WriteString(strings.Repeat("  ", depth) + key + ":")
	if value != "" {
		w.b.WriteString(" " + value)
	}
	w.b.WriteByte('\n')
}

func (w *writer) number(depth int, key string, n int) {
	if n != 0 {
		w.line(depth, key, strconv.Itoa(n))
	}
}

// listWidth is how long a list may be in one line.
const listWidth = 100

// list writes a list, in one line if it fits. An empty one is left out.
func (w *writer) list(depth int, key string, words []string) {
	if len(words) == 0 {
		return
	}
	quoted := make([]string, len(words))
	long := 0
	for i, s := range words {
		quoted[i] = scalar(s)
		long += len(quoted[i]) + 2
	}
	if long <= listWidth {
		w.line(depth, key, "["+strings.Join(quoted, ", ")+"]")
		return
	}
	w.line(depth, key, "")
	for _, s := range quoted {
		w.b.WriteString(strings.Repeat("  ", depth) + "- " + s + "\n")
	}
}

// simple is what YAML takes for text without quotes, in a list in brackets, too.
var simple = regexp.MustCompile(`^[A-Za-z_./][A-Za-z0-9_./+@%=-]*( [A-Za-z0-9_./+@%=-]+)*$`)

// scalar writes a text: as it is where YAML reads it as that, in quotes otherwise.
func scalar(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n", ".inf", ".nan", "inf", "nan", "infinity":
	default:
		if simple.MatchString(s) && len(s) <= listWidth {
			return s
		}
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a text is always written
	return strings.TrimSuffix(b.String(), "\n")
}

func texts[S ~string](in []S) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = string(s)
	}
	return out
}

// size writes bytes in the largest unit that needs no fraction.
func size(n int64) string {
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

func (w *writer) slots(j *taskstate.Job) {
	switch {
	case len(j.Matrix) > 0:
		w.line(0, "matrix", "")
		for _, a := range j.Matrix {
			w.list(1, scalar(a.Name), a.Values)
		}
	case len(j.Each) > 0:
		w.list(0, "each", j.Each)
		if j.Escaped {
			w.line(0, "escaped", "true")
		}
	case j.Numbered:
		w.line(0, "array", fmt.Sprintf("%d-%d", j.First, j.First+j.Count-1))
	case j.Type != taskstate.GlobalJob && (j.Count != 1 || j.Type.Lasts()):
		w.line(0, "count", strconv.Itoa(j.Count))
	}
}

func (w *writer) run(j *taskstate.Job) error {
	r := &j.Run
	w.line(0, "run", "")
	if r.Noop != nil {
		w.line(1, "noop", "{duration: "+spell.Span(r.Noop.Duration)+"}")
	}
	p := r.Process
	if p == nil {
		return nil
	}
	command, err := keepMarks(j)
	if err != nil {
		return err
	}
	w.line(1, "process", "")
	if p.Shell && len(command) == 1 {
		w.line(2, "command", scalar(command[0]))
	} else {
		w.list(2, "command", command)
	}
	if p.Shell {
		w.line(2, "shell", "true")
	}
	if p.Dir != "" {
		w.line(2, "dir", scalar(p.Dir))
	}
	if len(p.Env) > 0 {
		w.line(2, "env", "")
		for _, k := range slices.Sorted(maps.Keys(p.Env)) {
			w.line(3, scalar(k), scalar(p.Env[k]))
		}
	}
	if p.ScriptName != "" {
		w.line(2, "script_name", scalar(p.ScriptName))
	}
	return w.script(p.Script)
}

// script writes a script as it is, line by line, where YAML keeps it to the letter.
func (w *writer) script(b []byte) error {
	switch s := string(b); {
	case s == "":
		return nil
	case !utf8.ValidString(s):
		return errors.New("its script is a program and not text, which a job file cannot hold; submit it with `peer run --script FILE`")
	case !strings.HasSuffix(s, "\n") || strings.HasSuffix(s, "\n\n") || strings.ContainsAny(s, "\r\t\x00\ufeff\u0085\u2028\u2029") || strings.HasPrefix(s, " ") || strings.HasPrefix(s, "\n"):
		w.line(2, "script", scalar(s))
	default:
		w.line(2, "script", "|")
		for line := range strings.Lines(s) {
			if line != "\n" {
				w.b.WriteString("      ")
			}
			w.b.WriteString(line)
		}
	}
	return nil
}

func (w *writer) inputs(all []taskstate.Input) {
	if len(all) == 0 {
		return
	}
	w.line(0, "inputs", "")
	for _, in := range all {
		text := "- {ref: " + scalar(in.Ref)
		if in.From != "" {
			text = "- {from: " + scalar(string(in.From))
		}
		text += ", name: " + scalar(in.Name)
		if in.SameSlot {
			text += ", slot: " + sameSlot
		}
		if in.Exec {
			text += ", exec: true"
		}
		if in.Writable {
			text += ", writable: true"
		}
		w.b.WriteString("  " + text + "}\n")
	}
}

func (w *writer) outputs(o *taskstate.Outputs) {
	switch {
	case o == nil:
		return
	case o.Missing == "":
		w.list(0, "outputs", o.Globs)
	default:
		w.line(0, "outputs", "")
		w.list(1, "globs", o.Globs)
		w.line(1, "missing", string(o.Missing))
	}
	w.number(0, "keep", o.Keep)
}

func (w *writer) resources(j *taskstate.Job) {
	var parts []string
	usual := int64(0)
	if j.Run.Process != nil {
		usual = DefaultMilliCPU
	}
	if n := j.Resources.MilliCPU; n != usual {
		parts = append(parts, "cpus: "+strconv.FormatFloat(float64(n)/1000, 'f', -1, 64))
	}
	if n := j.Resources.Memory; n != 0 {
		parts = append(parts, "memory: "+size(n))
	}
	if n := j.Resources.Disk; n != 0 {
		parts = append(parts, "disk: "+size(n))
	}
	others := j.Resources.Others.Map()
	for _, name := range slices.Sorted(maps.Keys(others)) {
		parts = append(parts, fmt.Sprintf("%s: %d", scalar(name), others[name]))
	}
	if len(parts) > 0 {
		w.line(0, "resources", "{"+strings.Join(parts, ", ")+"}")
	}
}

func (w *writer) placement(j *taskstate.Job) {
	var parts []string
	if j.Strategy != "" {
		parts = append(parts, "strategy: "+string(j.Strategy))
	}
	if j.Over != "" {
		parts = append(parts, "over: "+scalar(j.Over))
	}
	if j.MaxPerPeer != 0 {
		parts = append(parts, fmt.Sprintf("max_per_peer: %d", j.MaxPerPeer))
	}
	if len(parts) > 0 {
		w.line(0, "placement", "{"+strings.Join(parts, ", ")+"}")
	}
}

func (w *writer) restart(j *taskstate.Job) {
	r, usual := j.Restart, taskstate.DefaultRestart(j.Type)
	if r == nil {
		r = &taskstate.Restart{Condition: taskstate.RestartNone}
	}
	if usual != nil && *r == *usual || usual == nil && j.Restart == nil {
		return
	}
	parts := []string{"condition: " + string(r.Condition)}
	if r.Attempts != 0 {
		parts = append(parts, fmt.Sprintf("attempts: %d", r.Attempts))
	}
	if r.Delay != 0 || j.Type.Lasts() && r.Condition != taskstate.RestartNone {
		parts = append(parts, "delay: "+spell.Span(r.Delay))
	}
	if r.Window != 0 {
		parts = append(parts, "window: "+spell.Span(r.Window))
	}
	w.line(0, "restart", "{"+strings.Join(parts, ", ")+"}")
}

func (w *writer) unreachable(j *taskstate.Job) {
	usual := taskstate.DefaultReplaceAfter.Milliseconds()
	if j.Type.Lasts() {
		usual = 0
	}
	switch u := j.Unreachable; {
	case u.Wait:
		w.line(0, "unreachable", "{wait: true}")
	case u.ReplaceAfter != usual:
		w.line(0, "unreachable", "{replace_after: "+spell.Span(u.ReplaceAfter)+"}")
	}
}

func (w *writer) update(u *taskstate.Update) {
	if u == nil {
		return
	}
	usual := taskstate.DefaultUpdate()
	parts := []string{fmt.Sprintf("parallelism: %d", u.Parallelism)}
	for _, x := range []struct {
		said bool
		text string
	}{
		{u.Delay != usual.Delay, "delay: " + spell.Span(u.Delay)},
		{u.Monitor != usual.Monitor, "monitor: " + spell.Span(u.Monitor)},
		{u.MaxFailureRatio != usual.MaxFailureRatio, "max_failure_ratio: " + strconv.FormatFloat(u.MaxFailureRatio, 'f', -1, 64)},
		{u.OnFailure != usual.OnFailure, "on_failure: " + string(u.OnFailure)},
		{u.Order != usual.Order, "order: " + string(u.Order)},
	} {
		if x.said {
			parts = append(parts, x.text)
		}
	}
	w.line(0, "update", "{"+strings.Join(parts, ", ")+"}")
}

func (w *writer) schedule(s *taskstate.Schedule) {
	switch {
	case s == nil:
	case s.Zone == "" && s.Overlap == "":
		w.line(0, "schedule", scalar(s.Cron))
	default:
		w.line(0, "schedule", "")
		w.line(1, "cron", scalar(s.Cron))
		if s.Zone != "" {
			w.line(1, "zone", scalar(s.Zone))
		}
		if s.Overlap != "" {
			w.line(1, "overlap", string(s.Overlap))
		}
	}
}
