package stager

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/taskstate"
)

// Left is what a task of another job left.
type Left struct {
	Slot  int
	Ref   tree.Ref
	Bytes int64
}

// input is one that has a name of its content.
type input struct {
	taskstate.Input
	ref  tree.Ref
	slot int // only for the task of this slot; 0: for all
}

// knownWithin is how long this peer may come to know later than the coordinator that a job is
// complete.
const (
	knownWithin = 2 * time.Second
	knowEvery   = 50 * time.Millisecond
)

// inputs are those of a job, with what other jobs left in the place of the jobs.
func (s *Stager) inputs(ctx context.Context, job *taskstate.Job) (out []input, err error) {
	for _, in := range job.Inputs {
		if in.From == "" {
			ref, err := tree.ParseRef(in.Ref)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", tree.ErrRefused, err)
			}
			out = append(out, input{Input: in, ref: ref})
			continue
		}
		left, several, err := s.left(ctx, in.From)
		if err != nil {
			return nil, err
		}
		out = append(out, leftBy(in, left, several)...)
	}
	return out, nil
}

// leftBy is what a job left as inputs: of several tasks each has a folder of its own, named by its
// slot, unless only that of the same slot is meant.
func leftBy(in taskstate.Input, left []Left, several bool) (out []input) {
	for _, l := range left {
		x := input{Input: in, ref: l.Ref}
		x.Bytes = l.Bytes
		switch {
		case in.SameSlot:
			x.slot = l.Slot
		case several:
			x.Name = path.Join(in.Name, strconv.Itoa(l.Slot))
		}
		out = append(out, x)
	}
	return out
}

// ErrNotKnown is what Config.Left answers about a job that this peer does not know to be complete.
var ErrNotKnown = errors.New("what it left is not known here")

// left is what a job left, when this peer knows that it is complete.
func (s *Stager) left(ctx context.Context, id taskstate.JobID) (left []Left, several bool, err error) {
	t := time.NewTicker(knowEvery)
	defer t.Stop()
	for until := time.Now().Add(knownWithin); ; {
		left, several, err := s.cfg.Left(id)
		switch {
		case err == nil:
			return left, several, nil
		case time.Now().After(until):
			return nil, false, fmt.Errorf("job %s: %w", id, err)
		}
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-t.C:
		}
	}
}

// of are the inputs of one task.
func of(all []input, slot int) []input {
	return slices.DeleteFunc(all, func(in input) bool { return in.slot != 0 && in.slot != slot })
}
