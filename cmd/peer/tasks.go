package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/taskstate"
)

func tasksCommand(c *cli) *cobra.Command {
	var all, failed, items, null, wide bool
	cmd := &cobra.Command{
		Use:   "tasks ID",
		Short: "A job's tasks: state, peer, exit code, how long, why",
		Long: `A job's tasks: the newest attempt of each slot that is wanted. --all adds the earlier attempts
that are remembered (the last five of a slot), and slots a service does not want any more. TOOK is
how long it ran; in JSON "took", and "waited" for how long it waited to be started. What a peer
that cannot be reached does nobody knows: its tasks are unreachable, and the last column says what
will happen. Where a job keeps files, OUTPUT is what a task left, and COPIES how many there are of
it, of how many are wanted; AGE is then shown with --wide. HELD TO, with --wide or where tasks
differ, is what a task was kept from when it ran (docs/trust.md); in JSON "held_to".`,
		Example: "  peer tasks last\n  peer tasks last --failed\n  peer tasks last --failed --items | peer run --each-line - -- echo {}\n  peer tasks last -o jsonl | jq -r 'select(.exit_code!=0).id'\n  peer tasks web --all",
		Args:    exactly(1, "a job: its id, a unique prefix, its name, or `last`"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.noteNamesakes(cmd.Context(), args...)
			switch {
			case null && !items:
				return api.Errorf(api.Usage, "--null goes with --items")
			case items && c.output != tableFormat:
				return api.Errorf(api.Usage, "--items prints items and nothing else; leave out -o, or take .tasks[].item of the JSON")
			case items:
				return listItems(cmd.Context(), c.client(), c.Out, args[0], failed, null)
			case c.output != "json":
				return listTasks(cmd.Context(), c, args[0], all, failed, wide)
			}
			list := c.client().Tasks
			if all {
				list = c.client().AllTasks
			}
			ts, err := list(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if failed {
				ts.Tasks = slices.DeleteFunc(ts.Tasks, func(t api.Task) bool { return !wentWrong(t) })
			}
			return writeJSON(c.Out, ts)
		},
	}
	cmd.Flags().BoolVar(&wide, "wide", false, "whole lines, however narrow the terminal is, and what each task was held to")
	cmd.Flags().BoolVar(&failed, "failed", false, "only those that failed, could not start or were lost")
	cmd.Flags().BoolVar(&items, "items", false, "print only the items, one per line, to the byte: with --failed a list of what to do again")
	cmd.Flags().BoolVar(&null, "null", false, "with --items: end each with a zero byte, for peer run --null and xargs -0")
	cmd.Flags().BoolVar(&all, "all", false, "also earlier attempts, and slots that are not wanted any more")
	return cmd
}

// taskPiece is how many tasks a table takes in before they are written.
const taskPiece = 1000

// listTasks writes a job's tasks as they come: there may be a million, and most often the first
// ones are wanted.
func listTasks(ctx context.Context, c *cli, id string, all, failed, wide bool) error {
	only := func(add func(api.Task) error) func(api.Task) error {
		return func(t api.Task) error {
			if failed && !wentWrong(t) {
				return nil
			}
			return add(t)
		}
	}
	if c.output == "jsonl" {
		out := bufio.NewWriter(c.Out)
		enc := encoder(out)
		err := c.client().EachTask(ctx, id, all, only(func(t api.Task) error { return enc.Encode(t) }))
		return errors.Join(err, out.Flush())
	}
	rows := taskRows{out: c.Out, carry: c.carry, wide: wide}
	if err := c.client().EachTask(ctx, id, all, only(rows.add)); err != nil {
		return err
	}
	rows.write()
	return nil
}

// listItems writes the items of a job's tasks, to the byte.
func listItems(ctx context.Context, cl *client.Client, w io.Writer, id string, failed, null bool) error {
	end := "\n"
	if null {
		end = "\x00"
	}
	out := bufio.NewWriter(w)
	err := cl.EachTask(ctx, id, false, func(t api.Task) error {
		item := taskItem(t)
		switch {
		case failed && !wentWrong(t):
			return nil
		case item == "":
			return api.Errorf(api.Conflict, "task %s has no item", t.Called())
		case !null && strings.Contains(item, end):
			return api.Errorf(api.Conflict, "the item of task %s has a line break in it; add --null, here and to `peer run`", t.Called())
		}
		_, err := out.WriteString(item + end)
		return err
	})
	return errors.Join(err, out.Flush())
}

// taskItem is a task's item to the byte.
func taskItem(t api.Task) string {
	if t.ItemBase64 != nil {
		return string(t.ItemBase64)
	}
	return t.Item
}

// taskRows writes tasks as a table, piece by piece. It has a column for versions if there are any:
// a job has them, or not.
type taskRows struct {
	out   io.Writer
	carry func(string) string // completes the commands in why a task is as it is
	table *grid
	piece []api.Task
	wide  bool // than the terminal it may be
	files bool // there are columns for what is kept
	held  bool // there is one for what they are held to
	ages  bool // there is one for how long ago
}

func (r *taskRows) add(t api.Task) error {
	if r.piece = append(r.piece, t); len(r.piece) == taskPiece {
		r.write()
	}
	return nil
}

func (r *taskRows) write() {
	versions := slices.ContainsFunc(r.piece, func(t api.Task) bool { return t.Version > 0 })
	if r.table == nil {
		fifth := "ITEM"
		if versions {
			fifth = "VERSION"
		}
		head := []string{"TASK", "STATE", "PEER", "EXIT", fifth, "TOOK"}
		r.files = slices.ContainsFunc(r.piece, func(t api.Task) bool { return t.Output != nil })
		r.ages = r.wide || !r.files // with both it is more than eighty columns
		if r.ages {
			head = append(head, "AGE")
		}
		if r.files {
			head = append(head, "OUTPUT", "COPIES")
		}
		if r.held = r.wide || heldApart(r.piece); r.held {
			head = append(head, "HELD TO")
		}
		r.table = table(append(head, "MESSAGE")...)
		if !r.wide {
			r.table.fit(r.out)
		}
	}
	for _, t := range r.piece {
		cells := taskCells(t, versions)
		if r.ages {
			cells = append(cells, ago(t.At))
		}
		if r.files {
			cells = append(cells, outputText(t.Output), copiesText(t.Output))
		}
		if r.held {
			cells = append(cells, heldText(t.HeldTo))
		}
		r.table.add(append(cells, r.carry(taskNote(t)))...)
	}
	r.table.write(r.out)
	r.piece = r.piece[:0]
}

// heldApart tells whether tasks that ran were held to different things.
func heldApart(tasks []api.Task) bool {
	var first []string
	for _, t := range tasks {
		switch {
		case t.HeldTo == nil:
		case first == nil:
			first = t.HeldTo
		case !slices.Equal(first, t.HeldTo):
			return true
		}
	}
	return false
}

func taskCells(t api.Task, versions bool) []string {
	exit := "-"
	if t.ExitCode != nil {
		exit = strconv.Itoa(*t.ExitCode)
	}
	peer := t.PeerName
	peer = cmp.Or(peer, shortID(t.Peer))
	fifth := t.Item
	if versions {
		fifth = strconv.Itoa(t.Version)
	}
	return []string{t.Called(), taskState(t), orDash(peer), exit, orDash(fifth), taskTook(t)}
}

// outputText is how much a task left.
func outputText(o *api.Output) string {
	switch {
	case o == nil || o.Ref == nil:
		return "-"
	case o.Partial:
		return "part " + bytesText(o.Bytes)
	}
	return bytesText(o.Bytes)
}

// copiesText is how many copies there are, of how many are wanted.
func copiesText(o *api.Output) string {
	if o == nil || o.Copies == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", o.Copies, max(o.Keep, o.Copies))
}

// taskState is the state of a task; what a peer that cannot be reached does nobody knows.
func taskState(t api.Task) string {
	if t.Unreachable != nil {
		return "unreachable"
	}
	return taskstate.Shown(t.State)
}

func taskTook(t api.Task) string {
	if t.Took == 0 {
		return "-"
	}
	return short(seconds(t.Took))
}
