package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// policyFlags are what `peer run` lets a person say about when and where tasks start, and what
// follows their end.
type policyFlags struct {
	restart                    string
	matrix, constraints, after []string
	priority, gpus, maxFails   int

	resources      []string
	strategy, over string
	isolate, net   string
	limits         []string
	maxPerPeer     int
}

func (f *policyFlags) register(fl *pflag.FlagSet) {
	fl.StringArrayVar(&f.matrix, "matrix", nil, "one task per combination: `NAME=A,B,C` or a range (repeatable): {NAME} is the value, {} all of them")
	fl.StringArrayVar(&f.constraints, "constraint", nil, "only on peers for which `EXPR` holds, as in 'peer.os == linux' (repeatable)")
	fl.IntVar(&f.gpus, "gpus", 0, "`N` GPUs to reserve per task, of those a peer offers")
	fl.StringArrayVar(&f.resources, "resource", nil, "`NAME=N` of what peers offer by a name, see peer up --offer (repeatable)")
	fl.StringVar(&f.isolate, "isolate", "", "at least `LEVEL`: fs keeps it to its own folder and the system's files, strong has it see itself only and gives it no network; none")
	fl.StringVar(&f.net, "net", "", "`none`: the task has no network; any: also where --isolate strong takes it away, if its peer's owner lets it")
	fl.StringArrayVar(&f.limits, "limit", nil, "`NAME=N` that each of its processes may have: files, processes, core, file_size (repeatable)")
	fl.StringVar(&f.strategy, "strategy", "", "which peers first: `spread` (the emptiest), binpack (the fullest), random")
	fl.StringVar(&f.over, "over", "", "spread evenly over the values of `KEY` first, as in peer.label.zone")
	fl.IntVar(&f.maxPerPeer, "max-per-peer", 0, "at most `N` of its tasks on a peer at once")
	fl.StringVar(&f.restart, "restart", "", "start tasks again `WHEN[:N]`: none, on-failure or any, each at most N times (default none)")
	fl.IntVar(&f.maxFails, "max-fails", 0, "cancel the rest when `N` tasks have failed for good")
	fl.IntVar(&f.priority, "priority", taskstate.DefaultPriority, "`N` from 0 to 100: higher goes first")
	fl.StringArrayVar(&f.after, "after", nil, "start when `JOB`, a name or an id, is complete (repeatable)")
}

// before sets what Defaults must know of.
func (f *policyFlags) before(j *taskstate.Job) (err error) {
	if j.Matrix, err = parseMatrix(f.matrix); err != nil {
		return err
	}
	if f.restart != "" {
		if j.Restart, err = jobfile.RestartPolicy(f.restart); err != nil {
			return api.Errorf(api.Usage, "--restart: %v", err)
		}
	}
	if j.Resources.Others, err = f.others(); err != nil {
		return err
	}
	j.Isolate, j.Net = f.isolate, f.net
	for _, s := range f.limits {
		if err := jobfile.Limit(j, s); err != nil {
			return api.Errorf(api.Usage, "--limit: %v", err)
		}
	}
	j.Strategy, j.Over, j.MaxPerPeer = taskstate.Strategy(f.strategy), f.over, f.maxPerPeer
	j.Constraints, j.MaxFails = f.constraints, f.maxFails
	for _, word := range f.after {
		j.After = append(j.After, taskstate.JobID(word))
	}
	return nil
}

// others are what the task reserves beside cpus, memory and disk.
func (f *policyFlags) others() (taskstate.Counts, error) {
	counts := map[string]int64{}
	if f.gpus != 0 {
		counts[taskstate.GPUs] = int64(f.gpus)
	}
	for _, s := range f.resources {
		name, number, ok := strings.Cut(s, "=")
		n, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil || n < 1 {
			return "", api.Errorf(api.Usage, "--resource %q: expected NAME=N, as in licence=1", s)
		}
		if _, twice := counts[name]; twice {
			return "", api.Errorf(api.Usage, "--resource %s is given twice", name)
		}
		counts[name] = n
	}
	if len(counts) == 0 {
		return "", nil
	}
	return taskstate.CountsOf(counts), nil
}

// afterwards sets what Defaults would take for a gap: the lowest priority is zero.
func (f *policyFlags) afterwards(j *taskstate.Job) { j.Priority = f.priority }

// parseMatrix reads axes in the order in which they were given.
func parseMatrix(flags []string) ([]taskstate.Axis, error) {
	axes := make([]taskstate.Axis, 0, len(flags))
	for _, s := range flags {
		name, values, ok := strings.Cut(s, "=")
		if !ok || name == "" || values == "" {
			return nil, api.Errorf(api.Usage, "--matrix %q: expected NAME=A,B,C, as in size=small,large", s)
		}
		if slices.ContainsFunc(axes, func(a taskstate.Axis) bool { return a.Name == name }) {
			return nil, api.Errorf(api.Usage, "--matrix %s is given twice; put its values into one, as in %s=A,B,C", name, name)
		}
		all, err := jobfile.AxisValues(values)
		if err != nil {
			return nil, api.Errorf(api.Usage, "--matrix %s: %v", name, err)
		}
		axes = append(axes, taskstate.Axis{Name: name, Values: all})
	}
	return axes, nil
}
