package main

import (
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// filesFlags say which files of a task are kept, and where they are brought.
type filesFlags struct {
	out  []string
	keep int
	logs int // copies of what tasks print
	to   string

	flat, force bool
}

func (f *filesFlags) register(fl *pflag.FlagSet) {
	fl.StringArrayVar(&f.out, "out", nil, "keep the files that match `GLOB` below a task's folder, as in 'out/**' (repeatable)")
	fl.IntVar(&f.keep, "keep", 0, "keep `N` copies of the files that --out names: on the peer it ran on and on others (default 2)")
	fl.IntVar(&f.logs, "keep-logs", 0, "keep `N` copies of what tasks print before they are complete; 1: on the peer they ran on only\n(default 2, the second soon after the end)")
	fl.StringVar(&f.to, "to", "", "bring the files that --out names into `DIR` as tasks end; of an array into DIR/ITEM, of other lists\ninto DIR/SLOT; {} in DIR is the item")
	fl.BoolVar(&f.flat, "flat", false, "bring the files of all tasks into one folder")
	fl.BoolVar(&f.force, "force", false, "replace files below --to that differ, also those that this command did not bring there")
}

// into adds what was said to a job.
func (f *filesFlags) into(j *taskstate.Job) error {
	if len(f.out) > 0 {
		o := taskstate.Outputs{Globs: f.out}
		if j.Outputs != nil {
			o.Keep, o.Missing = j.Outputs.Keep, j.Outputs.Missing
		}
		j.Outputs, j.KeepLogs = &o, 0 // which are kept with outputs
	}
	if f.logs != 0 {
		j.KeepLogs = f.logs
	}
	switch {
	case f.logs != 0 && j.Outputs != nil:
		return api.Errorf(api.Usage, "--keep-logs goes without --out: what tasks print is kept with their files, as often as them (--keep)")
	case j.Outputs == nil && f.keep != 0:
		return api.Errorf(api.Usage, "--keep says how many copies there are of files; say of which with --out GLOB")
	case j.Outputs == nil && f.to != "":
		return api.Errorf(api.Usage, "--to says where files are brought; say which with --out GLOB, or outputs: in a job file")
	case j.Outputs == nil && f.flat:
		return api.Errorf(api.Usage, "--flat says where files are brought; say which with --out GLOB, or outputs: in a job file")
	case f.flat && strings.Contains(f.to, itemMark):
		return api.Errorf(api.Usage, "--flat is one folder for all tasks, and {} in --to one for each; use one of them")
	case j.Outputs == nil && f.force:
		return api.Errorf(api.Usage, "--force says that files may be replaced by those that are brought; say which with --out GLOB, or outputs: in a job file")
	case f.keep != 0:
		j.Outputs.Keep = f.keep
	}
	return nil
}

// noFile refuses what is there and is no folder, before anything is run whose files would go there.
func noFile(to string) error {
	if info, err := os.Stat(to); to != "" && err == nil && !info.IsDir() {
		return api.Errorf(api.Conflict, "%s is no folder; choose another place with --to", printable(to))
	}
	return nil
}

// home is where a job's files are brought while somebody stays with it; nil: nowhere.
func (f *filesFlags) home(j *taskstate.Job) (*bringer, error) {
	if j.Outputs == nil {
		return nil, nil
	}
	at, err := newHomeFolder(f.to, j.Folders(), !f.flat)
	if err == nil {
		err = noFile(at.top)
	}
	if err == nil {
		err = at.check(j)
	}
	return &bringer{to: f.to, at: at, flat: f.flat, force: f.force, had: broughtBy(j)}, err
}
