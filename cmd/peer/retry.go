package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

const retryLong = `Give every task of a job that failed, could not start, was lost or stopped another attempt; with
JOB.SLOT, of an array JOB.ITEM, only that one. What is complete stays so. A job that is over goes
on; one that was cancelled starts what it had not begun. Jobs that were cancelled because this one
failed wait for it again; one that comes after others waits until those are complete.

What a job runs is never changed. --script submits a new job of the failed items,
which is otherwise like this one, with the script in FILE in place of its own, and prints the new
job's id. Slots count from 1 again. ` + "`peer tasks JOB --failed --items`" + ` prints those items, for a
command of your own.`

func retryCommand(c *cli) *cobra.Command {
	var script string
	cmd := &cobra.Command{
		Use:   "retry JOB[.TASK]",
		Short: "Retry a job's failed tasks",
		Long:  retryLong,
		Example: `  peer retry last && peer wait last
  peer retry frames.17
  peer wait $(peer retry last --script fixed.sh)
  peer tasks last --failed --items | peer run --each-line - -- echo {}`,
		Args: exactly(1, "a job (its id, a unique prefix, its name, or `last`) or a task (JOB.SLOT, of an array JOB.ITEM)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := noEmptyFlags(cmd); err != nil {
				return err
			}
			c.noteNamesakes(cmd.Context(), args...)
			if script != "" {
				return retryWith(cmd.Context(), c, args[0], script)
			}
			r, err := c.client().Retry(cmd.Context(), args[0])
			return emit(c, err, r, []api.Retried{r}, func(io.Writer) {
				switch r.Retried {
				case 0:
					fmt.Fprintln(c.Err, "nothing to retry")
				case 1:
					fmt.Fprintln(c.Err, "1 task runs again")
				default:
					fmt.Fprintf(c.Err, "%d tasks run again\n", r.Retried)
				}
				if len(r.Begun) > 0 {
					fmt.Fprintf(c.Err, "not repeated, as they have begun after it: %s\n", strings.Join(r.Begun, " "))
				}
			})
		},
	}
	cmd.Flags().StringVar(&script, "script", "", "submit the failed items as a new job, with the script in `FILE`; print its id")
	return cmd
}

// retryWith submits a new job of the failed items of another one, with another script.
func retryWith(ctx context.Context, c *cli, id, script string) error {
	if strings.Contains(id, ".") {
		return api.Errorf(api.Usage, "--script is for a whole job: it makes a new one of all that failed")
	}
	b, err := namedFile(script, jobfile.MaxScript)
	if err == nil && len(b) == 0 {
		err = fmt.Errorf("%s is empty, so there is nothing to run", script)
	}
	if err != nil {
		return api.Errorf(api.Usage, "--script: %v", err)
	}
	was, err := c.client().Job(ctx, id)
	if err != nil {
		return err
	}
	if s := was.Job.Spec; s != nil && s.Stdin {
		return api.Errorf(api.Conflict, "the task of job %s read stdin, and a new job has none of it; give it again, as in `peer run --script %s <INPUT`", id, script)
	}
	if s := was.Job.Spec; s != nil && len(s.Secrets) > 0 {
		return api.Errorf(api.Conflict, "the secrets of job %s (%s) were sealed for that job, and a new one needs them again: edit what `peer job %s --file` prints, and submit that", id, strings.Join(s.Secrets, ", "), id)
	}
	f, err := c.client().JobFile(ctx, id)
	if err != nil {
		return err
	}
	job, err := jobfile.Parse("job "+f.ID, []byte(f.File), jobfile.Options{})
	if err != nil {
		return err
	}
	ts, err := c.client().Tasks(ctx, f.ID)
	if err != nil {
		return err
	}
	p := job.Run.Process
	switch {
	case p == nil || len(p.Script) == 0:
		return api.Errorf(api.Conflict, "job %s runs no script but a command; print what failed with `peer tasks %s --failed --items` for a new `peer run --each-line -`, or edit what `peer job %s --file` prints", id, id, id)
	case len(job.Matrix) > 0:
		return api.Errorf(api.Conflict, "job %s is a matrix, and what failed of it need not be one; edit what `peer job %s --file` prints, and submit that", id, id)
	case job.Type.Lasts() || job.Schedule != nil:
		return api.Errorf(api.Conflict, "job %s goes on; change what it runs by submitting a fixed file with its name, see `peer submit --help`", id)
	}
	items, count, err := failedItems(ts)
	switch {
	case err != nil:
		return err
	case count == 0:
		return api.Errorf(api.Conflict, "no task of job %s failed", id)
	case len(items) == 0 && job.Count > 1:
		return api.Errorf(api.Conflict, "the tasks of job %s have no items, only the numbers of their slots, and a new job counts from 1; edit what `peer job %s --file` prints", id, id)
	}
	job.Each, job.Count, job.Numbered, job.First, job.After = items, count, false, 0, nil
	p.Script = b
	return runJob(ctx, c, job, nil, jobStay{detach: true}, outputFlags{})
}

// failedItems are the items of the tasks that failed, escaped if those of the job are, and how many
// such tasks there are.
func failedItems(ts api.Tasks) (items []string, count int, err error) {
	for _, t := range ts.Tasks {
		if !wentWrong(t) {
			continue
		}
		if count++; t.Item != "" {
			items = append(items, t.Item)
		}
	}
	if n := len(items); n > 0 && n != count {
		return nil, 0, api.Errorf(api.Conflict, "%d of the tasks that failed have an empty item", count-n)
	}
	return items, count, nil
}
