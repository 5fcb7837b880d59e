package sim

import (
	"time"

	"github.com/coveyproject/covey/dispatch/worker"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/taskstate"
)

// left is what a process that has ended left in its task's folder: nothing but a lost disk takes it
// away.
type left struct {
	root  piece.Root
	bytes int64
	files int // 0: nothing that its job's globs match
}

// saving is a task whose process has ended and whose files are being kept, as node/saver has it in
// its memory. What the search for copies needs is in files_keep.go.
type saving struct {
	l       *life
	launch  taskstate.Launch
	end     taskstate.RunReport // of its process
	saved   *taskstate.Saved    // collected: safe on this disk
	stopped bool
	since   time.Duration
	search  search
}

// leaves puts what a process left into its folder. How much it is follows from the slot, so that
// every attempt leaves as much; what it is does not.
func (p *peer) leaves(id taskstate.TaskID, job *taskstate.Job) {
	f := &left{root: piece.Sum([]byte(id.String())), bytes: int64(1+(id.Slot*7+int(p.w.cfg.Seed))%40) << 20, files: 1 + id.Slot%3}
	if job.Outputs == nil || id.Slot%9 == 5 {
		f.files = 0
	}
	p.left[id] = f
}

// ended is what the runner says of the end of a process: the end of its task, or the beginning of
// its being saved.
func (l *life) ended(launch taskstate.Launch, rep taskstate.RunReport) {
	if !launch.Job.Saves() || rep.State == taskstate.Shutdown || rep.State == taskstate.Orphaned {
		l.ran(rep)
		return
	}
	if l.w.cfg.Break != BreakSilentSave {
		told := rep
		told.State = taskstate.Saving
		l.ran(told)
	}
	l.save(launch, rep)
}

// endOf is the end of a process as the journal of a worker has it that was told that its task is
// being saved.
func endOf(told taskstate.RunReport) taskstate.RunReport {
	if told.State = taskstate.Failed; told.Reason == taskstate.ReasonNone && told.Exit == 0 {
		told.State = taskstate.Complete
	}
	return told
}

// save begins to keep what a task left.
func (l *life) save(launch taskstate.Launch, end taskstate.RunReport) {
	s := &saving{l: l, launch: launch, end: end, since: l.w.now()}
	if l.saving[launch.Task] != nil {
		l.w.fail("bug", "%s saves %s twice at once", l.p.id, launch.Task)
	}
	l.saving[launch.Task] = s
	l.w.stats.Saved++
	most := 200
	if l.p.slowDisk > 0 {
		most = 8000
	}
	l.after(l.w.ms(0, most), s.collect)
}

// is tells whether the task is still being saved.
func (s *saving) is() bool { return s.l.saving[s.launch.Task] == s }

// collect brings what matches into the store, and settles what becomes of the task.
func (s *saving) collect() {
	if !s.is() {
		return
	}
	w, p, job := s.l.w, s.l.p, s.launch.Job
	f := p.left[s.launch.Task]
	if f == nil {
		w.fail("bug", "%s saves %s, of which it has nothing", p.id, s.launch.Task)
		return
	}
	rep := s.end
	if p.output(s.launch.Task, &rep) {
		s.over(rep)
		return
	}
	if job.Outputs == nil || f.files > 0 {
		s.saved = &taskstate.Saved{Keep: 1, Keepers: []taskstate.PeerID{p.id}, Bytes: f.bytes, Files: f.files, Root: f.root}
		if job.Outputs == nil {
			s.saved.Root, s.saved.Logs, s.saved.Bytes = piece.Root{}, f.root, 0
		}
		p.files.collect(s.launch.Task, f)
		w.check.files.says(s.launch.Task, p)
	}
	rep.Saved = s.saved
	copies := 0
	switch {
	case rep.State == taskstate.Failed:
		if job.Outputs == nil {
			copies = job.Copies()
		}
	case s.saved == nil && job.Outputs.Missing != taskstate.MissingOK:
		rep.State, rep.Reason, rep.Message = taskstate.Failed, taskstate.ReasonNoOutput, "nothing it left matches"
	default:
		copies = job.Copies()
	}
	if s.saved == nil || copies <= 1 {
		s.over(rep)
		return
	}
	s.copied(rep, copies)
}

// stop breaks off saving: a task that had failed by itself has failed, any other is shut down.
func (s *saving) stop(why taskstate.Reason) {
	if s.stopped {
		return
	}
	s.stopped = true
	s.l.w.check.files.brokenOff(s.launch.Task)
	if s.l.w.cfg.Break == BreakDeaf {
		return
	}
	s.l.after(s.l.w.ms(0, 20), func() {
		if !s.is() {
			return
		}
		rep := s.end
		if rep.Saved = s.saved; rep.State != taskstate.Failed {
			rep.State, rep.Reason = taskstate.Shutdown, why
		}
		s.over(rep)
	})
}

// over tells the task's end.
func (s *saving) over(rep taskstate.RunReport) {
	l := s.l
	delete(l.saving, s.launch.Task)
	for _, id := range sortedPeers(s.search.asks) {
		s.search.asks[id].drop()
	}
	rep.At = l.p.wall().UnixMilli()
	l.w.check.files.saved(&rep)
	l.ran(rep)
}

// beingSaved lists the tasks that are being saved.
func (l *life) beingSaved() []taskstate.TaskID {
	ids := make([]taskstate.TaskID, 0, len(l.saving))
	for id := range l.saving {
		ids = append(ids, id)
	}
	return sorted(ids)
}

// loseEnds is a power cut that takes what the supervisor had noted of the ends of processes, a
// moment ago.
func (p *peer) loseEnds(l *life) {
	for _, id := range l.beingSaved() {
		if p.w.chance(0.5) {
			delete(p.reports, id)
		}
	}
}

// stage brings the inputs of a job here, as node/stager does: from whoever submitted it, or has
// them by now, as far as there is room.
func (l *life) stage(job *taskstate.Job) {
	w := l.w
	say := func(r worker.StageReport) {
		r.Job, r.Version = job.ID, job.Version
		l.worker.Staged(r, l.p.wall())
		l.renew()
	}
	var look func()
	look = func() {
		switch {
		case l.p.staged[job.ID] || w.cfg.Break == BreakNoInputs:
			say(worker.StageReport{Here: true})
		case !w.calm && w.chance(0.02):
			say(worker.StageReport{NoRoom: true, Message: "no room"})
		case !l.finds(job):
			say(worker.StageReport{Message: "only " + job.Submitter + " has them"})
			l.after(w.ms(500, 3000), look)
		default:
			l.after(w.ms(0, 4000), func() {
				l.p.staged[job.ID] = true
				say(worker.StageReport{Here: true})
			})
		}
	}
	l.after(w.ms(0, 100), look)
}

// finds tells whether somebody who can be reached has the inputs of a job. When the faults are over
// and whoever submitted it has lost them, a person brings them again.
func (l *life) finds(job *taskstate.Job) bool {
	for _, p := range l.w.peers {
		lost := p.gone || l.w.load.byID[job.ID].asked < p.files.since
		if p.id == job.Submitter && lost && l.w.calm {
			return true
		}
		if has := p.staged[job.ID] || p.id == job.Submitter && !lost; has && p.life != nil && p.frozen <= l.w.now() && l.w.net.both(l.p, p) {
			return true
		}
	}
	return false
}
