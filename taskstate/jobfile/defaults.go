package jobfile

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/coveyproject/covey/taskstate"
)

// DefaultMilliCPU is what a process reserves unless its job says otherwise: one cpu.
const DefaultMilliCPU = 1000

// Defaults fills in what the author of the job left out: a batch job of one slot (or one per item,
// or per point of the matrix), one cpu for a process and nothing for a noop, middle priority, a
// name from the command. An unreachable peer's batch attempt is replaced after ten seconds; service
// and global jobs replace it at once and restart whatever ends, after a second.
//
// It is for who builds a job – Parse, and the command line's flags – once: zero means "not said"
// here, so an explicit zero (count of a service, cpus, replace_after, priority) is set afterwards.
// A job that arrived from elsewhere is complete and is never given defaults.
func Defaults(j *taskstate.Job) {
	j.Type = cmp.Or(j.Type, taskstate.BatchJob)
	if j.Count == 0 && j.Type != taskstate.GlobalJob {
		j.Count = max(1, len(j.Each), points(j.Matrix))
	}
	if j.Run.Process != nil && j.Resources.MilliCPU == 0 {
		j.Resources.MilliCPU = DefaultMilliCPU
	}
	if !j.Unreachable.Wait && j.Unreachable.ReplaceAfter == 0 && !j.Type.Lasts() {
		j.Unreachable.ReplaceAfter = taskstate.DefaultReplaceAfter.Milliseconds()
	}
	j.Restart = cmp.Or(j.Restart, taskstate.DefaultRestart(j.Type))
	j.Priority = cmp.Or(j.Priority, taskstate.DefaultPriority)
	j.Name = cmp.Or(j.Name, commandName(j.Run))
}

func commandName(run taskstate.Run) string {
	switch p := run.Process; {
	case p == nil && run.Noop != nil:
		return "noop"
	case p == nil || len(p.Command) == 0:
		return NameFrom("")
	default:
		word, _, _ := strings.Cut(strings.TrimSpace(p.Command[0]), " ")
		return NameFrom(word)
	}
}

// NameFrom makes a job's name of a path: the last part of it, without .yaml or .yml, in the letters
// a name may have. It never is empty, and never `last`.
func NameFrom(path string) string {
	base := strings.ToLower(filepath.Base(filepath.ToSlash(path)))
	base = strings.TrimSuffix(strings.TrimSuffix(base, ".yaml"), ".yml")
	var b strings.Builder
	for _, c := range base {
		switch {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			b.WriteRune(c)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= maxName {
			break
		}
	}
	if name := strings.Trim(b.String(), "-"); name != "" && name != newest {
		return name
	}
	return "job"
}
