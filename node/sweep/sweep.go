package sweep

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/runner/process"
	"github.com/coveyproject/covey/taskstate"
)

// Bounds of what ended tasks leave on this peer's disk.
const (
	every       = time.Minute
	Patience    = 10 * time.Minute // how long a job has to be unknown here before its files go
	OutputBytes = 16 << 30         // what the files of finished jobs may take together; those that ended first go first
)

// leftover is what is on this disk of one job.
type leftover struct {
	job   taskstate.JobID
	bytes int64
	known bool  // the ledger has it
	pin   bool  // and somebody said that it is to be kept: it goes last
	ended int64 // ledger stamp; 0 while it goes on
}

// Sweeper decides whose files go. It is a pure core: what is there, and the time, are its
// arguments.
type Sweeper struct {
	cfg     Config
	limit   int64
	unknown map[taskstate.JobID]time.Time // since when
}

// step takes what is on the disk now and returns the jobs whose files are to be removed. current
// tells whether this peer's copy of the ledger can be believed when it does not know a job.
func (s *Sweeper) step(found []leftover, current bool, now time.Time) (remove []taskstate.JobID) {
	was := s.unknown
	s.unknown = map[taskstate.JobID]time.Time{}
	var total int64
	var over []leftover
	for _, l := range found {
		total += l.bytes
		switch {
		case l.known && l.ended > 0:
			over = append(over, l)
		case l.known:
		case current:
			since, seen := was[l.job]
			if !seen {
				since = now
			}
			if s.unknown[l.job] = since; now.Sub(since) >= Patience {
				remove = append(remove, l.job)
				total -= l.bytes
			}
		}
	}
	slices.SortFunc(over, inTurn)
	for _, l := range over {
		if total <= s.limit {
			break
		}
		if l.bytes > 0 {
			remove = append(remove, l.job)
			total -= l.bytes
		}
	}
	return remove
}

// inTurn orders jobs by whose files go first.
func inTurn(a, b leftover) int {
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.ended, b.ended), cmp.Compare(a.job, b.job))
}

// rank is 0 for jobs that ended, 1 for those that go on, and more for those that are to be kept.
func rank(l leftover) (n int) {
	if l.ended == 0 {
		n = 1
	}
	if l.pin {
		n += 2
	}
	return n
}

// excess is how much there is beyond the limit.
func (s *Sweeper) excess(found []leftover) int64 {
	over := -s.limit
	for _, l := range found {
		over += l.bytes
	}
	return over
}

// shed removes work folders of tasks whose output is safe, until there is no more than the limit;
// on a full disk, of all that are over, until tasks can be taken again.
func (s *Sweeper) shed(found []leftover) {
	over, done := s.excess(found), s.cfg.Safe
	if s.cfg.Lacks != nil {
		if n := s.cfg.Lacks(); n > 0 {
			over, done = max(over, n), func(id taskstate.TaskID) bool { return s.cfg.Safe(id) || s.cfg.Over(id) }
		}
	}
	if over <= 0 || done == nil {
		return
	}
	slices.SortFunc(found, inTurn)
	for i := range found {
		l := &found[i]
		if !l.known {
			continue
		}
		gone := s.cfg.shed(l.job, over, done)
		l.bytes -= gone
		if over -= gone; over <= 0 {
			return
		}
	}
}

// shed removes work folders of a job's tasks until enough has gone, and returns how much has.
func (cfg *Config) shed(job taskstate.JobID, enough int64, done func(taskstate.TaskID) bool) (gone int64) {
	attempts, err := os.ReadDir(filepath.Join(cfg.Dir, string(job)))
	if err != nil {
		return 0
	}
	for _, a := range attempts {
		var slot, attempt int
		if n, err := fmt.Sscanf(a.Name(), "%d.%d", &slot, &attempt); n != 2 || err != nil || !a.IsDir() {
			continue
		}
		task := taskstate.Task(job, slot, attempt)
		rel, err := task.Folder()
		if err != nil || filepath.Base(rel) != a.Name() || !done(task) {
			continue
		}
		work := filepath.Join(cfg.Dir, filepath.FromSlash(rel), process.WorkName)
		bytes := treeBytes(work)
		if err := process.RemoveTree(work); err != nil {
			cfg.Log.Warn("what a task worked in could not be removed", "task", task, "err", err)
			continue
		}
		if gone += bytes; gone >= enough {
			break
		}
	}
	return gone
}

// Config is what sweeping rests on.
type Config struct {
	Dir     string // the tasks folder, or one like it
	Keep    int64  // bytes that the files of finished jobs may take together; default 16 GiB
	Replica *ledger.Replica
	Current func() bool                // this peer's copy of the ledger can be believed when it does not know a job
	Held    func(taskstate.JobID) bool // the job waits here for a coordinator
	Forget  func()                     // lets go of what else is kept for jobs
	// Safe tells whether a task is settled as complete, and all it was to leave is whole in the
	// store of files, and not nothing: its work folder can go. Optional.
	Safe func(taskstate.TaskID) bool
	// Lacks is how many bytes the disk lacks for this peer to take tasks; Over tells whether a task
	// has ended for good, so that its work folder is kept only while there is room. Optional,
	// together, and with Safe.
	Lacks func() int64
	Over  func(taskstate.TaskID) bool
	Clean func(taskstate.JobID) error
	Log   *slog.Logger
}

// Over tells whether an attempt has ended here, and the ledger waits for nothing of it. One that
// was given up may be being saved, and then still count.
func Over(replica *ledger.Replica, live func(taskstate.TaskID) (<-chan struct{}, int64, bool)) func(taskstate.TaskID) bool {
	return func(id taskstate.TaskID) (over bool) {
		if _, _, runs := live(id); runs {
			return false
		}
		replica.Read(func(s *ledger.State) {
			j, ok := s.Job(id.Job)
			if _, _, _, known := s.Assigned(id); ok && known == taskstate.Retired {
				over = !j.Job().Saves() || j.Slot(id.Slot).Final != nil
			}
		})
		return over
	}
}

// New makes a Sweeper.
func New(cfg Config) *Sweeper { return &Sweeper{cfg: cfg, limit: cmp.Or(cfg.Keep, OutputBytes)} }

// Run removes the files of jobs that the ledger has forgotten, and of finished ones when they take
// too much room, until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			s.Once(ctx, time.Now())
		}
	}
}

// Once looks at what is there, as of now.
func (s *Sweeper) Once(ctx context.Context, now time.Time) {
	current := s.cfg.Current() // before the look: who is current now knows every job whose folder is there then, or will soon
	s.cfg.Forget()
	found := s.cfg.leftovers(ctx)
	s.shed(found)
	for _, job := range s.step(found, current, now) {
		if err := s.cfg.Clean(job); err != nil {
			s.cfg.Log.Warn("the files of a job could not be removed", "job", job, "err", err)
		}
	}
}

// leftovers lists what is in the tasks folder. A disk that cannot be read has nothing to remove.
func (cfg *Config) leftovers(ctx context.Context) (out []leftover) {
	entries, err := os.ReadDir(cfg.Dir)
	if err != nil {
		cfg.Log.Debug("tasks folder not looked at", "err", err)
		return nil
	}
	for _, e := range entries {
		id := taskstate.JobID(e.Name())
		if name, err := id.Folder(); err != nil || name != e.Name() || !e.IsDir() {
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		l := leftover{job: id, known: cfg.Held(id), bytes: treeBytes(filepath.Join(cfg.Dir, e.Name()))}
		cfg.Replica.Read(func(s *ledger.State) {
			if j, ok := s.Job(id); ok {
				l.known, l.pin = true, j.Pinned()
				if at, over := j.Ended(); over {
					l.ended = max(at, 1)
				}
			}
		})
		out = append(out, l)
	}
	return out
}

// treeBytes is what the files below a folder take; what was dropped of a service's output takes
// nothing, and of a file with several names – one of them in the store of files, say – each has its
// part. What vanishes meanwhile, or cannot be read, counts nothing.
func treeBytes(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			sum += min(info.Size(), onDisk(info))
		}
		return nil
	})
	return sum
}
