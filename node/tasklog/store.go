package tasklog

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// How long to wait before looking for new bytes: the first is doubled up to the second while
// nothing comes.
const (
	lookSoon = 5 * time.Millisecond
	lookLate = 50 * time.Millisecond
)

// Store reads the output of this peer's tasks. It only reads, keeps nothing open between calls and
// may be used by many at once.
type Store struct {
	dir     string
	copies  string
	live    func(taskstate.TaskID) (<-chan struct{}, int64, bool)
	started <-chan struct{}
}

// Config is what a Store needs.
type Config struct {
	Dir    string // the tasks folder, as of the runner
	Copies string // the same of output of tasks that ran elsewhere (package logreplica); optional
	// Live is Runner.Live: what is beyond limit is not shown while a task runs, because it may be
	// cut away; 0: nothing will be.
	Live func(taskstate.TaskID) (over <-chan struct{}, limit int64, running bool)
	// Started is closed when Live can be believed: until then, tasks that an earlier life of this
	// peer left running are not known to run. nil: at once.
	Started <-chan struct{}
}

// NewStore makes a store over the runner's folder.
func NewStore(cfg Config) *Store {
	if cfg.Started == nil {
		now := make(chan struct{})
		close(now)
		cfg.Started = now
	}
	return &Store{dir: cfg.Dir, copies: cfg.Copies, live: cfg.Live, started: cfg.Started}
}

// Copy gives f the output asked for, in chunks, until its end – with Follow, the end of the task.
// An error of f ends it and is returned. A task this peer knows nothing of is an *Error with
// CodeNotFound.
func (s *Store) Copy(ctx context.Context, req Request, f func(Chunk) error) error {
	if err := req.Validate(); err != nil {
		return &Error{Code: CodeBad, Message: err.Error()}
	}
	c, err := s.begin(req)
	if err != nil {
		return err
	}
	defer c.close()
	return c.run(ctx, f)
}

func (s *Store) begin(req Request) (*cursor, error) {
	rel, err := req.Task.Folder()
	if err != nil {
		return nil, &Error{Code: CodeBad, Message: err.Error()}
	}
	select {
	case <-s.started:
	default:
		if req.Follow { // it might end before the task has
			return nil, &Error{Code: CodeBusy, Message: "this peer is starting; ask again"}
		}
	}
	c := &cursor{req: req, dir: s.dir, rel: rel}
	// First who is alive, then what is there: a task that ends in between has left everything
	// behind. One that begins in between has a folder and more to say, so it is asked again.
	c.over, c.limit, c.live = s.live(req.Task)
	_, err = os.Lstat(filepath.Join(s.dir, rel))
	switch {
	case c.live:
	case err == nil:
		c.over, c.limit, c.live = s.live(req.Task)
	case errors.Is(err, fs.ErrNotExist) && s.copied(rel):
		c.dir = s.copies
	case errors.Is(err, fs.ErrNotExist):
		return nil, &Error{Code: CodeNotFound, Message: "no output of task " + req.Task.String() + " is kept on this peer"}
	default:
		return nil, &Error{Code: CodeFailed, Message: err.Error()}
	}
	for _, p := range req.Parts {
		c.parts = append(c.parts, &part{stream: p.Stream, at: p.Offset})
	}
	return c, nil
}

// copied reports whether there is a copy of what a task printed elsewhere.
func (s *Store) copied(rel string) bool {
	if s.copies == "" {
		return false
	}
	_, err := os.Lstat(filepath.Join(s.copies, rel))
	return err == nil
}
