package sim

import (
	"time"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// mend is what people do once nothing hurts any more: most peers take tasks again, and what does
// not work is replaced by what does, once its update has come to an end. They mind it until they
// end everything: a task that began among the faults may still fail, late, and pause the update or
// the way back that it is part of. Then it is for people to have that go on, and until somebody
// does, whatever does not work is tried again and again.
func (d *load) mend(first bool) {
	w := d.w
	if w.finished || d.ended {
		return
	}
	if first || !w.zoned(w.peers[0], []string{"peer.label.zone == a"}) { // an earlier wish may have come through after it
		d.label(w.peers[0], "a")
	}
	if first || w.check.passive(w.peers[0].id) {
		d.avail(w.peers[0], ledger.AvailActive)
	}
	if first {
		kept := 0
		for _, p := range w.peers[1:] {
			if w.chance(0.7) || kept >= w.size/3 {
				d.avail(p, ledger.AvailActive)
			} else {
				kept++
			}
		}
	}
	for _, j := range d.jobs {
		if rec, ok := w.quorum.truth.Job(j.job.ID); ok && j.lasts() && j.wishes == 0 && !w.check.over[j.job.ID] && !j.cancelled {
			d.mendOne(j, rec, first)
		}
	}
	w.after(10*time.Second, func() { d.mend(false) })
}

func (d *load) mendOne(j *work, rec *ledger.JobRecord, first bool) {
	works := true
	for _, v := range rec.Versions() {
		works = works && !broken(rec.JobOf(v))
	}
	state := rec.Rollout().State
	paused := state == ledger.Paused || state == ledger.RollbackPaused
	switch {
	case broken(rec.Job()) && state.Active() && !paused: // it stops, turns back or ends by itself, whatever it bears
	case broken(rec.Job()):
		next := *j.meant(rec.Job())
		next.Run.Noop = &taskstate.Noop{Duration: goodSpec + int64(d.w.between(0, 3))}
		d.update(j, next)
	case paused && (!works || first && d.w.chance(0.5)):
		d.steer(j, ledger.Updating)
	}
}

// endAll ends what goes on until somebody ends it.
func (d *load) endAll() {
	d.ended = true
	for _, j := range d.jobs {
		if j.keeps() && !d.w.check.over[j.job.ID] {
			d.cancel(j)
		}
	}
}
