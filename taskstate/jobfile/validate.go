package jobfile

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
)

// Limits of a job. A job travels in one frame with what is said about it, so its encoding stays
// below a frame.
const (
	MaxCount   = 1_000_000              // slots
	MaxCommand = 256 << 10              // bytes of command and environment together
	MaxScript  = 64 << 10               // bytes
	MinOutput  = 4 << 10                // bytes kept of an output file
	MaxOutput  = 1 << 40                // bytes
	MaxItems   = 768 << 10              // bytes of all items together
	MaxJob     = wire.MaxFrame - 64<<10 // bytes, encoded
	maxName    = 63                     // characters
	maxDir     = 1024                   // bytes
	maxEnvName = 256                    // bytes
	maxFirst   = 1_000_000_000_000_000  // of an array's numbers, either way
	nameRule   = "expected 1 to 63 letters a-z, digits and dashes, beginning with a letter or digit"
	envRule    = "a variable's name is letters, digits and _, not beginning with a digit"
	escapeRule = `with escaped: true, an item has \\ for a backslash and \xHH for a byte that belongs to no character, and no other backslash`
	itemRule   = "an item is UTF-8 text without zero bytes: it becomes an environment variable"
)

// newest is the word for the newest job: `peer logs last`. No job has it as its name.
const newest = "last"

type problem struct{ field, msg string }

func (p problem) String() string { return oneLine(p.field + ": " + p.msg) }

// Validate checks a complete job, whatever built it: a peer calls it on every job that arrives. The
// error names every field at fault, spelt as in a job file, one per line.
func Validate(j *taskstate.Job) error {
	if j == nil {
		return errors.New("there is no job")
	}
	var errs []error
	for _, p := range problems(j) {
		errs = append(errs, errors.New(p.String()))
	}
	return errors.Join(errs...)
}

func problems(j *taskstate.Job) []problem {
	var ps checks
	ps.identity(j)
	ps.byType(j)
	ps.slots(j)
	ps.matrix(j)
	ps.policy(j)
	ps.placing(j)
	ps.restart(j.Restart)
	ps.update(j.Update)
	ps.starting(j)
	ps.stdin(j)
	ps.inputs(j)
	ps.secrets(j)
	ps.outputs(j)
	if j.Withheld != nil {
		ps.bad("withheld", "a job is handed in with all that it runs")
	}
	switch p, n := j.Run.Process, j.Run.Noop; {
	case p == nil && n == nil:
		ps.bad("run", "say what to run: a process or a noop")
	case p != nil && n != nil:
		ps.bad("run", "use process or noop, not both")
	case p != nil:
		ps.process(p)
	default:
		ps.between("run.noop.duration", n.Duration, 0, spell.MaxDuration.Milliseconds())
	}
	if len(ps) > 0 {
		return ps
	}
	if b, err := wire.Marshal(j); err != nil {
		ps.bad("job", "it cannot be encoded: %v", err)
	} else if len(b) > MaxJob {
		ps.bad("job", "it has %s bytes encoded, at most %s are allowed; shorten its items, or split it into several jobs", grouped(len(b)), grouped(MaxJob))
	}
	return ps
}

type checks []problem

func (ps *checks) bad(field, format string, args ...any) {
	*ps = append(*ps, problem{field, fmt.Sprintf(format, args...)})
}

func (ps *checks) between(field string, v, low, high int64) {
	if v < low || v > high {
		ps.bad(field, "expected %s to %s, got %s", grouped(int(low)), grouped(int(high)), grouped(int(v)))
	}
}

func (ps *checks) identity(j *taskstate.Job) {
	if !validName(j.Name) {
		ps.bad("name", "%s, got %q", nameRule, clip(j.Name))
	}
	if j.Name == newest {
		ps.bad("name", "last means the newest job wherever a job is asked for, so none can have it as its name; take another one")
	}
	if j.ID != "" && !validID(j.ID) {
		ps.bad("id", "expected %d characters a-z and 2-7, got %q", taskstate.JobIDLen, clip(string(j.ID)))
	}
	if len(j.Submitter) > 128 || !utf8.ValidString(j.Submitter) {
		ps.bad("submitter", "this is no peer id")
	}
}

// ValidID tells what is wrong with the id of a job that is to be.
func ValidID(id taskstate.JobID) error {
	if !validID(id) {
		return fmt.Errorf("id: expected %d characters a-z and 2-7, got %q", taskstate.JobIDLen, clip(string(id)))
	}
	return nil
}

func validID(id taskstate.JobID) bool {
	return len(id) == taskstate.JobIDLen && strings.Trim(string(id), "abcdefghijklmnopqrstuvwxyz234567") == ""
}

func validName(s string) bool {
	return s != "" && len(s) <= maxName && s[0] != '-' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func (ps *checks) slots(j *taskstate.Job) {
	if len(j.Each) > 0 && len(j.Each) != j.Count {
		ps.bad("each", "it has %s items for %s slots", grouped(len(j.Each)), grouped(j.Count))
	}
	if j.Numbered {
		ps.between("array", int64(j.First), -maxFirst, maxFirst)
		if len(j.Each) > 0 {
			ps.bad("each", "use items or an array of numbers, not both")
		}
	} else if j.First != 0 {
		ps.bad("array", "a first number without an array")
	}
	total := 0
	for i, item := range j.Each {
		total += len(item)
		raw, ok := item, true
		if j.Escaped {
			raw, ok = taskstate.UnescapeItem(item)
		}
		if !ok {
			ps.bad(fmt.Sprintf("each[%d]", i), escapeRule)
			break
		}
		if !plain(item) || strings.Contains(raw, "\x00") {
			ps.bad(fmt.Sprintf("each[%d]", i), itemRule)
			break
		}
	}
	if j.Escaped && len(j.Each) == 0 {
		ps.bad("escaped", "it says how the items of each are written, and there are none")
	}
	if total > MaxItems {
		ps.bad("each", "the items have %s bytes together, at most %s are allowed; %s", grouped(total), grouped(MaxItems), lookUp)
	}
}

func (ps *checks) policy(j *taskstate.Job) {
	ps.between("resources.cpus", j.Resources.MilliCPU, 0, spell.MaxMilliCPU)
	ps.between("resources.memory", j.Resources.Memory, 0, spell.MaxSize)
	ps.between("resources.disk", j.Resources.Disk, 0, spell.MaxSize)
	if n := j.MaxOutput; n != 0 && (n < MinOutput || n > MaxOutput) {
		ps.bad("max_output", "expected %s to %s, got %s bytes", size(MinOutput), size(MaxOutput), grouped(int(n)))
	}
	ps.between("timeout", j.Timeout, 0, spell.MaxDuration.Milliseconds())
	ps.between("delay", j.Delay, 0, spell.MaxDuration.Milliseconds())
	ps.between("parallel", int64(j.Parallel), 0, MaxCount)
	ps.between("placement.max_per_peer", int64(j.MaxPerPeer), 0, MaxCount)
	ps.between("max_fails", int64(j.MaxFails), 0, MaxCount)
	ps.between("unreachable.replace_after", j.Unreachable.ReplaceAfter, 0, spell.MaxDuration.Milliseconds())
	if j.Unreachable.Wait && j.Unreachable.ReplaceAfter != 0 {
		ps.bad("unreachable", "use replace_after or wait, not both")
	}
}

// stdin: there is one, and one command that reads it.
func (ps *checks) stdin(j *taskstate.Job) {
	switch {
	case !j.Stdin:
	case j.Run.Process == nil:
		ps.bad("stdin", "only a process reads it")
	case j.Type != taskstate.BatchJob || j.Schedule != nil || j.Count != 1 || j.Numbered || len(j.Each)+len(j.Matrix) > 0:
		ps.bad("stdin", "it can be read once, so only by a batch job of one task without items")
	}
}

func (ps *checks) process(p *taskstate.Process) {
	const at = "run.process"
	total := 0
	for i, w := range p.Command {
		total += len(w)
		if !plain(w) {
			ps.bad(fmt.Sprintf("%s.command[%d]", at, i), "a command is UTF-8 text without zero bytes")
		}
	}
	switch {
	case len(p.Script) > MaxScript:
		ps.bad(at+".script", "it has %s bytes, at most %s are allowed", grouped(len(p.Script)), grouped(MaxScript))
	case len(p.Script) > 0 && p.Shell:
		ps.bad(at+".shell", "a script is executed itself, shell: true is for a line of shell")
	case len(p.Script) == 0 && p.ScriptName != "":
		ps.bad(at+".script_name", "there is no script that could be called so")
	case len(p.Script) > 0: // its command is its arguments
	case len(p.Command) == 0 || strings.TrimSpace(p.Command[0]) == "":
		ps.bad(at+".command", "it is empty: what to execute, as in [convert, in.png, out.png]")
	case p.Shell && len(p.Command) != 1:
		ps.bad(at+".command", "with shell: true it is one line, got %d words", len(p.Command))
	}
	for _, k := range slices.Sorted(maps.Keys(p.Env)) {
		total += len(k) + len(p.Env[k])
		ps.variable(at+".env."+k, k, p.Env[k])
	}
	if total > MaxCommand {
		ps.bad(at, "command and environment have %s bytes together, at most %s are allowed; put the rest into a script or a file", grouped(total), grouped(MaxCommand))
	}
	if p.ScriptName != "" && !ScriptName(p.ScriptName) {
		ps.bad(at+".script_name", "expected the name of a file, without a folder, got %q", clip(p.ScriptName))
	}
	ps.dir(at+".dir", p.Dir)
}

// ScriptName tells whether a script can be called so on any peer.
func ScriptName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= 255 && plain(name) &&
		!strings.ContainsAny(name, `/\:`) && !strings.ContainsFunc(name, unicode.IsControl)
}

func (ps *checks) variable(field, name, value string) {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
	field = strings.ToValidUTF8(clip(field), "?")
	switch {
	case name == "" || len(name) > maxEnvName || strings.Trim(name, letters+"0123456789") != "" || !strings.ContainsAny(name[:1], letters):
		ps.bad(field, envRule)
	case strings.HasPrefix(name, "COVEY_"):
		ps.bad(field, "names that begin with COVEY_ are set by the runner; take another")
	case !plain(value):
		ps.bad(field, "a value is UTF-8 text without zero bytes")
	}
}

// dir refuses what leads out of the task's own folder on any platform: the task may run on another
// one than this.
func (ps *checks) dir(field, dir string) {
	parts := strings.FieldsFunc(dir, func(c rune) bool { return c == '/' || c == '\\' })
	if dir == "" {
		return
	}
	if len(dir) > maxDir || !plain(dir) || strings.ContainsAny(dir[:1], `/\`) || strings.Contains(dir, ":") ||
		slices.Contains(parts, "..") || !filepath.IsLocal(dir) {
		ps.bad(field, "expected a relative path below the task's own folder, without .. and colons, got %q", clip(dir))
	}
}

// plain tells whether s can be an argument, a variable or an item: execve ends at a zero byte, and
// frames carry UTF-8.
func plain(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }
