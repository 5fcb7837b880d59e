package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"covey/node/api"
	"covey/taskstate"
)

// taskPiece is how many tasks a table takes in before they are written.
const taskPiece = 1000

// listTasks writes a job's tasks as they come: there may be a million, and most often the first
// ones are wanted.
func (c *cli) listTasks(ctx context.Context, id string, all, failed, wide bool) error {
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
func (c *cli) listItems(ctx context.Context, id string, failed, null bool) error {
	end := "\n"
	if null {
		end = "\x00"
	}
	out := bufio.NewWriter(c.Out)
	err := c.client().EachTask(ctx, id, false, func(t api.Task) error {
		item := t.Item
		if t.ItemBase64 != nil {
			item = string(t.ItemBase64)
		}
		switch {
		case failed && !wentWrong(t):
			return nil
		case item == "":
			return api.Errorf(api.Conflict, "task %s has no item", t.ID)
		case !null && strings.Contains(item, end):
			return api.Errorf(api.Conflict, "the item of task %s has a line break in it; add --null, here and to `peer run`", t.ID)
		}
		_, err := out.WriteString(item + end)
		return err
	})
	return errors.Join(err, out.Flush())
}

// taskRows writes tasks as a table, piece by piece. It has a column for versions if there are any:
// a job has them, or not.
type taskRows struct {
	out   io.Writer
	carry func(string) string // completes the commands in why a task is as it is
	table *grid
	piece []api.Task
	wide  bool // than the terminal it may be
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
		r.table = table("TASK", "STATE", "PEER", "EXIT", fifth, "TOOK", "AGE", "MESSAGE")
		if !r.wide {
			r.table.fit(r.out)
		}
	}
	for _, t := range r.piece {
		cells := taskCells(t, versions)
		cells[len(cells)-1] = r.carry(cells[len(cells)-1])
		r.table.add(cells...)
	}
	r.table.write(r.out)
	r.piece = r.piece[:0]
}

func taskCells(t api.Task, versions bool) []string {
	exit := "-"
	if t.ExitCode != nil {
		exit = strconv.Itoa(*t.ExitCode)
	}
	peer := t.PeerName
	if peer == "" {
		peer = shortID(t.Peer)
	}
	fifth := t.Item
	if versions {
		fifth = strconv.Itoa(t.Version)
	}
	return []string{t.ID, taskState(t), orDash(peer), exit, orDash(fifth), taskTook(t), ago(t.At), taskNote(t)}
}

// taskState is the state of a task; what a peer that cannot be reached does nobody knows.
func taskState(t api.Task) string {
	if t.Unreachable != nil {
		return "unreachable"
	}
	return taskstate.Shown(t.State)
}

// taskTook is how long a task ran that has ended.
func taskTook(t api.Task) string {
	if t.Took == 0 {
		return "-"
	}
	return short(seconds(t.Took))
}
