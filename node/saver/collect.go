package saver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/coveyproject/covey/node/blob/disk"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/node/runner/process"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
)

// What is collected together, so that one sync brings all of it to the disk.
const (
	togetherTasks = 64
	togetherBytes = 64 << 20
	togetherBlobs = 4096
)

var logGlobs = globs([]string{"stdout", "stderr"})

func globs(patterns []string) []tree.Glob {
	out := make([]tree.Glob, 0, len(patterns))
	for _, p := range patterns {
		g, err := tree.ParseGlob(p)
		if err != nil { // it was checked when the job was accepted
			g, _ = tree.ParseGlob("?") // matches little; the task fails, and its message names p
		}
		out = append(out, g)
	}
	return out
}

// collector collects what tasks left, until there are none.
func (s *Saver) collector() {
	for {
		g := &gathering{s: s, store: s.cfg.Store()}
		g.batch = g.store.Batch(true)
		for len(g.of) < togetherTasks && g.bytes < togetherBytes && g.blobs < togetherBlobs {
			t := s.next(len(g.of) == 0)
			if t == nil {
				break
			}
			g.add(t)
		}
		if len(g.of) == 0 {
			g.batch.Close()
			return
		}
		g.settle()
	}
}

// gathering is tasks that are collected together.
type gathering struct {
	s     *Saver
	store *store.Store
	batch *store.Batch
	bytes int64
	blobs int
	of    []*gathered
}

// gathered is one of them.
type gathered struct {
	*task
	collected
	roots []piece.Root // all that belongs to it
}

// tries is how often a task's files are read that change meanwhile, or cannot be opened because too
// many are open: what a process left behind is killed within a second.
const (
	tries      = 4
	tryAgainIn = 700 * time.Millisecond
)

// add collects what a task left.
func (g *gathering) add(t *task) {
	one := &gathered{task: t}
	for try := 1; ; try++ {
		one.collected, one.roots = collected{}, nil
		one.err = g.collect(t.ctx, one)
		if try == tries || !errors.Is(one.err, disk.ErrChanged) && !supervise.Exhausted(one.err) || wait(t.ctx, tryAgainIn) != nil {
			break
		}
	}
	g.of = append(g.of, one)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// collect puts what a task left into the batch.
func (g *gathering) collect(ctx context.Context, one *gathered) error {
	job := one.launch.Job
	if job.Outputs != nil {
		one.unmatched = slices.Clone(job.Outputs.Globs)
	}
	rel, err := one.launch.Task.Folder()
	if err != nil {
		return err
	}
	tasks, err := os.OpenRoot(g.s.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer tasks.Close()
	rel = filepath.FromSlash(rel)
	if i, err := tasks.Lstat(rel); errors.Is(err, fs.ErrNotExist) || err == nil && !i.IsDir() {
		return nil // it left nothing, not even a folder
	}
	home, err := tasks.OpenRoot(rel)
	if err != nil {
		return one.shut("its folder", err)
	}
	defer home.Close()
	before := *one
	if err := g.collectFrom(ctx, home, one); err != nil {
		return err
	}
	mine, err := home.Stat(".")
	if err != nil {
		return err
	}
	if there, err := tasks.Lstat(rel); err != nil || !os.SameFile(mine, there) {
		*one = before // it had left nothing, and its folder was given to another task
	}
	return nil
}

// shut is about a folder that a task has taken the permission from to look into it: that is as if
// a file of it could not be kept.
func (one *gathered) shut(what string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	one.left.Refused = append(one.left.Refused, what+": permission denied")
	return nil
}

func (g *gathering) collectFrom(ctx context.Context, home *os.Root, one *gathered) (err error) {
	if one.saved.Logs, _, one.left, err = g.tree(ctx, home, logGlobs, nil, nil, one, g.copy, said); err != nil {
		return err
	}
	logs := one.left.Refused
	job := one.launch.Job
	if job.Outputs == nil {
		return nil
	}
	work, err := home.OpenRoot(process.WorkName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return one.shut("its folder "+process.WorkName, err)
	}
	defer work.Close()
	outputs := globs(job.Outputs.Globs)
	along, err := disk.FindAlong(ctx, work, outputs, func() *tree.Given { return g.s.given(ctx, one.launch) })
	if err != nil {
		return err
	}
	given := g.s.given(ctx, one.launch)
	if given != nil {
		defer given.Close()
	}
	var totals tree.Totals
	if one.saved.Root, totals, one.left, err = g.tree(ctx, work, outputs, along, given, one, g.take, everything); err != nil {
		return err
	}
	one.left.Refused = slices.Concat(logs, one.left.Refused)
	one.saved.Bytes, one.saved.Files = totals.Bytes, totals.Files
	one.unmatched = nil
	for i, found := range one.left.Found {
		if !found {
			one.unmatched = append(one.unmatched, job.Outputs.Globs[i])
		}
	}
	if len(one.unmatched) > 0 {
		one.there, err = listed(work)
	}
	return err
}

// given is what a task found in its work folder, and what is no output of it unless it has changed;
// nil: nothing. Where that is not known any more, all is taken for its output.
func (s *Saver) given(ctx context.Context, l taskstate.Launch) *tree.Given {
	var placed []tree.Placed
	if s.cfg.Inputs != nil && len(l.Job.Inputs) > 0 {
		var err error
		if placed, err = s.cfg.Inputs(ctx, l); err != nil {
			s.cfg.Log.Warn("what a task was given is not known any more, and is kept with its output", "task", l.Task, "err", err)
		}
	}
	if p := l.Job.Run.Process; p != nil && len(p.Script) > 0 {
		script := tree.Entry{Kind: tree.File, Size: int64(len(p.Script)), Root: piece.Sum(p.Script)}
		placed = append(placed, tree.Placed{Name: p.ScriptFile(), File: script})
	}
	if len(placed) == 0 {
		return nil
	}
	return tree.NewGiven(placed)
}

// said tells of output whether there is any.
func said(e tree.Entry) bool { return e.Size > 0 }

func everything(tree.Entry) bool { return true }

// tree puts what matches in a folder into the batch, and the list of it, but for entries that do
// not count. The root is zero if there is nothing.
func (g *gathering) tree(ctx context.Context, root *os.Root, globs []tree.Glob, along *disk.Along, given *tree.Given, one *gathered, keep disk.Keep, counts func(tree.Entry) bool) (_ piece.Root, totals tree.Totals, left disk.Collected, err error) {
	var w *treeWriter
	left, err = disk.Collect(ctx, root, globs, along, given, keep, func(e tree.Entry) error {
		if !counts(e) {
			return nil
		}
		if w == nil {
			w = g.newTree(ctx)
		}
		if e.Kind == tree.File {
			one.roots = append(one.roots, e.Root)
		}
		return w.Add(e)
	})
	if w == nil {
		return piece.Root{}, totals, left, err
	}
	if err == nil {
		totals, err = w.Close()
	}
	list, added := w.end(err)
	if err = errors.Join(err, added); err != nil {
		return piece.Root{}, tree.Totals{}, left, err
	}
	one.roots = append(one.roots, list)
	return list, totals, left, nil
}

// take takes a file that nobody writes any more.
func (g *gathering) take(ctx context.Context, _ tree.Entry, content io.Reader) (piece.Root, int64, error) {
	return g.file(ctx, content, g.batch.Take)
}

// copy takes what may be cut off yet: a process that left its group may have written output after
// the end.
func (g *gathering) copy(ctx context.Context, _ tree.Entry, content io.Reader) (piece.Root, int64, error) {
	return g.file(ctx, content, g.batch.AddFile)
}

func (g *gathering) file(ctx context.Context, content io.Reader, into func(context.Context, *os.File) (piece.Root, int64, error)) (piece.Root, int64, error) {
	f, ok := content.(*os.File)
	if !ok {
		return piece.Root{}, 0, errors.New("it is no file")
	}
	root, n, err := into(ctx, f)
	g.bytes += n
	g.blobs++
	return root, n, err
}

// treeWriter writes a tree into the batch while it comes to be.
type treeWriter struct {
	*tree.Writer
	pipe *io.PipeWriter
	done chan struct{}
	root piece.Root
	err  error
}

func (g *gathering) newTree(ctx context.Context) *treeWriter {
	r, w := io.Pipe()
	t := &treeWriter{pipe: w, done: make(chan struct{})}
	go func() { // ends with end
		defer close(t.done)
		t.root, _, t.err = g.batch.Add(ctx, r, -1)
		_ = r.CloseWithError(errors.Join(t.err, io.ErrClosedPipe))
	}()
	t.Writer = tree.NewWriter(w)
	return t
}

// end waits until it is in the batch; with an error it does not get there.
func (t *treeWriter) end(why error) (piece.Root, error) {
	_ = t.pipe.CloseWithError(why)
	<-t.done
	if why != nil {
		return piece.Root{}, nil
	}
	return t.root, t.err
}

// listed is some of what is in a folder, for people.
func listed(root *os.Root) (names []string, err error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const most = 1000
	entries, err := f.ReadDir(most)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		if len(name) > 80 {
			name = name[:80] + "…"
		}
		name = shown(name)
		if e.IsDir() {
			name += "/"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// fits is why what a task left cannot be kept, now that it is known what it takes: one task does
// not fill a store, nor keep a key's tasks above what the machine's owner lets them have.
func (g *gathering) fits(one *gathered) error {
	if may := g.s.cfg.MayKeep; may != nil && one.saved.Bytes > 0 {
		if err := may(one.launch.Job, one.saved.Bytes); err != nil {
			return err
		}
	}
	_, quota := g.store.Taken()
	if cost := g.store.Cost(one.roots); quota > 0 && cost > quota {
		return fmt.Errorf("they take %s, and all of this peer's store has %s: give it more with `peer up --store SIZE`", spell.Bytes(cost), spell.Bytes(quota))
	}
	return nil
}

// settle makes what was gathered safe, and goes on with each task.
func (g *gathering) settle() {
	var pins []store.Pin
	err := g.batch.Done()
	for _, one := range g.of {
		if err == nil && one.err == nil {
			one.err = g.fits(one)
		}
		if err == nil && one.err == nil && len(one.roots) > 0 {
			pins = append(pins, store.Pin{Name: keep.PinName(one.launch.Task), Why: "left by " + one.launch.Task.String(), Roots: one.roots})
		}
	}
	if err == nil {
		err = g.store.PinAll(pins...)
	}
	g.batch.Close()
	for _, one := range g.of {
		if one.err == nil && err != nil {
			one.err = fmt.Errorf("bring them to the disk: %w", err)
		}
		if one.err != nil {
			one.saved = taskstate.Saved{} // nothing of it is pinned
		}
		g.s.safe(one.task, one.collected)
	}
}
