package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
	"github.com/coveyproject/covey/taskstate/spell"
)

// runFlags are what `peer run` lets a person say about a job.
type runFlags struct {
	name, array, eachLine, script, dir               string
	cpus, memory, disk, timeout, replaceAfter, delay string
	maxOutput                                        string
	env                                              []string
	parallel                                         int
	shell, detach, dry, wait, null, keepGoing        bool
	policy                                           policyFlags
	output                                           outputFlags
	stdin                                            stdinFlags
	files                                            filesFlags
	inputs                                           inputFlags
	secrets                                          secretsFlags
}

const runLong = `Run a command on whichever peer has room. One task: its output is streamed as it comes and
` + "`peer run`" + ` exits with its code (128+n by signal n, 126/127 not executable / not found, 124 timed
out, 125 Covey's own failure). Many tasks: progress on a terminal, each task's output together at
its end, exit 0 only if all ended with 0.

The command runs in a fresh folder, with the daemon's PATH, HOME, LANG and TMPDIR, the name of its
user in USER and LOGNAME (task-UID where that has none), what --env gives, and COVEY_JOB COVEY_TASK
COVEY_SLOT COVEY_ATTEMPT COVEY_EPOCH COVEY_COUNT COVEY_ITEM COVEY_PEER, and COVEY_<NAME> for each
--matrix. ${COVEY_…} is expanded in the command. With
--array, --each-line and --matrix, {} is the item, and {NAME} the value of that --matrix. \{} stays
{}. In a --shell line both stand outside of quotes or between double quotes, and the shell takes the
item for text, whatever is in it. --env is passed on as it is.

A pipe or a file that ` + "`peer run`" + ` has as stdin is passed on to its one task, wherever that runs; a
terminal only with --stdin. Say --no-stdin in loops like ` + "`while read x; do peer run -- …`" + `, where the
first task would eat the loop's input, as ssh does without -n, and in cron. Up to 16 MiB are kept
for another attempt; a task that has read some of more is not run again should its peer die: it
fails and says so. It fails, too, if ` + "`peer run`" + ` ends before its stdin does: a part is not the whole.

What a task leaves in its folder is gone with it, but for --out GLOB: those files are kept, by other
peers too (--keep), before the task is complete, and brought to --to (default the current folder) as
tasks end. Each task of an array has a folder of its own, --to/ITEM, and of another list --to/SLOT;
--to 'd/{}' names it by the item, and --flat brings all into one. What came with --in and has not
changed is not brought. A task that leaves nothing that matches has failed. A file that the same
command brought there before is replaced if it was not changed since; any other that differs is not
touched, and nothing is written (exit 125), unless --force is given. ` + "`peer get`" + ` brings files later,
from whichever peers have them.

--env is public: peers that vote, may read, or run a task of the job see it. A password goes into a
file of yours and is given by --secret NAME=@FILE: it travels sealed to the peers that may run the
job, and a task finds it in the file $COVEY_SECRETS/NAME, which is gone with the task.

What a task writes beyond --max-output is not kept: stderr says so, and the exit code is 125.

A failed task stays failed unless --restart says otherwise: its slot then gets another attempt, at
once and, if that fails within ten seconds too, after 1 s, 2 s, 4 s … up to a minute.

Ctrl-C cancels the job, and a second one does not wait for its end. SIGTERM (exit 143) and an output
pipe without a reader, as in ` + "`peer run … | head -1`" + ` (exit 141), cancel it too, unless --keep-going
is given. A hang-up leaves it running.`

func runCommand(c *cli) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] -- CMD ARG…",
		Short: "Run a command on some peer: see its output, exit with its code",
		Long:  runLong,
		Example: `  peer run -- uname -a
  peer run --array 1-100 --in . -- convert frame{}.png -resize 50% small{}.png
  ls *.flac | peer run --each-line - --in . -- ./encode {}
  peer run --array 1-240 --in . --out 'f-*.png' --to frames -- ./render {}
  peer run --matrix size=s,l --matrix seed=1-3 --in . -- ./train --size {size} --seed {seed}
  peer run --restart on-failure:3 --constraint 'peer.os == linux' --script fetch.sh
  peer run --after frames --priority 80 --gpus 1 --script join-frames.sh
  peer run --script analyse.sh -- --fast
  peer run --secret DB=@db.txt --shell -- 'psql "$(cat $COVEY_SECRETS/DB)" -c vacuum'
  peer run --in . -- make test
  peer run --in from:last:parts -- ls parts
  id=$(peer run --detach -- make -j4); peer logs -f $id`,
		Annotations: map[string]string{speaksForTask: "1"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := noEmptyFlags(cmd); err != nil {
				return err
			}
			return f.run(cmd.Context(), c, args)
		},
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *runFlags) register(fl *pflag.FlagSet) {
	fl.SetInterspersed(false)
	fl.StringVar(&f.name, "name", "", "a `NAME` for the job: [a-z0-9-], need not be unique")
	fl.StringVar(&f.array, "array", "", "one task per number of `A-B`, or of 5, 1,3,5, 1-10:2, 01-10: {} is the number")
	fl.StringVar(&f.eachLine, "each-line", "", "one task per line of `FILE` (- for stdin): {} is the line")
	fl.BoolVar(&f.null, "null", false, "with --each-line: items end with a zero byte, as find -print0 writes them")
	fl.StringVar(&f.script, "script", "", "a `FILE` (≤ 64 KiB) that travels with the job and is run with the arguments; - is stdin")
	fl.StringVar(&f.dir, "dir", "", "run in this `DIR` below the task's own folder")
	fl.StringVar(&f.cpus, "cpus", "", "`N` CPUs to reserve per task (default 1)")
	fl.StringVar(&f.memory, "memory", "", "memory to reserve per task, as a `SIZE` like 512MiB")
	fl.StringVar(&f.disk, "disk", "", "disk to reserve per task, as a `SIZE` like 20GiB")
	fl.StringVar(&f.maxOutput, "max-output", "", "`SIZE` kept of each task's stdout and of its stderr (default 64MiB)")
	fl.StringVar(&f.timeout, "timeout", "", "stop an attempt after this `DURATION`, as in 10m")
	fl.StringVar(&f.replaceAfter, "replace-after", "", "restart elsewhere this `DURATION` after the peer is declared dead (default 10s)")
	fl.BoolVar(&f.wait, "at-most-once", false, "never run it twice: wait for a lost peer instead of replacing the attempt")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "`K=V` for the task's environment (repeatable); TRACEPARENT goes along by itself")
	fl.IntVarP(&f.parallel, "parallel", "j", 0, "at most `N` tasks at once")
	fl.StringVar(&f.delay, "delay", "", "wait at least `DURATION` between the starts of two tasks")
	fl.BoolVar(&f.shell, "shell", false, "the command is one line for /bin/sh -c")
	fl.BoolVarP(&f.detach, "detach", "d", false, "print the job's id and do not wait")
	fl.BoolVar(&f.keepGoing, "keep-going", false, "the job goes on when SIGTERM or the end of its output's reader ends this command")
	fl.BoolVar(&f.dry, "dry-run", false, "only show where its tasks would go, or why they would wait")
	f.policy.register(fl)
	f.output.register(fl)
	f.stdin.register(fl)
	f.inputs.register(fl)
	f.secrets.register(fl)
	f.files.register(fl)
}

// run submits what the flags and args say, and stays with it unless they say otherwise.
func (f *runFlags) run(ctx context.Context, c *cli, args []string) error {
	passed, err := f.stdin.passed(c.In, f)
	if err != nil {
		return err
	}
	job, err := f.job(args, c.In)
	if err != nil {
		return err
	}
	job.Stdin = passed
	if err := f.output.check(job.Count > 1, f.detach); err != nil && !f.dry {
		return err
	}
	if f.detach && (f.files.to != "" || f.files.flat || f.files.force) && !f.dry {
		return api.Errorf(api.Usage, "--detach does not wait for files; leave out --to, --flat and --force, and use `peer get` later")
	}
	if !f.detach {
		if f.output.home, err = f.files.home(job); err != nil {
			return err
		}
	}
	local, err := f.inputs.into(job)
	if err == nil {
		err = c.inputs(ctx, job, local, f.inputs.exclude, f.dry)
	}
	if err != nil {
		return err
	}
	values, err := f.secrets.values(nil)
	if err != nil {
		return err
	}
	warnPublic(c.Err, job)
	if f.dry {
		return preview(ctx, c, job, values)
	}
	return runJob(ctx, c, job, values, jobStay{detach: f.detach, bound: !f.keepGoing}, f.output)
}

// scriptInto reads the script, which names the job unless a flag does.
func (f *runFlags) scriptInto(j *taskstate.Job, stdin io.Reader) error {
	p := j.Run.Process
	if f.script == "-" && f.eachLine == "-" {
		return api.Errorf(api.Usage, "--script - and --each-line - both read stdin; give one of them a file")
	}
	b, err := fileOrStdin(f.script, stdin, jobfile.MaxScript)
	if err == nil && len(b) == 0 {
		err = fmt.Errorf("%s is empty, so there is nothing to run", f.script)
	}
	if err != nil {
		return api.Errorf(api.Usage, "--script: %v", err)
	}
	p.Script = b
	if f.script == "-" {
		return nil
	}
	if name := filepath.Base(f.script); name != taskstate.DefaultScript && jobfile.ScriptName(name) {
		p.ScriptName = name
	}
	if base := filepath.Base(f.script); j.Name == "" {
		j.Name = jobfile.NameFrom(strings.TrimSuffix(base, filepath.Ext(base)))
	}
	return nil
}

// job builds the job the flags describe. stdin is read for --each-line - and --script -.
func (f *runFlags) job(args []string, stdin io.Reader) (*taskstate.Job, error) {
	j := &taskstate.Job{Name: f.name, Parallel: f.parallel}
	p := &taskstate.Process{Command: args, Dir: f.dir, Shell: f.shell}
	j.Run.Process = p
	if f.script != "" {
		if err := f.scriptInto(j, stdin); err != nil {
			return nil, err
		}
	} else if len(args) == 0 {
		return nil, api.Errorf(api.Usage, "no command: type `peer run -- CMD ARG…` or `peer run --script FILE`; see `peer run --help`")
	}
	if err := f.many(j, stdin); err != nil {
		return nil, err
	}
	if f.shell {
		p.Command = []string{strings.Join(args, " ")}
	}
	if err := f.numbers(j); err != nil {
		return nil, err
	}
	if parent := os.Getenv(traceParent); wholeTraceParent.MatchString(parent) {
		p.Env = map[string]string{traceParent: parent}
	}
	for _, kv := range f.env {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, api.Errorf(api.Usage, "--env %q: expected K=V", kv)
		}
		if p.Env == nil {
			p.Env = map[string]string{}
		}
		p.Env[k] = v
	}
	if err := f.policy.before(j); err != nil {
		return nil, err
	}
	if err := f.files.into(j); err != nil {
		return nil, err
	}
	given := j.Resources.MilliCPU
	if err := jobfile.FillMarks(j); err != nil {
		return nil, api.Errorf(api.Usage, "%v", err)
	}
	jobfile.Defaults(j)
	if f.cpus != "" {
		j.Resources.MilliCPU = given // also when it is zero
	}
	f.policy.afterwards(j)
	if err := jobfile.Validate(j); err != nil {
		return nil, api.Errorf(api.Usage, "%v", err)
	}
	return j, nil
}

// items reports whether tasks have items. Without them {} is the command's own, as in find -exec ls
// {} \;
func (f *runFlags) items() bool {
	return f.array != "" || f.eachLine != "" || len(f.policy.matrix) > 0
}

func (f *runFlags) many(j *taskstate.Job, stdin io.Reader) error {
	switch {
	case f.array != "" && f.eachLine != "":
		return api.Errorf(api.Usage, "use --array or --each-line, not both")
	case len(f.policy.matrix) > 0 && f.array+f.eachLine != "":
		return api.Errorf(api.Usage, "use --matrix, or one of --array and --each-line")
	case f.array != "":
		if err := jobfile.Array(j, f.array); err != nil {
			return api.Errorf(api.Usage, "--array: %v", err)
		}
	case f.null && f.eachLine == "":
		return api.Errorf(api.Usage, "--null goes with --each-line FILE, as in find . -print0 | peer run --null --each-line - -- …")
	case f.eachLine != "":
		items, escaped, err := readItems(f.eachLine, stdin, f.null)
		if err != nil {
			return err
		}
		j.Each, j.Escaped, j.Count = items, escaped, len(items)
	}
	return nil
}

func (f *runFlags) numbers(j *taskstate.Job) error {
	for _, x := range []struct {
		flag, text string
		set        func(string) error
	}{
		{"--cpus", f.cpus, func(s string) (err error) { j.Resources.MilliCPU, err = spell.CPUs(s); return err }},
		{"--memory", f.memory, func(s string) (err error) { j.Resources.Memory, err = jobfile.ParseSize(s); return err }},
		{"--disk", f.disk, func(s string) (err error) { j.Resources.Disk, err = jobfile.ParseSize(s); return err }},
		{"--max-output", f.maxOutput, func(s string) (err error) { j.MaxOutput, err = jobfile.ParseOutput(s); return err }},
		{"--timeout", f.timeout, func(s string) error { return millis(s, &j.Timeout) }},
		{"--delay", f.delay, func(s string) error { return millis(s, &j.Delay) }},
		{"--replace-after", f.replaceAfter, func(s string) error { return millis(s, &j.Unreachable.ReplaceAfter) }},
	} {
		if x.text == "" {
			continue
		}
		if err := x.set(x.text); err != nil {
			return api.Errorf(api.Usage, "%s: %v", x.flag, err)
		}
	}
	j.Unreachable.Wait = f.wait
	if f.wait && f.replaceAfter != "" {
		return api.Errorf(api.Usage, "use --at-most-once or --replace-after, not both")
	}
	if f.replaceAfter != "" && j.Unreachable.ReplaceAfter == 0 {
		j.Unreachable.ReplaceAfter = 1 // at once: 0 means the default
	}
	return nil
}

// traceParent is the variable with the span that a command is run in, as W3C Trace Context writes
// it: what the tasks of `peer run` tell of themselves belongs to it.
const traceParent = "TRACEPARENT"

var wholeTraceParent = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

func millis(s string, into *int64) error {
	d, err := spell.Duration(s)
	*into = d.Milliseconds()
	return err
}

// readItems reads a list as each_line of a job file does, or one whose items end with a zero byte.
func readItems(file string, stdin io.Reader, null bool) (items []string, escaped bool, err error) {
	data, err := fileOrStdin(file, stdin, jobfile.MaxList)
	if err != nil {
		return nil, false, api.Errorf(api.Usage, "--each-line: %v", err)
	}
	read := jobfile.Lines
	if null {
		read = jobfile.NullItems
	}
	items, escaped, err = read(data)
	if err != nil {
		return nil, false, api.Errorf(api.Usage, "--each-line: %s: %v", file, err)
	}
	return items, escaped, nil
}

// fileOrStdin is readFile, with - for stdin.
func fileOrStdin(file string, stdin io.Reader, limit int64) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(io.LimitReader(stdin, limit+1))
	}
	return namedFile(file, limit)
}

// namedFile is readFile of a file that somebody named: if it is not there, the error says where it
// was looked for.
func namedFile(file string, limit int64) ([]byte, error) {
	b, err := readFile(file, limit)
	if path, absErr := filepath.Abs(file); errors.Is(err, fs.ErrNotExist) && absErr == nil {
		return nil, fmt.Errorf("there is no %s in %s; check the name and the folder", printable(filepath.Base(path)), printable(filepath.Dir(path)))
	}
	return b, err
}

// readFile reads a file, of one that has more than limit bytes one more than that: who goes on with
// it says that it is too long.
func readFile(file string, limit int64) ([]byte, error) {
	f, err := os.Open(filepath.Clean(file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// jobStay is how a command stays with the job it submits.
type jobStay struct {
	detach bool // not at all
	bound  bool // the job ends with the command
}

// runJob submits a job and stays with it to its end.
func runJob(ctx context.Context, c *cli, job *taskstate.Job, secrets map[string][]byte, stay jobStay, output outputFlags) error {
	if c.output != tableFormat && !stay.detach && !c.outputFromEnv {
		return api.Errorf(api.Usage, "its output is the tasks' own, so it takes no -o but with --detach, --dry-run or without --wait; see `peer job ID -o json`")
	}
	cl := c.client()
	var log *jobLog
	if output.joblog != "" {
		var err error
		if log, err = openJobLog(output.joblog, job); err != nil {
			return err
		}
	}
	var signals chan os.Signal
	if !stay.detach && job.Schedule == nil && !job.Type.Lasts() { // from before the job is accepted on
		var stop func()
		signals, stop = hearSignals()
		defer stop()
		ctx = context.WithoutCancel(ctx) // SIGTERM comes as a signal
	}
	sub, err := submitHeard(ctx, cl, api.Submit{Job: *job, Secrets: secrets}, signals)
	if err != nil {
		return err
	}
	switch {
	case sub.Held:
		fmt.Fprintf(c.Err, "HELD: job %s is kept on this machine only. %s\n", sub.ID, sub.Note)
	case sub.Note != "":
		fmt.Fprintf(c.Err, "job %s: %s\n", sub.ID, sub.Note)
	}
	if sub.Updated {
		showChanges(c.Err, sub.ID, sub.Changes)
	}
	switch {
	case stay.detach:
		switch {
		case job.Outputs == nil:
		case job.Schedule != nil:
			fmt.Fprintf(c.Err, "each of its runs keeps files of its own: `peer jobs` lists the runs, and `peer get RUN --wait` brings the files of one\n")
		default:
			fmt.Fprintf(c.Err, "`peer get %s --wait` brings its files\n", sub.ID)
		}
		return emit(c, nil, sub, []api.Submitted{sub}, func(w io.Writer) { fmt.Fprintln(w, sub.ID) })
	case job.Schedule != nil:
		fmt.Fprintln(c.Out, sub.ID)
		fmt.Fprintf(c.Err, "job %s starts others at its times and does not end by itself: not waiting; see `peer job %s`\n", sub.ID, sub.ID)
		return nil
	case job.Type.Lasts():
		fmt.Fprintln(c.Out, sub.ID)
		return awaitRollout(ctx, cl, c.Err, sub.ID, job)
	}
	if output.home != nil {
		output.home.api = cl
	}
	a := &attached{Streams: c.Streams, client: cl, id: sub.ID, output: output, named: resultName(job), again: mayRestart(job), bare: bareWords(job), log: log, bound: stay.bound, reader: make(chan int, 1), unread: map[string]bool{}}
	if !job.Stdin {
		return a.stay(ctx, job.Count > 1, signals)
	}
	fed := feed(ctx, c.Streams, cl, sub.ID)
	err = a.stay(ctx, job.Count > 1, signals)
	if ferr := fed.stop(); ferr != nil && err != nil {
		fmt.Fprintf(c.Err, "peer: %v\n", ferr)
	}
	return err
}

// taskly is for commands that speak for a task only with a flag: Covey's own failure becomes 125.
func taskly(c *cli, err error) error {
	if _, ok := err.(exitError); ok {
		return err
	}
	c.complain("", err)
	return exitError(ownFailure)
}
