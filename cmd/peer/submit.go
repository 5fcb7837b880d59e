package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

const submitLong = `Submit a job file; print the job's id on stdout.

A service, global or scheduled job is known by its name: a file with the name of one that goes on
is an update of it. What changes is shown, and whether that restarts its tasks: then they are
replaced as the file's update: says, and ` + "`peer rollout JOB`" + ` shows how far that is. Without changes
nothing happens.

--wait stays until the job ends, shows its output and exits with its code. With a service or a
global job it stays until all tasks have run for as long as update.monitor says, five seconds if it
says nothing, or the update is complete. It exits 1 if that is paused or turned back, and if no task
of a new service runs that long after the first one failed.

--dry-run shows where the tasks would go now, or why they would wait, and what an update changes.
Nothing is changed.

Different from other schedulers: an unknown key, and a constraint that cannot be
read, are refused, never skipped; in constraints, values with blanks want quotes. A batch task
that fails stays failed unless restart: says otherwise, a service's is started again after a
second, and later each time if it goes on ending at once. A failed task is never restarted in
place: its slot gets a new attempt. Reachability is no state of a task: what cannot be reached may
still run. Tasks of a service do not move because a peer joined; see ` + "`peer rebalance`" + `. A
rollback is never rolled back, and one that fails stays paused. Declared resources are counted,
not enforced. docs/differences.md has them all.`

// submitFlags are what `peer submit` lets a person say.
type submitFlags struct {
	wait, dry bool
	maxOutput string
	files     filesFlags
	inputs    inputFlags
	secrets   secretsFlags
}

func submitCommand(c *cli) *cobra.Command {
	var f submitFlags
	cmd := &cobra.Command{
		Use:   "submit FILE",
		Short: "Submit a job file, or an update of a service; print the job's id",
		Long:  submitLong,
		Example: `  peer submit frames.yaml
  peer submit --wait frames.yaml && echo all done
  peer submit --dry-run web.yaml       what would change, and where tasks would go
  peer submit --wait web.yaml          roll a new version out`,
		Args: exactly(1, "a job file (- for stdin)"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), c, args[0]) },
	}
	cmd.Flags().BoolVar(&f.wait, "wait", false, "stay until it ends (a service: until it runs), show its output, exit with its code")
	cmd.Flags().StringVar(&f.maxOutput, "max-output", "", "`SIZE` kept of each task's stdout and stderr, whatever the file says")
	f.files.register(cmd.Flags())
	f.inputs.register(cmd.Flags())
	f.secrets.register(cmd.Flags())
	cmd.Flags().BoolVar(&f.dry, "dry-run", false, "only show what would happen")
	return cmd
}

func (f *submitFlags) run(ctx context.Context, c *cli, file string) error {
	job, local, hidden, err := readJob(file, c.In)
	var values map[string][]byte
	if err == nil {
		values, err = f.secrets.values(hidden)
	}
	if err == nil {
		var more []jobfile.LocalInput
		more, err = f.inputs.into(job)
		local = append(local, more...)
	}
	if err == nil && f.maxOutput != "" {
		if job.MaxOutput, err = jobfile.ParseOutput(f.maxOutput); err != nil {
			err = api.Errorf(api.Usage, "--max-output: %v", err)
		}
	}
	if err == nil {
		err = f.files.into(job)
	}
	if err == nil && (f.files.flat || f.files.force) && f.files.to == "" {
		err = api.Errorf(api.Usage, "--flat and --force go with --to and --wait: they say how files are brought there")
	}
	if err == nil && f.files.to != "" && !f.wait {
		err = api.Errorf(api.Usage, "--to goes with --wait: files are brought as tasks end; without it use `peer get` later")
	}
	var output outputFlags
	if err == nil && f.files.to != "" {
		output.home, err = f.files.home(job)
	}
	if err == nil {
		err = c.inputs(ctx, job, local, f.inputs.exclude, f.dry)
	}
	switch {
	case err != nil && f.wait && !f.dry:
		return taskly(c, err)
	case err != nil:
		return err
	}
	warnPublic(c.Err, job)
	if f.dry {
		return preview(ctx, c, job, values)
	}
	err = runJob(ctx, c, job, values, jobStay{detach: !f.wait}, output)
	if f.wait && err != nil {
		return taskly(c, err)
	}
	return err
}

// readJob reads a job file; the inputs it names by path are yet to be put, and the files of its
// secrets to be read.
func readJob(file string, stdin io.Reader) (job *taskstate.Job, local []jobfile.LocalInput, hidden []jobfile.LocalSecret, err error) {
	name := file
	if file == "-" {
		name = "stdin"
	}
	data, err := fileOrStdin(file, stdin, jobfile.MaxFile)
	if err != nil {
		return nil, nil, nil, api.Errorf(api.Usage, "%v", err)
	}
	job, err = jobfile.Parse(name, data, jobfile.Options{Local: &local, Secrets: &hidden})
	if err != nil {
		return nil, nil, nil, api.Errorf(api.Usage, "%v", err)
	}
	return job, local, hidden, nil
}

// showChanges says what an update of a job changes.
func showChanges(w io.Writer, id string, changes []taskstate.Change) {
	if len(changes) == 0 {
		fmt.Fprintln(w, "nothing changed")
		return
	}
	t, restarts := table("FIELD", "FROM", "TO", "TASKS"), false
	for _, x := range changes {
		what := "go on"
		if x.Restarts {
			what, restarts = "restart", true
		}
		t.add(x.Field, orDash(x.From), orDash(x.To), what)
	}
	t.write(w)
	if restarts {
		fmt.Fprintf(w, "its tasks are replaced as its update: says; `peer rollout %s` shows how far that is\n", id)
	}
}

func preview(ctx context.Context, c *cli, job *taskstate.Job, secrets map[string][]byte) error {
	p, err := c.client().Preview(ctx, api.Submit{Job: *job, Secrets: secrets})
	return emit(c, err, p, p.Places, func(w io.Writer) {
		if p.Update {
			fmt.Fprintf(w, "an update of job %s\n", p.ID)
			showChanges(w, p.ID, p.Changes)
		}
		previewText(w, p)
	})
}

// ownersText says what the owners of peers say, unless all let the job in.
func ownersText(w io.Writer, owners []api.Answer) {
	t, no := table("PEER", "NAME", "ALLOWED", "WHY NOT"), false
	for _, o := range owners {
		yes := "yes"
		if !o.Allowed {
			yes, no = "no", true
		}
		t.add(shortID(o.Peer), orDash(o.PeerName), yes, orDash(o.Reason))
	}
	if no {
		t.write(w)
	}
}

func previewText(w io.Writer, p api.Preview) {
	if len(p.Places) > 0 {
		t := table("PEER", "NAME", "TASKS")
		for _, x := range p.Places {
			t.add(shortID(x.Peer), orDash(x.PeerName), strconv.Itoa(x.Tasks))
		}
		t.write(w)
	}
	ownersText(w, p.Owners)
	if p.Queued > 0 {
		fmt.Fprintf(w, "%d of them would wait there until something ends\n", p.Queued)
	}
	if p.Waiting > 0 {
		fmt.Fprintf(w, "%d of %d would wait: %s\n", p.Waiting, p.Tasks, p.Reason)
	}
	var refused []string
	for _, r := range p.Refused {
		refused = append(refused, r.Reason)
	}
	switch why := strings.Join(refused, "; "); {
	case p.Tasks == 0 && why != "" && !p.Update:
		fmt.Fprintln(w, "no task anywhere: "+why)
	case p.Tasks == 0:
		fmt.Fprintln(w, "no tasks to place")
	case p.Waiting == 0 && why != "" && !p.Update: // one on each peer, but for these
		fmt.Fprintln(w, "none elsewhere: "+why)
	}
	for _, n := range p.Notes {
		fmt.Fprintln(w, n)
	}
	fmt.Fprintln(w, "nothing was changed (--dry-run)")
}
