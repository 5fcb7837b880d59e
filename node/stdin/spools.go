package stdin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// giveWithin is how long after its submission a job's stdin has to begin: the peer that submitted
// it may have been killed.
const giveWithin = time.Minute

// Spools are the stdins of the jobs that were submitted through this peer.
type Spools struct {
	dir  string // of all tasks
	keep int64

	mu   sync.Mutex
	open map[taskstate.JobID]*opened
}

// opened is a stdin that is not, or not yet, a file with all of it.
type opened struct {
	*Spool
	given bool // somebody gives it
	alone *time.Timer
}

// Open looks after the stdins in a tasks folder.
func Open(dir string) *Spools {
	return &Spools{dir: dir, keep: Keep, open: map[taskstate.JobID]*opened{}}
}

func (s *Spools) path(job taskstate.JobID, name string) (string, error) {
	folder, err := job.Folder()
	return filepath.Join(s.dir, folder, name), err
}

// Expect makes room for the stdin of a job that is about to be submitted. Forget takes that back.
func (s *Spools) Expect(job taskstate.JobID) error {
	part, err := s.path(job, partName)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(part), 0o700); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, again := s.open[job]; again {
		return nil
	}
	if whole, _ := s.path(job, wholeName); exists(whole) { // submitted again: the answer was lost
		return nil
	}
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	o := &opened{Spool: newSpool(f, s.keep)}
	o.alone = time.AfterFunc(giveWithin, func() { o.End(errors.New("nobody gave it")) })
	s.open[job] = o
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Give reads a job's stdin to its end, as fast as the task takes it. It returns when the task
// cannot use any more, too, and with an error if that is not all.
func (s *Spools) Give(ctx context.Context, job taskstate.JobID, from io.Reader) error {
	s.mu.Lock()
	o := s.open[job]
	if o == nil || o.given {
		s.mu.Unlock()
		return &Error{Code: CodeNone, Message: fmt.Sprintf("job %s waits for no stdin", job)}
	}
	o.given = true
	o.alone.Stop()
	s.mu.Unlock()
	err := o.fill(ctx, from)
	o.End(err)
	if err != nil {
		return err
	}
	return s.settle(job, o)
}

// fill reads until the end.
func (o *opened) fill(ctx context.Context, from io.Reader) error {
	buf := make([]byte, MaxPiece)
	for {
		n, err := from.Read(buf)
		if werr := o.Write(ctx, buf[:n]); werr != nil {
			return werr
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("the command that read it ended: %w", err)
		}
	}
}

// settle keeps what is whole in a file of its own, which outlives this process.
func (s *Spools) settle(job taskstate.JobID, o *opened) error {
	if !o.all() {
		return nil
	}
	part, _ := s.path(job, partName)
	whole, err := s.path(job, wholeName)
	if err == nil {
		err = errors.Join(o.f.Sync(), os.Rename(part, whole))
	}
	if err != nil {
		return nil //nolint:nilerr // it is there as long as this process
	}
	s.mu.Lock()
	delete(s.open, job) // who reads goes on, and the file is closed when nobody has it any more; who comes finds it by its name
	s.mu.Unlock()
	return nil
}

// find is the stdin of a job. done is called when it is not used any more.
func (s *Spools) find(job taskstate.JobID) (sp *Spool, done func(), err error) {
	s.mu.Lock()
	o := s.open[job]
	s.mu.Unlock()
	if o != nil {
		return o.Spool, func() {}, nil
	}
	whole, err := s.path(job, wholeName)
	if err != nil {
		return nil, nil, &Error{Code: CodeBad, Message: err.Error()}
	}
	f, err := os.Open(whole)
	if err == nil {
		var st fs.FileInfo
		if st, err = f.Stat(); err == nil {
			sp := newSpool(f, max(s.keep, st.Size()))
			sp.total, sp.ended = st.Size(), true
			return sp, func() { _ = f.Close() }, nil
		}
		_ = f.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		if part, _ := s.path(job, partName); exists(part) {
			return nil, nil, &Error{Code: CodeBroken, Message: "the peer that read its stdin was restarted before that was whole"}
		}
		return nil, nil, &Error{Code: CodeNone, Message: "its stdin is not kept any more on the peer it was submitted to"}
	}
	return nil, nil, &Error{Code: CodeBroken, Message: "its stdin could not be read from the disk it was kept on: " + err.Error()}
}

// Forget lets go of the stdins of jobs that are over.
func (s *Spools) Forget(over func(taskstate.JobID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for job, o := range s.open {
		if over(job) {
			o.alone.Stop()
			o.End(errors.New("its job is over"))
			_ = o.f.Close()
			delete(s.open, job)
			if part, err := s.path(job, partName); err == nil {
				_ = os.Remove(part) // if it stays, it goes with the job's folder
			}
		}
	}
}
