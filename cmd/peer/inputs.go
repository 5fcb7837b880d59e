package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// keptForJob is how long inputs stay here whatever becomes of their job, which keeps them as long
// as it is there.
const keptForJob = 24 * time.Hour

// inputFlags say which files every task finds in its folder.
type inputFlags struct{ in, exclude []string }

func (f *inputFlags) register(fl *pflag.FlagSet) {
	fl.StringArrayVar(&f.in, "in", nil, "a file or folder of yours, `PATH[:NAME]`, that every task finds in its folder as NAME, read-only;\n. is the folder it runs in; b3:…:NAME is what was put; from:JOB[.same][:NAME] is what the tasks of a job left,\nwith .same only the task of the same slot (repeatable)")
	excludeVar(fl, &f.exclude)
}

// into adds what was said to a job. What is a path is returned; its Ref is to be filled in.
func (f *inputFlags) into(j *taskstate.Job) (local []jobfile.LocalInput, err error) {
	for _, text := range f.in {
		if strings.Contains(text, itemMark) {
			if _, err := os.Lstat(text); err != nil {
				return nil, api.Errorf(api.Usage, "--in %q: every task finds the same inputs; bring the folder with --in DIR, and name the file of each task in its command, as in `peer run --in DIR … -- cat DIR/{}`", text)
			}
		}
		in, path, err := parseInput(text)
		if err != nil {
			return nil, api.Errorf(api.Usage, "--in %q: %v", text, err)
		}
		if path != "" {
			local = append(local, jobfile.LocalInput{Index: len(j.Inputs), Path: path, At: "--in " + text})
		}
		j.Inputs = append(j.Inputs, in)
	}
	return local, nil
}

// parseInput reads PATH[:NAME], b3:…[:NAME] or from:JOB[.same][:NAME]. A path that is there is
// taken as it is.
func parseInput(text string) (in taskstate.Input, path string, err error) {
	if rest, ok := strings.CutPrefix(text, "b3:"); ok {
		ref, name, named := strings.Cut(rest, ":")
		if !named || name == "" {
			return in, "", fmt.Errorf("it has no name: say what it is called there, as in --in b3:…:data")
		}
		return taskstate.Input{Ref: "b3:" + ref, Name: name}, "", nil
	}
	if rest, ok := strings.CutPrefix(text, "from:"); ok {
		in, err = parseFrom(rest)
		return in, "", err
	}
	path = text
	if _, err := os.Lstat(text); err != nil && errors.Is(err, fs.ErrNotExist) {
		drive := len(filepath.VolumeName(text))
		if i := strings.LastIndexByte(text[drive:], ':'); i > 0 {
			path, in.Name = text[:drive+i], text[drive+i+1:]
			if in.Name == "" {
				return in, "", errors.New("nothing follows its colon; say what it is called there, or leave the colon out")
			}
		}
	}
	if path == "" {
		return in, "", errors.New("it is empty")
	}
	if in.Name == "" {
		if in.Name = jobfile.InputName(path); in.Name == "" {
			return in, "", fmt.Errorf("it has no name of its own; say what it is called there, as in --in %s:data", path)
		}
	}
	return in, path, nil
}

// parseFrom reads JOB[.same][:NAME]: what a job's tasks left, called as in a job file.
func parseFrom(text string) (in taskstate.Input, err error) {
	job, name, named := strings.Cut(text, ":")
	job, slot, dotted := strings.Cut(job, ".")
	switch {
	case job == "":
		return in, errors.New("it names no job; say whose files are meant, as in --in from:last:parts")
	case named && name == "":
		return in, errors.New("nothing follows its colon; say what it is called there, or leave the colon out")
	case dotted && slot != "same":
		return in, fmt.Errorf("%q is no word for a slot: .same is what the task of the same slot left; without it every task finds what each left in NAME/SLOT", printable(slot))
	}
	return taskstate.Input{From: taskstate.JobID(job), SameSlot: dotted, Name: cmp.Or(name, job)}, nil
}

// inputs puts what a job's inputs are on this machine, and fills in what they are. With dry it
// reads them, and puts nothing. What exclude matches is left out of folders.
func (c *cli) inputs(ctx context.Context, j *taskstate.Job, local []jobfile.LocalInput, exclude []string, dry bool) error {
	if len(exclude) > 0 && len(local) == 0 {
		return api.Errorf(api.Usage, "--exclude says what is left out of folders that are brought; say which with --in DIR")
	}
	if err := checkExclude(exclude); err != nil {
		return err
	}
	for _, l := range local {
		info, err := os.Stat(l.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return api.Errorf(api.Usage, "%s: there is no %s", l.At, printable(l.Path))
		case err != nil:
			return api.Errorf(api.Usage, "%s: %v", l.At, err)
		}
		in := &j.Inputs[l.Index]
		in.Ref = tree.Ref{Dir: info.IsDir()}.String() // until it is known
		in.Exec = in.Exec || info.Mode().IsRegular() && info.Mode()&0o100 != 0
	}
	if len(j.Inputs) == 0 {
		return nil
	}
	if err := jobfile.Validate(j); err != nil {
		return api.Errorf(api.Usage, "%v", err)
	}
	var all api.Put
	for _, l := range local {
		in := &j.Inputs[l.Index]
		p := c.putting(ctx, l.Path, keptForJob)
		p.exclude = exclude
		if in.Name == "." {
			p.tops = map[string]bool{}
		}
		put := p.put
		if dry {
			put = p.sum
		}
		v, err := put()
		if err != nil {
			return err
		}
		if err := inTheWay(j, p.tops); err != nil {
			return err
		}
		in.Ref, in.Bytes, in.Files = v.Ref.String(), v.Bytes, v.Files
		all.Bytes, all.Files, all.New = all.Bytes+v.Bytes, all.Files+v.Files, all.New+v.New
	}
	if len(local) > 0 && !dry {
		fmt.Fprintf(c.Err, "inputs %s in %s, %s new here\n", bytesText(all.Bytes), countOf(all.Files, "file"), bytesText(all.New))
	}
	return nil
}

// inTheWay refuses an input that is called like something in the folder that tasks run in.
func inTheWay(j *taskstate.Job, tops map[string]bool) error {
	for _, in := range j.Inputs {
		if first, _, _ := strings.Cut(in.Name, "/"); tops[first] {
			return api.Errorf(api.Usage, "the folder that tasks run in has a %s already; give the input %s another name", printable(first), printable(in.Name))
		}
	}
	return nil
}
