package worker

import (
	"slices"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/taskstate"
)

// frames owns the accepted sets of assignments, from when they are granted on. Only the core calls
// it.
type frames struct {
	of     map[uint64]*ownFrame
	newest uint64      // number
	fresh  []*ownFrame // granted, not yet in a transaction
	saving []*ownFrame // in the transaction under way
}

// add numbers a frame and sends it on its way into the journal.
func (fs *frames) add(f *ownFrame) {
	fs.newest++
	f.record.Number = fs.newest
	fs.of[fs.newest] = f
	fs.fresh = append(fs.fresh, f)
}

// write adds the frames that are new, with their job bodies, to a transaction.
func (fs *frames) write(t *journal.Txn) {
	for _, f := range fs.fresh {
		t.Frames = append(t.Frames, f.record)
		for _, j := range f.jobs {
			if !j.onDisk || j.renewed {
				j.onDisk, j.renewed = true, false
				t.Jobs = append(t.Jobs, j.job)
			}
		}
	}
	fs.saving, fs.fresh = fs.fresh, nil
}

// saved hands out the tasks of the frames that are on disk now.
func (fs *frames) saved() (tasks []*ownTask) {
	for _, f := range fs.saving {
		tasks = append(tasks, f.tasks...)
		f.tasks = nil
	}
	fs.saving = nil
	return tasks
}

// tidyList owns what may leave the journal because it was acknowledged. It goes with whatever is
// written next: losing it costs a repetition, nothing else. Only the core calls it.
type tidyList struct {
	frames map[uint64]*ownFrame // with positions to note as done, or wholly done
	signed []uint64
	live   map[taskstate.TaskID]*taskstate.Status // to note, nil: to remove
	tombs  []uint64
	bodies int // of jobs, at most, that only frames needed that are wholly done
}

func (l *tidyList) size() int { return len(l.frames) + len(l.signed) + len(l.live) + l.bodies }

// note has the journal remember the newest status of a task that goes on, or forget it (nil).
func (l *tidyList) note(id taskstate.TaskID, s *taskstate.Status) {
	if l.live == nil {
		l.live = map[taskstate.TaskID]*taskstate.Status{}
	}
	l.live[id] = s
}

// done has the journal note that a task of a frame is acknowledged.
func (l *tidyList) done(h *ownTask) {
	f := h.frame
	if f.left--; f.left == 0 {
		l.bodies += len(f.jobs)
	}
	f.done = append(f.done, h.pos)
	if l.frames == nil {
		l.frames = map[uint64]*ownFrame{}
	}
	l.frames[f.record.Number] = f
}

// write adds to a transaction what may go. Bodies that only a frame needed that is done leave the
// disk; memory keeps them for the session.
func (l *tidyList) write(t *journal.Txn, acked uint64) {
	t.GoneSigned, t.GoneTombs = l.signed, l.tombs
	for _, f := range l.frames {
		if f.left > 0 {
			t.Done = append(t.Done, journal.Done{Frame: f.record.Number, Runs: runsOf(f.done)})
			f.acks = append(f.acks, acked)
			f.done = nil
			continue
		}
		t.GoneFrames = append(t.GoneFrames, journal.GoneFrame{Number: f.record.Number, Acks: f.acks})
		for _, j := range f.jobs {
			if j.frames == 0 && j.onDisk {
				j.onDisk = false
				t.GoneJobs = append(t.GoneJobs, session.BodyOf(j.job))
			}
		}
	}
	for id, s := range l.live {
		if s == nil {
			t.GoneLive = append(t.GoneLive, id)
			continue
		}
		t.Live = append(t.Live, *s)
	}
	*l = tidyList{}
}

// runsOf packs positions into pairs of first and count.
func runsOf(positions []uint32) []uint32 {
	slices.Sort(positions)
	var runs []uint32
	for _, p := range positions {
		if n := len(runs); n > 0 && runs[n-2]+runs[n-1] == p {
			runs[n-1]++
			continue
		}
		runs = append(runs, p, 1)
	}
	return runs
}
