package stager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path"

	"github.com/coveyproject/covey/node/blob"
	"github.com/coveyproject/covey/node/blob/disk"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/taskstate"
)

// Place puts the inputs of a task into its work folder. What turns out to be damaged on this disk
// is brought again, once. It calls say from time to time with how far it is.
func (s *Stager) Place(ctx context.Context, l taskstate.Launch, work string, say func(string)) error {
	root, err := os.OpenRoot(work)
	if err != nil {
		return err
	}
	defer root.Close()
	err = s.placeAll(ctx, root, l, say)
	var rot *store.Rot
	if errors.As(err, &rot) || errors.Is(err, store.ErrAbsent) || errors.Is(err, errForgotten) {
		if err = s.bring(ctx, l.Job, say); err == nil {
			err = s.placeAll(ctx, root, l, say)
		}
	}
	return err
}

func (s *Stager) placeAll(ctx context.Context, root *os.Root, l taskstate.Launch, say func(string)) error {
	progress := progressOf("placing", say)
	inputs, err := s.inputs(ctx, l.Job)
	if err != nil {
		return err
	}
	inputs = of(inputs, l.Task.Slot)
	var done, all int64
	for _, in := range inputs {
		all += in.Bytes
	}
	add := func(n int64) {
		done += n
		progress(done, all)
	}
	for _, in := range inputs {
		if err := s.place(ctx, root, in, add); err != nil {
			return fmt.Errorf("input %q: %w", in.Name, err)
		}
	}
	return nil
}

func (s *Stager) place(ctx context.Context, root *os.Root, in input, progress func(int64)) (err error) {
	ref := in.ref
	o := disk.WriteOptions{NoSync: true, Open: s.open, Progress: progress}
	if !in.Writable {
		o.ReadOnly = true
		if !s.cfg.Copies {
			o.Link = s.copies.link
		}
	}
	dir, entries := in.Name, blob.Entries(s.cfg.Store, ref.Root, &tree.Totals{})
	if !ref.Dir {
		dir = path.Dir(in.Name)
		entries = one(tree.Entry{Path: path.Base(in.Name), Kind: tree.File, Exec: in.Exec, Size: s.cfg.Store.Have(ref.Root).Size, Root: ref.Root})
	}
	if dir != "." {
		if err := root.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		if root, err = root.OpenRoot(dir); err != nil {
			return err
		}
		defer root.Close()
	}
	_, err = disk.Write(ctx, root, entries, o)
	return err
}

// Placed is what Place put into the work folder of a task.
func (s *Stager) Placed(ctx context.Context, l taskstate.Launch) (out []tree.Placed, err error) {
	inputs, err := s.inputs(ctx, l.Job)
	if err != nil {
		return nil, err
	}
	for _, in := range of(inputs, l.Task.Slot) {
		p := tree.Placed{Name: in.Name}
		if in.ref.Dir {
			p.Entries = blob.Entries(s.cfg.Store, in.ref.Root, &tree.Totals{})
		} else {
			p.File = tree.Entry{Kind: tree.File, Size: s.cfg.Store.Have(in.ref.Root).Size, Root: in.ref.Root}
		}
		out = append(out, p)
	}
	return out, nil
}

func one(e tree.Entry) iter.Seq2[tree.Entry, error] {
	return func(yield func(tree.Entry, error) bool) { yield(e, nil) }
}

// open reads a file from the store.
func (s *Stager) open(_ context.Context, e tree.Entry) (io.ReadCloser, error) {
	r, err := s.cfg.Store.Reader(e.Root)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(r, 0, r.Size()), closer{r}}, nil
}

type closer struct{ r *store.Reader }

func (c closer) Close() error {
	c.r.Close()
	return nil
}
