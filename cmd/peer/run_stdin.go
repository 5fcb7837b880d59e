package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

// stdinFlags say whether what the command reads is passed on to its task.
type stdinFlags struct{ yes, no bool }

func (f *stdinFlags) register(fl *pflag.FlagSet) {
	fl.BoolVarP(&f.yes, "stdin", "i", false, "pass stdin on also from a terminal (a pipe or file is anyway)")
	fl.BoolVar(&f.no, "no-stdin", false, "leave stdin alone: for loops (while read) and cron")
}

// passed tells whether the task is to read in. Many tasks cannot read one stdin, nobody stays to
// read it for --detach, and --each-line - reads it itself.
func (f *stdinFlags) passed(in io.Reader, run *runFlags) (bool, error) {
	other := ""
	switch {
	case run.detach:
		other = "--detach, which does not stay to read it"
	case run.eachLine == "-":
		other = "--each-line -, which reads it itself"
	case run.script == "-":
		other = "--script -, which reads it itself"
	case run.items():
		other = "--array, --each-line or --matrix: many tasks cannot read one stdin"
	case f.no:
		other = "--no-stdin"
	}
	switch {
	case f.yes && other != "":
		return false, api.Errorf(api.Usage, "--stdin does not go with %s", other)
	case other != "" || run.dry:
		return false, nil
	}
	file, ok := in.(*os.File)
	if !ok {
		return true, nil
	}
	return f.passedFile(file)
}

// passedFile is passed for a stdin of the system: a file, a pipe, a socket or a device.
func (f *stdinFlags) passedFile(file *os.File) (bool, error) {
	st, err := file.Stat()
	switch {
	case err != nil: // closed
		return f.yes, nil //nolint:nilerr // the one that is asked for all the same fails as it is read
	case st.Mode()&os.ModeDevice != 0 && readsNothing(file, st):
		return f.yes, nil
	case st.IsDir():
		return false, api.Errorf(api.Usage, "stdin cannot be read: it is a folder; give it a file, as in `peer run … <FILE`, or type --no-stdin")
	case writeOnly(file):
		return false, api.Errorf(api.Usage, "stdin cannot be read: it is open for writing only; give it a file, as in `peer run … <FILE`, or type --no-stdin")
	}
	return f.yes || !drained(file, st), nil
}

// readsNothing reports whether a device is a terminal, which is passed on only when that is asked
// for, or the null device. Any other one has data, as a disk does.
func readsNothing(f *os.File, st os.FileInfo) bool {
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(null, st) || term.IsTerminal(int(f.Fd()))
}

// drained tells whether there is nothing to read, for certain and at once: then there is nothing to
// pass on.
func drained(f *os.File, st os.FileInfo) bool {
	if !st.Mode().IsRegular() {
		return hungUp(f)
	}
	at, err := f.Seek(0, io.SeekCurrent)
	return err == nil && at >= st.Size()
}

// feeding passes what the command reads on to the job's task.
type feeding struct {
	cancel func()
	all    sync.WaitGroup
	err    error
	failed atomic.Bool // it could not be read, which was said
}

// feed begins to pass in on. A reader stuck on it ends with this process.
func feed(ctx context.Context, s Streams, cl *client.Client, id string) *feeding {
	ctx, cancel := context.WithCancel(ctx)
	out, in := io.Pipe()
	f := &feeding{}
	f.cancel = func() { cancel(); _ = out.CloseWithError(context.Canceled) }
	go func() {
		_, err := io.Copy(in, s.In)
		if err != nil && !errors.Is(err, context.Canceled) {
			f.failed.Store(true)
			err = fmt.Errorf("stdin cannot be read: %w", err)
			fmt.Fprintf(s.Err, "peer: %v\n", err)
		}
		_ = in.CloseWithError(err) // nil: that was all
	}()
	f.all.Go(func() {
		f.err = cl.Stdin(ctx, id, out)
		_ = out.CloseWithError(context.Canceled) // nobody reads on: the copying ends, too
	})
	return f
}

// stop ends it: the job is over, and needs no more. The error is why its stdin was not passed on
// before.
func (f *feeding) stop() error {
	if f == nil {
		return nil
	}
	f.cancel()
	f.all.Wait()
	if errors.Is(f.err, context.Canceled) || f.failed.Load() {
		return nil
	}
	return f.err
}
