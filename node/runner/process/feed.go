package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

// How many pieces of a stdin wait on disk for the task to read them: with the largest that Stdin
// gives, a MiB or so. More are not asked for.
const maxPieces = 16

// How long to wait before looking whether a piece was read: the first is doubled up to the second.
const (
	pieceSoon = time.Millisecond
	pieceLate = 20 * time.Millisecond
)

// feed is a task's stdin on its way from Config.Stdin to the supervisor, which keeps what was put
// and feeds the task. A nil one is none.
type feed struct {
	dir    string
	ctx    context.Context
	cancel context.CancelFunc
	once   sync.Once
	at     int64    // end of what was put
	whole  bool     // so was its end
	there  []string // pieces that were not seen to be read
}

func (r *Executor) newFeed(home string) *feed {
	f := &feed{dir: filepath.Join(home, supervise.InputFolder)}
	f.ctx, f.cancel = context.WithCancel(r.life)
	return f
}

// startFed begins a task as soon as it is certain that its stdin is to be had from its beginning:
// an earlier attempt may have read what nobody has kept.
func (r *Executor) startFed(t *task, s supervise.Spec) {
	f := r.newFeed(s.Home)
	t.mu.Lock()
	t.feed = f
	if t.stop != "" {
		f.cancel()
	}
	t.mu.Unlock()
	begun := false
	r.feeds.Go(func() {
		err := r.cfg.Stdin.Copy(f.ctx, t.launch, 0, func() { begun = true; r.begin(t, s) }, f.put)
		if begun {
			r.fed(t, err)
			return
		}
		r.unfed(t, s.Home, err)
	})
}

// unfed ends a task that has not begun.
func (r *Executor) unfed(t *task, home string, err error) {
	stop := t.stopped()
	if stop == "" && r.life.Err() != nil {
		return // it is as if it had never been here
	}
	t.feed.end()
	emptyOutput(home)
	switch {
	case stop != "":
		r.finish(t, stoppedBefore(stop))
	case err == nil:
		r.finish(t, rejected(reject(taskstate.ReasonStdin, "its stdin ended before it began")))
	default:
		r.finish(t, rejected(reject(taskstate.ReasonStdin, "%v", err)))
	}
}

// fed is called when there is no more for a task that runs. Without an end of its stdin it would
// wait for ever, with one it would do something else than was asked: so it is stopped.
func (r *Executor) fed(t *task, err error) {
	if err == nil || t.feed.ctx.Err() != nil {
		return
	}
	t.mu.Lock()
	t.starved = "stopped: " + err.Error()
	t.mu.Unlock()
	r.halt(t, taskstate.Reason(supervise.ReasonInput))
}

// feedOn goes on where an earlier life of this peer stopped feeding a task that runs. Called with
// r.mu held.
func (r *Executor) feedOn(t *task) {
	rel, err := t.launch.Task.Folder()
	if !t.launch.Job.Stdin || err != nil {
		return
	}
	f := r.newFeed(filepath.Join(r.cfg.Dir, rel))
	t.feed = f
	r.feeds.Go(func() {
		err := f.resume()
		switch {
		case err != nil:
			err = fmt.Errorf("what it had of its stdin is not there any more: %w", err)
		case f.whole:
		case r.cfg.Stdin == nil:
			err = errors.New("this peer passes no stdin on")
		default:
			err = r.cfg.Stdin.Copy(f.ctx, t.launch, f.at, func() {}, f.put)
		}
		r.fed(t, err)
	})
}

// resume finds out how far an earlier life had come.
func (f *feed) resume() error {
	all, err := os.ReadDir(f.dir) // sorted by name, and so by offset
	for _, e := range all {
		at, err := strconv.ParseInt(e.Name(), 10, 64)
		info, serr := e.Info()
		if err != nil || e.Name() != supervise.InputPiece(at) || errors.Is(serr, fs.ErrNotExist) {
			continue // one that was not put yet, or that was read meanwhile
		}
		if serr != nil {
			return serr
		}
		f.there = append(f.there, filepath.Join(f.dir, e.Name()))
		f.at, f.whole = at+info.Size(), info.Size() == 0
	}
	return err
}

// put gives the supervisor the next piece, or the end, as soon as not too many wait there.
func (f *feed) put(b []byte) error {
	if err := f.room(); err != nil {
		return err
	}
	fresh := filepath.Join(f.dir, "fresh")
	name := filepath.Join(f.dir, supervise.InputPiece(f.at))
	if err := os.WriteFile(fresh, b, 0o600); err != nil {
		return fmt.Errorf("its stdin could not be kept on its peer's disk: %w", err)
	}
	if err := os.Rename(fresh, name); err != nil {
		return err
	}
	f.there = append(f.there, name)
	f.at, f.whole = f.at+int64(len(b)), len(b) == 0
	return nil
}

// room waits until a piece was read, if many are there.
func (f *feed) room() error {
	for wait := pieceSoon; len(f.there) >= maxPieces; wait = min(2*wait, pieceLate) {
		if _, err := os.Lstat(f.there[0]); errors.Is(err, fs.ErrNotExist) {
			f.there = f.there[1:]
			wait = pieceSoon
			continue
		}
		if err := pause.For(f.ctx, wait); err != nil {
			return err
		}
	}
	return f.ctx.Err()
}

// end is called when the task has ended: what it did not read is of no use. A piece that is put at
// this moment has no folder any more.
func (f *feed) end() {
	if f != nil {
		f.once.Do(func() {
			f.cancel()
			_ = os.RemoveAll(f.dir)
		})
	}
}
