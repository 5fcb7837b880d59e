package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// outputFlags say how the output of many tasks is shown, and where it is kept besides.
type outputFlags struct {
	keepOrder, tag bool
	results        string
	joblog         string
	home           *bringer // where the tasks' files are brought; nil: they are not
}

func (f *outputFlags) register(fl *pflag.FlagSet) {
	fl.BoolVar(&f.keepOrder, "keep-order", false, "show the tasks' output in the order of their slots")
	fl.BoolVar(&f.tag, "tag", false, "begin each line of output with the task's item and a tab")
	fl.StringVar(&f.results, "results", "", "also write each task's output to `DIR`/SLOT/stdout and stderr, of an array\nDIR/ITEM/…; DIR is new, or empty")
	fl.StringVar(&f.joblog, "joblog", "", "add a line for each task that ends to `FILE`: Seq (its slot), Host, Starttime, JobRuntime, Exitval,\nSignal, Command, as GNU parallel does")
}

// check refuses what means nothing together, and a folder that holds something already.
func (f *outputFlags) check(many, detach bool) error {
	switch {
	case detach && (f.keepOrder || f.tag || f.results+f.joblog != ""):
		return api.Errorf(api.Usage, "--detach does not wait for output; leave out --keep-order, --tag, --results and --joblog, and use `peer logs` later")
	case !many && (f.keepOrder || f.tag):
		return api.Errorf(api.Usage, "--keep-order and --tag are for many tasks; use them with --array, --each-line or --matrix")
	case f.results == "":
		return nil
	}
	switch entries, err := os.ReadDir(f.results); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return api.Errorf(api.Usage, "--results: %v", err)
	case len(entries) > 0:
		return api.Errorf(api.Usage, "--results %s holds something already, as %s; name a new folder, or empty this one", f.results, entries[0].Name())
	}
	return nil
}

// outputOrder decides whose output is shown next. Without keep it is a task that has ended.
type outputOrder struct {
	keep    bool
	next    int              // slot
	waiting map[int]api.Task // by slot
}

func newOutputOrder(keep bool) *outputOrder {
	return &outputOrder{keep: keep, next: 1, waiting: map[int]api.Task{}}
}

// ended takes a task that has ended and says which ones to show now. again means that its slot may
// get another attempt.
func (o *outputOrder) ended(t api.Task, again bool) (show []api.Task) {
	if !o.keep {
		return []api.Task{t}
	}
	if t.Slot < o.next {
		return nil // an attempt after one that was shown
	}
	o.waiting[t.Slot] = t
	if again && t.State != "complete" {
		return nil
	}
	for {
		t, ok := o.waiting[o.next]
		if !ok || again && t.State != "complete" {
			return show
		}
		show = append(show, t)
		delete(o.waiting, o.next)
		o.next++
	}
}

// rest are the tasks that wait for others that will never come.
func (o *outputOrder) rest() (show []api.Task) {
	for _, slot := range slices.Sorted(maps.Keys(o.waiting)) {
		show = append(show, o.waiting[slot])
	}
	clear(o.waiting)
	return show
}

// resultName is the folder of a task in --results.
func resultName(j *taskstate.Job) func(slot int) string {
	if j.Folders() == taskstate.FoldersByItem {
		return j.Item
	}
	return strconv.Itoa
}

// mayRestart tells whether a slot of the job whose attempt failed may get another one.
func mayRestart(j *taskstate.Job) bool {
	return j.Restart != nil && j.Restart.Condition != taskstate.RestartNone
}

// resultFiles are the two files that one task's output is kept in.
type resultFiles map[string]*os.File // by stream

// openResults makes the files of a task; an earlier attempt's are replaced.
func openResults(dir, name string) (resultFiles, error) {
	folder := filepath.Join(dir, name)
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, err
	}
	r := resultFiles{}
	for _, stream := range []string{"stdout", "stderr"} {
		f, err := os.Create(filepath.Join(folder, stream))
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r[stream] = f
	}
	return r, nil
}

func (r resultFiles) write(stream string, data []byte) error {
	f := r[stream]
	f = cmp.Or(f, r["stdout"])
	if f == nil || len(data) == 0 {
		return nil
	}
	_, err := f.Write(data)
	return err
}

func (r resultFiles) close() (err error) {
	for _, f := range r {
		err = errors.Join(err, f.Close())
	}
	return err
}

// tagger labels lines with items, as others do: ITEM, a tab, the line.
func tagger(items map[string]string) *prefixer {
	p := newPrefixer()
	p.label = func(task string) string { return printable(items[task]) + "\t" }
	return p
}

// lostResults is why a task's output could not be kept in --results.
func lostResults(task string, err error) error {
	return fmt.Errorf("the output of %s could not be kept: %w", task, err)
}
