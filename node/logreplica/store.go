package logreplica

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/node/tasklog"
	"github.com/coveyproject/covey/taskstate"
)

// Folder is where copies are, in the data folder: JOB/SLOT.ATTEMPT/stdout and stderr, or an empty
// file in place of the folder of a task that printed nothing.
const Folder = "log-replicas"

const (
	block     = 4 << 10 // what a file takes at least
	partBegin = ".part-"
)

// Budget is how many bytes copies may take together.
type Budget int64

// fits reports whether n bytes more of a job have room, of which and of all so much is here.
func (b Budget) fits(ofJob, all, n int64, kind admission) bool {
	job, total := int64(b)/10, int64(b)
	switch kind {
	case ordinary:
		job, total = job/2, total/2
	case handedOver:
		job = total
	}
	return ofJob+n <= job && all+n <= total
}

// admission is what decides how much of a Budget output may use.
type admission int

const (
	ordinary   admission = iota
	preferred            // it is small, or of a task that failed
	handedOver           // its last keeper is about to go
)

// smallOutput is what is preferred: it travels with a request.
const smallOutput = 16 << 10

func admissionOf(p *keep.Printed, leaving bool) admission {
	switch {
	case leaving:
		return handedOver
	case p.Failed || p.Bytes() <= smallOutput:
		return preferred
	}
	return ordinary
}

// cost is what output takes on a disk.
func cost(p *keep.Printed) int64 {
	return (p.Out+block-1)/block*block + (p.Err+block-1)/block*block
}

// Store is the copies on this peer's disk. It may be used by several at once.
type Store struct {
	Dir    string
	budget Budget

	mu   sync.Mutex
	of   map[taskstate.JobID]int64
	all  int64
	busy map[taskstate.TaskID]bool // being written
}

// OpenStore counts what is in a folder, which need not exist.
func OpenStore(dir string, budget Budget) *Store {
	s := &Store{Dir: dir, budget: budget, of: map[taskstate.JobID]int64{}, busy: map[taskstate.TaskID]bool{}}
	for task, p := range outputsBelow(dir) {
		n := cost(&p)
		s.of[task.Job] += n
		s.all += n
	}
	parts, _ := filepath.Glob(filepath.Join(dir, "*", partBegin+"*"))
	for _, path := range parts { // of a start that ended in the middle of it
		_ = os.RemoveAll(path)
	}
	return s
}

// outputsBelow finds the output of tasks below a folder. What cannot be read is not there.
func outputsBelow(dir string) map[taskstate.TaskID]keep.Printed {
	out := map[taskstate.TaskID]keep.Printed{}
	for _, job := range names(dir) {
		if name, err := taskstate.JobID(job).Folder(); err != nil || name != job {
			continue
		}
		for _, name := range names(filepath.Join(dir, job)) {
			var slot, attempt int
			if n, err := fmt.Sscanf(name, "%d.%d", &slot, &attempt); n != 2 || err != nil {
				continue
			}
			task := taskstate.Task(taskstate.JobID(job), slot, attempt)
			if rel, err := task.Folder(); err == nil && filepath.Base(rel) == name {
				out[task], _ = printedIn(dir, task)
			}
		}
	}
	return out
}

func names(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	list, _ := d.Readdirnames(-1)
	return list
}

// printedIn is how much a task's folder has of its output; false: there is no such folder, nor a
// file in its place.
func printedIn(dir string, task taskstate.TaskID) (p keep.Printed, ok bool) {
	p = keep.Printed{Slot: task.Slot, Attempt: task.Attempt}
	rel, err := task.Folder()
	if err != nil {
		return p, false
	}
	home := filepath.Join(dir, rel)
	for stream, n := range map[string]*int64{tasklog.Stdout: &p.Out, tasklog.Stderr: &p.Err} {
		switch i, err := os.Lstat(filepath.Join(home, stream)); {
		case err == nil && i.Mode().IsRegular():
			*n, ok = i.Size(), true
		case err == nil:
			ok = true // a task put something else there, which cannot be read
		}
	}
	if !ok {
		_, err := os.Lstat(home)
		ok = err == nil
	}
	return p, ok
}

// Has reports whether all of a task's output is here.
func (s *Store) Has(task taskstate.TaskID, p *keep.Printed) bool {
	have, ok := printedIn(s.Dir, task)
	return ok && have.Out == p.Out && have.Err == p.Err
}

var (
	errNoRoom  = errors.New("there is no room for more copies of what its tasks print")
	errWritten = errors.New("it is being copied at this moment")
)

// Keep makes a copy. read gives the bytes of each stream that has some. leaving: the peer that has
// it is about to go.
func (s *Store) Keep(task taskstate.TaskID, p *keep.Printed, leaving bool, read func(stream string, to *os.File) error) (err error) {
	n := cost(p)
	if err := s.reserve(task, n, admissionOf(p, leaving)); err != nil {
		return err
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, task)
		if err != nil {
			s.of[task.Job] -= n
			s.all -= n
		}
	}()
	rel, err := task.Folder()
	if err != nil {
		return err
	}
	home := filepath.Join(s.Dir, rel)
	if err := os.MkdirAll(filepath.Dir(home), 0o700); err != nil {
		return err
	}
	part := filepath.Join(filepath.Dir(home), partBegin+filepath.Base(home))
	_ = os.RemoveAll(part)
	if err := s.write(part, p, read); err != nil {
		_ = os.RemoveAll(part)
		return err
	}
	return s.replace(task, home, part)
}

func (s *Store) write(part string, p *keep.Printed, read func(stream string, to *os.File) error) error {
	if p.Bytes() == 0 {
		return os.WriteFile(part, nil, 0o600)
	}
	if err := os.Mkdir(part, 0o700); err != nil {
		return err
	}
	for stream, n := range map[string]int64{tasklog.Stdout: p.Out, tasklog.Stderr: p.Err} {
		if n == 0 {
			continue
		}
		f, err := os.OpenFile(filepath.Join(part, stream), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		err = read(stream, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// replace puts a new copy in the place of what was there, which had another size.
func (s *Store) replace(task taskstate.TaskID, home, part string) error {
	if was, ok := printedIn(s.Dir, task); ok {
		if err := os.RemoveAll(home); err != nil {
			return err
		}
		s.mu.Lock()
		s.of[task.Job] -= cost(&was)
		s.all -= cost(&was)
		s.mu.Unlock()
	}
	return os.Rename(part, home)
}

// reserve counts a copy in before it is written.
func (s *Store) reserve(task taskstate.TaskID, n int64, kind admission) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.busy[task]:
		return errWritten
	case !s.budget.fits(s.of[task.Job], s.all, n, kind):
		return errNoRoom
	}
	s.busy[task] = true
	s.of[task.Job] += n
	s.all += n
	return nil
}

// Flush brings a copy to the disk.
func (s *Store) Flush(task taskstate.TaskID) error {
	rel, err := task.Folder()
	if err != nil {
		return err
	}
	home := filepath.Join(s.Dir, rel)
	for _, name := range []string{tasklog.Stdout, tasklog.Stderr} {
		f, err := os.Open(filepath.Join(home, name))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		if err != nil {
			return err
		}
		if err := errors.Join(atomicfile.FlushData(f), f.Close()); err != nil {
			return err
		}
	}
	if i, err := os.Lstat(home); err == nil && i.IsDir() {
		if err := atomicfile.FlushDir(home); err != nil {
			return err
		}
	}
	return atomicfile.FlushDir(filepath.Dir(home))
}

// Remove removes the copies of a job.
func (s *Store) Remove(job taskstate.JobID) error {
	name, err := job.Folder()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(s.Dir, name)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all -= s.of[job]
	delete(s.of, job)
	return nil
}
