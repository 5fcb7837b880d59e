package jobfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"
	"github.com/coveyproject/covey/taskstate/spell"
)

// More limits of a job.
const (
	MaxPriority = 100
	MaxAxes     = 16 // of a matrix
	MaxAfter    = 64 // jobs to wait for
	axisRule    = "expected 1 to 63 letters a-z, digits and _, beginning with a letter: it becomes COVEY_ and the name in capitals"
)

// reserved tells whether COVEY_<name> is a variable the runner sets, or one that a peer's own
// commands read.
func reserved(axis string) bool {
	return slices.Contains([]string{"job", "task", "slot", "attempt", "epoch", "count", "item", "peer", "version"}, axis)
}

func (ps *checks) matrix(j *taskstate.Job) {
	if len(j.Matrix) == 0 {
		return
	}
	if len(j.Matrix) > MaxAxes {
		ps.bad("matrix", "it has %d axes, at most %d are allowed", len(j.Matrix), MaxAxes)
		return
	}
	if len(j.Each) > 0 || j.Numbered {
		ps.bad("matrix", "use a matrix, or items or an array of numbers, not both")
	}
	total, seen := 0, map[string]bool{}
	for _, a := range j.Matrix {
		at := "matrix." + strings.ToValidUTF8(clip(a.Name), "?")
		switch {
		case !validAxis(a.Name):
			ps.bad(at, "%s, got %q", axisRule, clip(a.Name))
		case reserved(a.Name):
			ps.bad(at, "COVEY_%s is set by the runner; take another name", strings.ToUpper(a.Name))
		case seen[a.Name]:
			ps.bad(at, "the axis is given twice")
		case len(a.Values) == 0:
			ps.bad(at, "it has no values, so there is nothing to run")
		}
		seen[a.Name] = true
		for i, v := range a.Values {
			total += len(v)
			if !plain(v) {
				ps.bad(fmt.Sprintf("%s[%d]", at, i), "a value is UTF-8 text without zero bytes: it becomes an environment variable")
				break
			}
		}
	}
	if total > MaxItems {
		ps.bad("matrix", "its values have %s bytes together, at most %s are allowed", grouped(total), grouped(MaxItems))
	}
	switch n := points(j.Matrix); {
	case n > MaxCount:
		ps.bad("matrix", "its axes make more than %s slots; shorten one, or split it into several jobs", grouped(MaxCount))
	case n != j.Count && n > 0:
		ps.bad("count", "the matrix makes %s slots, got %s", grouped(n), grouped(j.Count))
	}
}

func validAxis(s string) bool {
	return s != "" && len(s) <= maxName && s[0] >= 'a' && s[0] <= 'z' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

func (ps *checks) placing(j *taskstate.Job) {
	if err := j.Resources.Others.Check(); err != nil {
		ps.bad("resources", "%v", err)
	}
	ps.oneOf("isolate", j.Isolate, "", taskstate.IsolateNone, taskstate.IsolateFS, taskstate.IsolateStrong)
	ps.oneOf("net", j.Net, "", taskstate.NetNone, taskstate.NetAny)
	ps.limits(j)
	ps.oneOf("placement.strategy", string(j.Strategy), "", string(taskstate.Spread), string(taskstate.Binpack), string(taskstate.Random))
	if j.Over != "" && j.Strategy != taskstate.Spread && j.Strategy != "" {
		ps.bad("placement.over", "only spread goes over the values of a key; the strategy is %s", clip(string(j.Strategy)))
	}
	if len(j.Constraints) > constraint.MaxCount {
		ps.bad("constraints", "%d of them, at most %d are allowed; say several values at once with in", len(j.Constraints), constraint.MaxCount)
		return
	}
	ps.conditions(j)
}

// oneOf refuses a word that is not among those allowed; "" among them stands for a default.
func (ps *checks) oneOf(field, got string, allowed ...string) {
	if !slices.Contains(allowed, got) {
		ps.bad(field, "allowed is %s, got %q", strings.Join(slices.DeleteFunc(allowed, func(s string) bool { return s == "" }), ", "), clip(got))
	}
}

func (ps *checks) restart(p *taskstate.Restart) {
	if p == nil {
		return
	}
	ps.oneOf("restart.condition", string(p.Condition), string(taskstate.RestartNone), string(taskstate.RestartOnFailure), string(taskstate.RestartAny))
	ps.between("restart.attempts", int64(p.Attempts), 0, taskstate.MaxRestartAttempts)
	ps.between("restart.delay", p.Delay, 0, spell.MaxDuration.Milliseconds())
	ps.between("restart.window", p.Window, 0, spell.MaxDuration.Milliseconds())
	if p.Window > 0 && p.Attempts == 0 {
		ps.bad("restart.window", "a window is for counting attempts; say how many, as in attempts: 3")
	}
	if p.Condition == taskstate.RestartNone && *p != (taskstate.Restart{Condition: taskstate.RestartNone}) {
		ps.bad("restart", "with condition: none nothing is restarted; attempts, delay and window are for on-failure and any")
	}
}

func (ps *checks) update(u *taskstate.Update) {
	if u == nil {
		return
	}
	ps.between("update.parallelism", int64(u.Parallelism), 0, MaxCount)
	ps.between("update.delay", u.Delay, 0, spell.MaxDuration.Milliseconds())
	ps.between("update.monitor", u.Monitor, 0, spell.MaxDuration.Milliseconds())
	if !validRatio(u.MaxFailureRatio) {
		ps.bad("update.max_failure_ratio", "%s, got %v", ratioRule, u.MaxFailureRatio)
	}
	ps.oneOf("update.on_failure", string(u.OnFailure), "", string(taskstate.PauseUpdate), string(taskstate.ContinueUpdate), string(taskstate.RollBackUpdate))
	ps.oneOf("update.order", string(u.Order), "", string(taskstate.StopFirst), string(taskstate.StartFirst))
}

// starting checks when a job starts: after others, or by the clock.
func (ps *checks) starting(j *taskstate.Job) {
	ps.between("priority", int64(j.Priority), 0, MaxPriority)
	if len(j.After) > MaxAfter {
		ps.bad("after", "%d jobs, at most %d are allowed", len(j.After), MaxAfter)
		return
	}
	for i, word := range j.After {
		at := fmt.Sprintf("after[%d]", i)
		switch {
		case !validName(string(word)):
			ps.bad(at, "expected the name or the id of a job, got %q", clip(string(word)))
		case slices.Contains(j.After[:i], word):
			ps.bad(at, "%s is given twice", word)
		}
	}
	if s := j.Schedule; s != nil {
		if err := checkCron(s.Cron); err != nil {
			ps.bad("schedule.cron", "%v", err)
		}
		if err := checkZone(s.Zone); err != nil {
			ps.bad("schedule.zone", "%v", err)
		}
		ps.oneOf("schedule.overlap", string(s.Overlap), "", string(taskstate.SkipOverlap), string(taskstate.AllowOverlap))
		if len(j.After) > 0 {
			ps.bad("after", "use it or schedule, not both: a job starts when others are complete, or by the clock")
		}
	}
	if o := j.Origin; o != nil && (!validID(o.Job) || o.At < 0) {
		ps.bad("origin", "this is no run of a schedule")
	}
}
