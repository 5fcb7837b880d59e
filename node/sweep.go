package node

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// Bounds of what ended tasks leave on this peer's disk.
const (
	sweepEvery    = time.Minute
	sweepPatience = 10 * time.Minute // how long a job has to be unknown here before its files go
	outputBytes   = 16 << 30         // what the files of finished jobs may take together; those that ended first go first
)

// leftover is what is on this disk of one job.
type leftover struct {
	job   taskstate.JobID
	bytes int64
	known bool  // the ledger has it
	pin   bool  // and somebody said that it is to be kept: it goes last
	ended int64 // ledger stamp; 0 while it goes on
}

// sweeper decides whose files go. It is a pure core: what is there, and the time, are its arguments.
type sweeper struct {
	limit   int64
	unknown map[taskstate.JobID]time.Time // since when
}

// step takes what is on the disk now and returns the jobs whose files are to be removed. current tells whether this peer's copy of the
// ledger can be believed when it does not know a job.
func (s *sweeper) step(found []leftover, current bool, now time.Time) (remove []taskstate.JobID) {
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
			if s.unknown[l.job] = since; now.Sub(since) >= sweepPatience {
				remove = append(remove, l.job)
				total -= l.bytes
			}
		}
	}
	slices.SortFunc(over, func(a, b leftover) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.ended, b.ended), cmp.Compare(a.job, b.job))
	})
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

// rank is whose files go first.
func rank(l leftover) int {
	if l.pin {
		return 1
	}
	return 0
}

// sweep removes the files of jobs that the ledger has forgotten, and of finished ones when they take too much room, until ctx ends.
func (n *Node) sweep(ctx context.Context) error {
	s := &sweeper{limit: cmp.Or(n.cfg.KeepOutput, outputBytes)}
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			n.sweepOnce(ctx, s, time.Now())
		}
	}
}

func (n *Node) sweepOnce(ctx context.Context, s *sweeper, now time.Time) {
	current, _ := n.ledger.InSync() // before the look: who is current now knows every job whose folder is there then, or will soon
	n.feeds.forget()
	for _, job := range s.step(n.leftovers(ctx), current, now) {
		if err := n.runner.Clean(job); err != nil {
			n.log.Warn("the files of a job could not be removed", "job", job, "err", err)
		}
	}
}

// leftovers lists what is in the tasks folder. A disk that cannot be read has nothing to remove.
func (n *Node) leftovers(ctx context.Context) (out []leftover) {
	entries, err := os.ReadDir(n.folder.path("tasks"))
	if err != nil {
		n.log.Debug("tasks folder not looked at", "err", err)
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
		l := leftover{job: id, known: n.held.Has(id), bytes: treeBytes(n.folder.path("tasks", e.Name()))}
		n.replica.Read(func(s *ledger.State) {
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

// treeBytes is what the files below a folder take; what was dropped of a service's output takes nothing. What vanishes meanwhile, or cannot be read, counts nothing.
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
