package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// jobLogHead is the first line of a job log: the columns of GNU parallel's, so that what reads that
// one reads this. Send and Receive are 0.
const jobLogHead = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"

// jobLog is a file to which a line is added for each attempt that ends. It is appended to, a line
// in one write, so that several runs may share it.
type jobLog struct {
	f   *os.File
	job *taskstate.Job
	err error // why not all is in it
}

// openJobLog opens the log, and begins it if it is empty.
func openJobLog(path string, job *taskstate.Job) (*jobLog, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		return nil, api.Errorf(api.Usage, "--joblog: %v", err)
	}
	l := &jobLog{f: f, job: job}
	if st, err := f.Stat(); err == nil && st.Size() == 0 {
		_, l.err = io.WriteString(f, jobLogHead)
	}
	return l, nil
}

// ended adds an attempt. Nothing is added to a nil log.
func (l *jobLog) ended(t api.Task) {
	if l == nil || l.err != nil {
		return
	}
	_, l.err = io.WriteString(l.f, jobLogLine(l.job, t))
}

// close says why the log is not complete.
func (l *jobLog) close() error {
	if l == nil {
		return nil
	}
	if err := errors.Join(l.err, l.f.Close()); err != nil {
		return fmt.Errorf("--joblog is not complete: %w", err)
	}
	return nil
}

// jobLogLine is a line of the log. Exitval is what a shell has where there was no process, and -1
// where one ended without an exit code; what has no start has the time of its end.
func jobLogLine(job *taskstate.Job, t api.Task) string {
	exit := -1
	switch {
	case t.ExitCode != nil:
		exit = *t.ExitCode
	case t.Reason == string(taskstate.ReasonNotExec):
		exit = 126
	case t.Reason == string(taskstate.ReasonNotFound):
		exit = 127
	}
	start := t.At.Add(-time.Duration(t.Took * float64(time.Second)))
	host := t.PeerName
	host = cmp.Or(host, orDash(t.Peer))
	return fmt.Sprintf("%d\t%s\t%.3f\t%.3f\t0\t0\t%d\t%d\t%s\n", t.Slot, printable(host), float64(start.UnixMilli())/1000, t.Took, exit, t.Signal, commandText(job, t.Item))
}

// commandText is what was run, in one line, with the item in its place.
func commandText(job *taskstate.Job, item string) string {
	p := job.Run.Process
	if p == nil {
		return "-"
	}
	words := make([]string, 0, len(p.Command)+1)
	if len(p.Script) > 0 {
		words = append(words, "(script)")
	}
	for _, w := range p.Command {
		if p.Braces {
			w = strings.ReplaceAll(w, "{}", item)
		}
		if !p.Shell {
			w = shellWord(w)
		}
		words = append(words, w)
	}
	return printable(strings.Join(words, " "))
}
