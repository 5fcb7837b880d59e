package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/taskstate"
)

// attached stays with a job: its output comes here, signals go there.
type attached struct {
	Streams
	client *client.Client
	id     string
	prefix *prefixer // nil: output comes as it is
	output outputFlags
	again  bool     // a failed task may get another attempt
	bare   []string // the words of a command whose tasks start in an empty folder; nil: they do not, or it was said
	keep   resultFiles
	named  func(slot int) string // its folder in --results
	kept   error                 // why not all output is in --results
	log    *jobLog
	home   *bringAsTheyEnd // nil: the tasks' files are not brought
	missed error           // why not all of them are here
	unread map[string]bool // slots whose newest output could not be had

	stopped int  // tasks that were stopped while they ran
	ending  bool // the job is cancelled: that of each task is not told

	bound  bool     // SIGTERM, or a pipe without a reader, cancels the job
	reader chan int // exit code of the loss of the output's reader; room for one

	mu    sync.Mutex
	ended int // see endedBy
}

// stay shows the job's output until it ends and returns its exit code.
func (a *attached) stay(ctx context.Context, many bool, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watcher sync.WaitGroup
	watcher.Go(func() { a.heed(ctx, cancel, signals) })
	defer watcher.Wait()
	defer cancel()
	if h := a.output.home; h != nil {
		a.home = startHomecoming(ctx, *h)
		defer func() { cancel(); <-a.home.ended }()
	}

	show := a.one
	if many {
		show = a.many
	}
	job, err := show(ctx)
	switch {
	case a.endedBy() != 0:
		return exitError(a.endedBy())
	case err != nil && ctx.Err() != nil:
		return exitError(interruptCode)
	case err != nil:
		if api.AsError(err).Code == api.NoCoordinator { // it is this machine's peer that is gone
			fmt.Fprintf(a.Err, "detached; job %s keeps running: see `peer logs -f %s` and `peer wait %s`%s\n", a.id, a.id, a.id, a.later())
		}
		return err
	case many:
		sayCancelled(a.Err, job)
	}
	if a.missed != nil {
		return a.missed
	}
	if err := jobExit(job); err != nil || len(a.unread) == 0 {
		return err
	}
	return exitError(ownFailure)
}

// one streams a single task's output as it comes.
func (a *attached) one(ctx context.Context) (api.Job, error) {
	var (
		job    api.Job
		jobErr error
		wg     sync.WaitGroup
	)
	logCtx, stopLogs := context.WithCancel(ctx)
	defer stopLogs()
	if a.output.results != "" {
		var err error
		if a.keep, err = openResults(a.output.results, a.named(1)); err != nil {
			a.kept = lostResults(a.id, err)
		}
	}
	wg.Go(func() {
		job, jobErr = a.end(ctx)
	})
	logErr := a.client.Logs(logCtx, a.id, api.LogQuery{Follow: true}, func(c api.LogChunk) error {
		if c.Error != nil && c.Error.Code == api.NotFound && a.endedBy() != 0 {
			return nil // it never began
		}
		return a.chunk(c)
	})
	wg.Wait()
	if err := a.keep.close(); err != nil {
		a.kept = lostResults(a.id, err)
	}
	if jobErr = errors.Join(jobErr, a.kept, a.logOne(ctx)); jobErr != nil {
		return job, jobErr
	}
	if logErr != nil && ctx.Err() == nil && !lost(a.Out) {
		fmt.Fprintf(a.Err, "peer: output incomplete: %v\n", logErr)
	}
	if failures(job) > 0 || job.Truncated {
		a.explainFailure(ctx)
	}
	a.missed = a.bringHome(ctx, newProgress(a.Err), job)
	return job, nil
}

// later says how files come home of which nobody waits for.
func (a *attached) later() string {
	if a.home == nil {
		return ""
	}
	return fmt.Sprintf("; `peer get %s%s --wait` brings its files", a.id, a.toFlag())
}

// toFlag is --flat and --to as they were typed.
func (a *attached) toFlag() string {
	if a.home == nil || a.output.home.to == "" {
		return a.flatFlag()
	}
	return a.flatFlag() + " --to " + printable(a.output.home.to)
}

// flatFlag is --flat if it was typed.
func (a *attached) flatFlag() string {
	if a.home == nil || !a.output.home.flat {
		return ""
	}
	return " --flat"
}

// bringHome waits until the files are here of all tasks that ended well.
func (a *attached) bringHome(ctx context.Context, bar *progress, job api.Job) error {
	if a.home == nil || !job.Over() {
		return nil
	}
	ts, err := a.client.Tasks(ctx, a.id)
	if err != nil {
		return err
	}
	a.sayLeftOut(ts.Tasks)
	plan := planHome(ts.Tasks, false)
	a.home.bring(plan.bring)
	defer bar.clear()
	if err := a.home.finish(func() { bar.text(a.home.text()) }); err != nil {
		return fmt.Errorf("%w; see to that, and type `peer get %s%s`", err, a.id, a.toFlag())
	}
	bar.clear()
	if text := a.home.summary(); text != "" && bar.on {
		fmt.Fprintln(a.Err, text)
	}
	if n := len(plan.partial); n > 0 {
		fmt.Fprintf(a.Err, "peer: %s not ended well; what was written is kept: `peer get %s%s --partial` brings it\n", has(n), a.id, a.toFlag())
	}
	return nil
}

// sayLeftOut names what of the files of tasks that ended well is not kept, of a few of them.
func (a *attached) sayLeftOut(tasks []api.Task) {
	const most = 5
	n := 0
	for _, t := range tasks {
		if t.State != "complete" || t.Message == "" || t.Truncated { // that is told elsewhere
			continue
		}
		if n++; n <= most {
			fmt.Fprintf(a.Err, "peer: task %s: %s\n", t.Called(), printable(t.Message))
		}
	}
	if n > most {
		fmt.Fprintf(a.Err, "peer: the like of %s more; see `peer tasks %s`\n", tasksText(n-most), a.id)
	}
}

// logOne adds the attempts of a single task to the log.
func (a *attached) logOne(ctx context.Context) error {
	if a.log == nil {
		return nil
	}
	ts, err := a.client.AllTasks(ctx, a.id)
	for _, t := range ts.Tasks {
		if over(t.State) && !replaced(t) {
			a.log.ended(t)
		}
	}
	return errors.Join(err, a.log.close())
}

// explainFailure says why a task went wrong when its own output cannot.
func (a *attached) explainFailure(ctx context.Context) {
	ts, err := a.client.Tasks(ctx, a.id)
	if err != nil {
		return
	}
	for _, t := range ts.Tasks {
		if t.Message != "" && (t.Reason != "exit" || t.Truncated) {
			fmt.Fprintf(a.Err, "peer: task %s %s on %s: %s\n", t.Called(), taskstate.Shown(t.State), printable(orDash(t.PeerName)), printable(t.Message))
		}
		if t.State == "failed" || t.State == "rejected" {
			a.tellOfFolder(t.Item)
		}
	}
}

func (a *attached) end(ctx context.Context) (api.Job, error) {
	var last api.Job
	why := whyPrinter{w: a.Err}
	err := a.client.Follow(ctx, a.id, false, func(p api.Progress) error {
		last = p.Job
		why.heard(p.Job)
		return nil
	})
	return last, err
}

// chunk writes a piece of output where it belongs.
func (a *attached) chunk(c api.LogChunk) error {
	task := cmp.Or(c.Named, c.Task)
	if c.Note != "" {
		fmt.Fprintf(a.Err, "peer: %s: %s\n", task, printable(c.Note))
	}
	if slot := c.Task[:max(0, strings.LastIndexByte(c.Task, '.'))]; c.EOF && c.Error == nil {
		delete(a.unread, slot) // a later attempt's
	} else if c.Error != nil && a.unread != nil {
		a.unread[slot] = true
	}
	if c.Error != nil {
		fmt.Fprintf(a.Err, "peer: %s: %s\n", task, printable(c.Error.Message))
	}
	w := io.Writer(a.Out)
	if c.Stream == "stderr" {
		w = raw(a.Err)
	}
	if err := a.keep.write(c.Stream, c.Data); err != nil {
		a.kept = lostResults(task, err)
	}
	if a.prefix == nil {
		_, err := w.Write(c.Data)
		return a.written(err)
	}
	at := time.Time{}
	if c.At != nil {
		at = *c.At
	}
	if err := a.prefix.writeAt(task, w, c.Data, at); err != nil || !c.EOF {
		return a.written(err)
	}
	return a.written(a.prefix.end(task))
}

// many shows progress, and each task's output together at its end.
func (a *attached) many(ctx context.Context) (api.Job, error) {
	bar := newProgress(a.Err)
	defer bar.done()
	bar.extra = a.home.text
	var last api.Job
	shown, items := map[string]bool{}, map[string]string{}
	if a.output.tag {
		a.prefix = tagger(items)
	}
	order, why := newOutputOrder(a.output.keepOrder), whyPrinter{w: a.Err, bar: bar}
	err := a.client.Follow(ctx, a.id, true, func(p api.Progress) error {
		last = p.Job
		a.ending = a.ending || p.Job.Cancelled != ""
		for _, t := range p.Tasks {
			if !over(t.State) || shown[t.ID] || replaced(t) && !p.Job.Over() {
				continue
			}
			shown[t.ID], items[t.ID] = true, t.Item
			a.log.ended(t)
			a.home.add(t)
			bar.clear()
			if err := a.outputs(ctx, order.ended(t, a.again && !p.Job.Over())); err != nil {
				return err
			}
		}
		why.heard(p.Job)
		bar.show(p.Job, p.Tasks...)
		return nil
	})
	bar.clear()
	err = errors.Join(err, a.outputs(ctx, order.rest()))
	bar.stopped = a.stopped
	if !bar.summary(last) && a.ending && last.Over() && last.Tasks["shutdown"] > 0 {
		fmt.Fprintf(a.Err, "peer: %s\n", stoppedText(last.Tasks["shutdown"], a.stopped))
	}
	if err == nil {
		a.missed = a.bringHome(ctx, bar, last)
	}
	return last, errors.Join(err, a.kept, a.log.close())
}

// outputs shows and keeps the output of some tasks, one after the other.
func (a *attached) outputs(ctx context.Context, tasks []api.Task) error {
	for _, t := range tasks {
		if a.output.results != "" {
			var err error
			if a.keep, err = openResults(a.output.results, a.named(t.Slot)); err != nil {
				a.kept = lostResults(t.Called(), err)
			}
		}
		err := a.taskOutput(ctx, t)
		if e := a.keep.close(); e != nil {
			a.kept = lostResults(t.Called(), e)
		}
		a.keep = nil
		if err != nil {
			return err
		}
	}
	return nil
}

// stoppedText says how many tasks were stopped, and how many of them ran then.
func stoppedText(n, ran int) string {
	verb := "were"
	if n == 1 {
		verb = "was"
	}
	text := fmt.Sprintf("%s %s stopped", tasksText(n), verb)
	if ran > 0 && n > 1 {
		text += fmt.Sprintf(", %d of them running", ran)
	}
	return text
}

func over(state string) bool {
	switch state {
	case "complete", "failed", "rejected", "shutdown", "orphaned":
		return true
	}
	return false
}

// replaced tells whether an attempt ended through no fault of its own: the slot gets another one.
func replaced(t api.Task) bool {
	switch t.Reason {
	case "recalled", "interrupted", "dropped", "unreachable", "stuck", "not-started", "drained", "moved", "updated", "no-room", "policy":
		return true
	}
	return false
}

func (a *attached) taskOutput(ctx context.Context, t api.Task) error {
	if t.Peer == "" || t.State == "shutdown" && t.Took == 0 { // it never began
		return nil
	}
	if t.State != "rejected" {
		err := a.client.Logs(ctx, a.id, api.LogQuery{Task: t.ID, Follow: true}, func(c api.LogChunk) error { return a.chunk(c) })
		if err != nil && !lost(a.Out) {
			fmt.Fprintf(a.Err, "peer: %s: output cannot be had: %v\n", t.Called(), err)
		}
	}
	if t.State == "shutdown" && a.ending {
		a.stopped++
		return ctx.Err()
	}
	if t.State != "complete" || t.Truncated {
		what := t.Message
		if t.ExitCode != nil && *t.ExitCode > 0 && !t.Truncated {
			what = fmt.Sprintf("exit %d", *t.ExitCode)
		}
		item := ""
		if t.Item != "" {
			item = " (" + t.Item + ")"
		}
		fmt.Fprintln(a.Err, printable(fmt.Sprintf("peer: task %s%s %s on %s: %s", t.Called(), item, taskstate.Shown(t.State), orDash(t.PeerName), orDash(what))))
		if t.State == "failed" || t.State == "rejected" {
			a.tellOfFolder(t.Item)
		}
	}
	return ctx.Err()
}

// bareWords are the words of a command whose tasks find nothing in their folder.
func bareWords(job *taskstate.Job) []string {
	p := job.Run.Process
	if p == nil || len(p.Script) > 0 || len(job.Inputs) > 0 {
		return nil
	}
	return strings.Fields(strings.Join(p.Command, " "))
}

// tellOfFolder says once how a file of the folder here comes along that a failed task names and had
// not: a path, or a name with a dot.
func (a *attached) tellOfFolder(item string) {
	for i, word := range a.bare {
		word = strings.Trim(strings.ReplaceAll(word, "{}", item), "'\"`;,")
		if st, err := os.Stat(word); err != nil || st.IsDir() || filepath.IsAbs(word) || !strings.ContainsAny(word, "./") {
			continue
		}
		file, with := filepath.Clean(word), "--in "
		if i == 0 {
			with = "--script "
		}
		fmt.Fprintf(a.Err, "peer: a task starts in an empty folder; bring %s with %s or --in .\n", printable(file), printable(with+shellWord(file)))
		a.bare = nil
		return
	}
}
