package process

import (
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/coveyproject/covey/node/runner/sandbox"
	"github.com/coveyproject/covey/taskstate"
)

// passedOn is what a task sees of the daemon's environment.
var passedOn = [...]string{"PATH", "HOME", "LANG", "TMPDIR"}

type variables [][2]string

// coveyVars are the variables every task has, sorted by name, and then one for each axis of its
// job's matrix. An axis that would hide one of the others is left out: job files cannot name it so,
// and what COVEY_TASK says must be true.
func coveyVars(l taskstate.Launch) variables {
	vars := variables{
		{"COVEY_ATTEMPT", strconv.Itoa(l.Task.Attempt)},
		{"COVEY_COUNT", strconv.Itoa(l.Job.Count)},
		{"COVEY_EPOCH", l.Epoch.String()},
		{"COVEY_ITEM", l.Job.RawItem(l.Item)},
		{"COVEY_JOB", string(l.Task.Job)},
		{"COVEY_PEER", l.Peer},
		{"COVEY_SLOT", strconv.Itoa(l.Task.Slot)},
		{"COVEY_TASK", l.Task.String()},
	}
	for i, value := range l.Job.Point(l.Task.Slot) {
		if name := "COVEY_" + strings.ToUpper(l.Job.Matrix[i].Name); !vars.has(name) {
			vars = append(vars, [2]string{name, value})
		}
	}
	return vars
}

func (v variables) has(name string) bool {
	return slices.ContainsFunc(v, func(nv [2]string) bool { return nv[0] == name })
}

// passed picks what is passed on out of the daemon's environment, once for all tasks.
func passed(environ []string) []string {
	var out []string
	for _, kv := range environ {
		if k, _, ok := strings.Cut(kv, "="); ok && slices.Contains(passedOn[:], k) {
			out = append(out, kv)
		}
	}
	return out
}

// baseOf is the environment that is passed on to a task, with the name of its user. A task with a
// user of its own, or one that may not read files of others, has its home where it may write.
func (r *Executor) baseOf(box *sandbox.Spec, home, work string) []string {
	uid := os.Getuid()
	if box != nil && box.User != nil {
		uid = box.User.UID
	}
	own := map[string]string{}
	if uid >= 0 { // Windows has no numbers
		own["USER"] = userName(uid)
		own["LOGNAME"] = own["USER"]
	}
	if box != nil && (box.User != nil || box.Closed) {
		own["HOME"] = work
	}
	if box != nil && box.Closed {
		own["TMPDIR"] = filepath.Join(home, tempName)
	}
	base := slices.DeleteFunc(slices.Clone(r.base), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return own[name] != ""
	})
	for _, name := range slices.Sorted(maps.Keys(own)) {
		base = append(base, name+"="+own[name])
	}
	return base
}

// userNames are names of users by number, as they were at first.
var userNames sync.Map

// userName is the name of a user; one without a name is called by number, for programs that only
// ask the environment.
func userName(uid int) string {
	if name, known := userNames.Load(uid); known {
		return name.(string)
	}
	name := fmt.Sprintf("task-%d", uid)
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		name = u.Username
	}
	userNames.Store(uid, name)
	return name
}

// environment is all a task sees: base, then the job's own, then COVEY_…, each name once, the later
// one winning.
func environment(base []string, own map[string]string, vars variables) []string {
	env := make([]string, 0, len(base)+len(own)+len(vars))
	for _, kv := range base {
		k, _, _ := strings.Cut(kv, "=")
		if _, replaced := own[k]; !replaced {
			env = append(env, kv)
		}
	}
	if len(own) > 0 {
		for _, k := range slices.Sorted(maps.Keys(own)) {
			if !vars.has(k) {
				env = append(env, k+"="+own[k])
			}
		}
	}
	for _, v := range vars {
		env = append(env, v[0]+"="+v[1])
	}
	return env
}

// getenv reads a variable of an environment without duplicates.
func getenv(env []string, name string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// expand replaces ${COVEY_NAME} for the names of vars – others stay as they are – and, if braces is
// set, {} by item and \{} by {}. What comes in is not looked at again.
func expand(s string, vars variables, braces bool, item string) string {
	if !strings.Contains(s, "${COVEY_") && !(braces && strings.Contains(s, "{}")) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if braces && strings.HasPrefix(s[i:], `\{}`) {
			b.WriteString("{}")
			i += 3
			continue
		}
		if braces && strings.HasPrefix(s[i:], "{}") {
			b.WriteString(item)
			i += 2
			continue
		}
		if value, n, ok := variableAt(s[i:], vars); ok {
			b.WriteString(value)
			i += n
			continue
		}
		b.WriteByte(s[i])
		i++
	}
	return b.String()
}

// variableAt reads a variable at the start of s and says how many bytes it takes.
func variableAt(s string, vars variables) (value string, n int, ok bool) {
	if !strings.HasPrefix(s, "${COVEY_") {
		return "", 0, false
	}
	end := strings.IndexByte(s, '}')
	if end < 0 {
		return "", 0, false
	}
	for _, v := range vars {
		if v[0] == s[2:end] {
			return v[1], end + 1, true
		}
	}
	return "", 0, false
}

// arguments is the command line as it is executed, before the program is looked up. A line for a
// shell keeps its ${…}, which the shell itself expands out of the environment, so that an item with
// blanks or quotes does no harm; for the same reason {} in such a line becomes a reference to the
// item.
func arguments(p *taskstate.Process, vars variables, item string) ([]string, error) {
	switch {
	case p.Shell:
		return shellArguments(strings.Join(p.Command, " "), vars, p.Braces, item)
	case len(p.Script) > 0:
		return append([]string{"./" + p.ScriptFile()}, expandAll(p.Command, vars, p.Braces, item)...), nil
	}
	return expandAll(p.Command, vars, p.Braces, item), nil
}

func expandAll(in []string, vars variables, braces bool, item string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = expand(s, vars, braces, item)
	}
	return out
}
