package care

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/coveyproject/covey/node/blob"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/node/tasklog"
	"github.com/coveyproject/covey/taskstate"
)

// Logs gives f the output that is kept of a task, which ended at a moment, Unix milliseconds. It
// reads what is here, and brings what is not from whoever has it.
func (c *Care) Logs(ctx context.Context, s *taskstate.Saved, at int64, req tasklog.Request, f func(tasklog.Chunk) error) error {
	req.Parts = slices.Clone(req.Parts)
	var err error
	for range 3 { // what is found to be damaged is brought again
		err = c.logs(ctx, s, at, req, func(ch tasklog.Chunk) error {
			if err := f(ch); err != nil {
				return readerGone{err}
			}
			for i := range req.Parts {
				if p := &req.Parts[i]; p.Stream == ch.Stream {
					p.Offset = ch.Offset + int64(len(ch.Data))
				}
			}
			return nil
		})
		var rot *store.Rot
		if !errors.As(err, &rot) {
			break
		}
	}
	var gone readerGone
	if errors.As(err, &gone) {
		return gone.error
	}
	return err
}

// readerGone is an error of who reads.
type readerGone struct{ error }

func (c *Care) logs(ctx context.Context, s *taskstate.Saved, at int64, req tasklog.Request, f func(tasklog.Chunk) error) error {
	fr := blob.Fetcher{Net: c.cfg.Net, Self: c.cfg.Self, Log: c.cfg.Log}
	b, err := blob.Bring(ctx, c.cfg.Store, true, fr, blob.Request{Peers: c.here}, tree.Ref{Root: s.Logs, Dir: true})
	if err != nil {
		return err
	}
	defer b.Close()
	streams := map[string]tasklog.Saved{}
	var totals tree.Totals
	for e, err := range blob.Entries(c.cfg.Store, s.Logs, &totals) {
		if err != nil {
			return err
		}
		if e.Kind != tree.File || e.Path != tasklog.Stdout && e.Path != tasklog.Stderr {
			return fmt.Errorf("what is kept of the output has %.80q in it", e.Path)
		}
		if e.Size == 0 || e.Root == (piece.Root{}) {
			continue
		}
		r, err := c.cfg.Store.Reader(e.Root)
		if err != nil {
			return err
		}
		defer r.Close()
		streams[e.Path] = tasklog.Saved{ReaderAt: r, Size: r.Size()}
	}
	return tasklog.CopySaved(ctx, req, at, func(name string) tasklog.Saved { return streams[name] }, f)
}
