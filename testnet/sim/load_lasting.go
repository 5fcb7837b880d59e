package sim

import (
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// What a task of a lasting job does follows from the duration in its spec.
const (
	goodSpec   = 1    // … it runs until it is stopped; while there are faults some end by themselves
	brokenSpec = 1000 // … it fails as soon as it starts
	flakySpec  = 2000 // … some fail soon
	markBase   = 2000 // milliseconds: what is above in replace_after tells the specs of a job apart, and restarts nothing
	mostLast   = 5    // lasting jobs at a time
)

func (j *work) lasts() bool { return j.job.Type.Lasts() }

// keeps tells whether the job goes on until somebody ends it.
func (j *work) keeps() bool { return j.lasts() || j.job.Schedule != nil }

// mark numbers a spec.
func (j *work) mark(spec *taskstate.Job) {
	spec.Unreachable = taskstate.Unreachable{ReplaceAfter: int64(markBase + len(j.specs))}
	j.specs = append(j.specs, *spec)
}

// meant is what people meant by the spec the ledger has.
func (j *work) meant(spec *taskstate.Job) *taskstate.Job {
	return &j.specs[spec.Unreachable.ReplaceAfter-markBase]
}

func broken(spec *taskstate.Job) bool {
	return spec.Run.Noop.Duration >= brokenSpec && spec.Run.Noop.Duration < flakySpec
}

// serves says what an attempt of a lasting job does.
func (d *load) serves(spec *taskstate.Job) need {
	w := d.w
	switch kind := spec.Run.Noop.Duration; {
	case broken(spec):
		return need{exit: 3, time: w.ms(0, 100)}
	case kind >= flakySpec && !w.calm && w.chance(0.3):
		return need{exit: 3, time: w.ms(0, 20_000)}
	case !w.calm && w.chance(0.1):
		return need{exit: pick(w, 0, 3), time: w.ms(0, 60_000)}
	}
	return need{ever: true}
}

// wish is what people want now and then of jobs that last, and of peers.
func (d *load) wish() {
	w := d.w
	if w.calm {
		return
	}
	w.after(w.ms(500, 2*d.pace), d.wish)
	var last []*work
	for _, j := range d.jobs {
		if j.keeps() && !w.check.over[j.job.ID] && !j.cancelled {
			last = append(last, j)
		}
	}
	switch n := w.rng.IntN(100); {
	case n < 25 && len(last) < mostLast || len(last) == 0:
		d.addLasting()
	case n < 55:
		d.revise(last[w.rng.IntN(len(last))])
	case n < 65:
		d.steer(last[w.rng.IntN(len(last))], pick(w, taskstate.RolloutPaused, taskstate.RolloutUpdating, taskstate.RolloutUpdating, taskstate.RolloutRollingBack))
	case n < 80:
		d.avail(w.anyone(), pick(w, ledger.AvailActive, ledger.AvailActive, ledger.AvailPause, ledger.AvailDrain))
	case n < 90:
		d.label(w.anyone(), pick(w, "a", "b", ""))
	default:
		d.renew()
	}
}

// addLasting brings a service, a global job or a schedule.
func (d *load) addLasting() {
	w := d.w
	j := &work{}
	job := &j.job
	job.Type, job.Priority = taskstate.ServiceJob, w.between(0, 100)
	job.Run.Noop = &taskstate.Noop{Duration: goodSpec}
	switch n := w.rng.IntN(10); {
	case n == 0:
		job.Type, job.Count, job.Schedule = taskstate.BatchJob, 1, &taskstate.Schedule{Cron: "* * * * *", Overlap: pick(w, taskstate.SkipOverlap, taskstate.AllowOverlap)}
		job.Run.Noop.Duration = int64(w.between(0, 90_000))
		d.put(j)
		return
	case n < 4:
		job.Type = taskstate.GlobalJob
	default:
		job.Count = w.between(0, 6)
	}
	d.drawLasting(job)
	if w.chance(0.3) {
		job.Constraints = []string{pick(w, "peer.label.zone == a", "peer.label.zone != b")}
		job.Count = min(job.Count, 3) // for one peer may have to take them all
	}
	job.Resources.Memory = pick(w, int64(0), 1<<20, 8<<20)
	if w.size >= 10 && len(job.Constraints) == 0 && job.Type == taskstate.ServiceJob {
		job.Resources.MilliCPU = pick(w, int64(0), 0, 50, 100)
	}
	d.put(j)
}

// drawLasting draws what an update may change without further ado.
func (d *load) drawLasting(job *taskstate.Job) {
	w := d.w
	job.Restart = taskstate.DefaultRestart(job.Type)
	if w.chance(0.3) {
		job.Restart = &taskstate.Restart{
			Condition: pick(w, taskstate.RestartAny, taskstate.RestartOnFailure), Attempts: w.between(1, 4), Delay: pick(w, int64(0), 700, 3000), Window: pick(w, int64(0), 20_000),
		}
	}
	u := &taskstate.Update{
		Parallelism: w.between(0, 3), Delay: pick(w, int64(0), 0, 2000), Monitor: pick(w, int64(1000), 5000),
		MaxFailureRatio: pick(w, 0.0, 0, 0.3, 0.5, 1), OnFailure: pick(w, taskstate.PauseUpdate, taskstate.RollBackUpdate, taskstate.ContinueUpdate), Order: taskstate.StopFirst,
	}
	if job.Type == taskstate.ServiceJob {
		u.Order = pick(w, taskstate.StopFirst, taskstate.StartFirst)
	}
	job.Update = u
}

// revise updates a job: another version, good or bad, another count, or other rules.
func (d *load) revise(j *work) {
	w := d.w
	rec, ok := w.quorum.truth.Job(j.job.ID)
	if !ok || !j.lasts() {
		return
	}
	next := *j.meant(rec.Job())
	if next.Type == taskstate.ServiceJob && w.chance(0.3) {
		next.Count = w.between(0, 8)
		if len(next.Constraints) > 0 {
			next.Count = w.between(0, 3)
		}
	}
	if w.chance(0.7) {
		next.Run.Noop = &taskstate.Noop{Duration: pick(w, int64(goodSpec), goodSpec, brokenSpec, flakySpec) + int64(w.between(0, 3))}
	}
	if w.chance(0.5) {
		d.drawLasting(&next)
	}
	d.update(j, next)
}

func (d *load) update(j *work, next taskstate.Job) {
	j.mark(&next)
	d.tell(j, func() ledger.Command { return ledger.Command{Update: &ledger.Update{Job: *misread(d.w, &next)}} }, nil)
}

func (d *load) steer(j *work, to taskstate.RolloutState) {
	if j.lasts() {
		d.tell(j, func() ledger.Command {
			return ledger.Command{Rollout: &ledger.Rollout{Job: j.job.ID, State: to, Message: "by somebody"}}
		}, nil)
	}
}

// avail asks for a peer to take tasks, or not. What counts is what was decided last: answers may
// cross each other.
func (d *load) avail(p *peer, to ledger.Availability) {
	if p.gone {
		return
	}
	cmd := ledger.Command{Avail: &ledger.SetAvailability{Peer: p.id, Availability: to, Grace: pick(d.w, int64(0), 0, 5000), Reason: string(to)}}
	if to == ledger.AvailDrain && d.w.cfg.Break == BreakLoseDrain {
		cmd.Avail.Availability = ledger.AvailPause
	}
	d.tell(nil, func() ledger.Command { return cmd }, nil)
}

// availed hears what was decided about a peer; its reason says what somebody asked for.
func (d *load) availed(a *ledger.SetAvailability) { d.drains[a.Peer] = ledger.Availability(a.Reason) }

// label puts a peer into a zone, or out of any.
func (d *load) label(p *peer, zone string) {
	l := &ledger.Label{Peer: p.id, Set: map[string]string{"zone": zone}}
	if zone == "" {
		l.Set, l.Unset = nil, []string{"zone"}
	}
	d.tell(nil, func() ledger.Command { return ledger.Command{Label: l} }, nil)
}

// renew gives some slots of a lasting job fresh attempts, as to rebalance it does.
func (d *load) renew() {
	w := d.w
	j := d.jobs[w.rng.IntN(len(d.jobs))]
	rec, ok := w.quorum.truth.Job(j.job.ID)
	if !ok || !j.lasts() || rec.Slots() == 0 || w.check.over[j.job.ID] {
		return
	}
	n := w.between(1, rec.Slots())
	if rec.Slot(n).Retired {
		return
	}
	d.tell(j, func() ledger.Command {
		return ledger.Command{Renew: &ledger.Renew{Job: j.job.ID, Slots: []ledger.Slots{{First: n, N: 1, Attempt: rec.Slot(n).Attempt}}, Reason: taskstate.ReasonMoved}}
	}, nil)
}

// tell asks for a decision that may as well be refused.
func (d *load) tell(j *work, cmd func() ledger.Command, then func(ledger.Result)) {
	if j != nil {
		j.wishes++
	}
	d.ask(&request{job: j, cmd: cmd, told: func(r ledger.Result) {
		d.w.tracef("a wish is answered: %s", commands([]ledger.Command{cmd()}, []ledger.Result{r}))
		if j != nil {
			j.wishes--
		}
		if then != nil {
			then(r)
		}
	}})
}

// mend is what people do once nothing hurts any more: most peers take tasks again, some drain, and
// what does not work is replaced by what does, once its update has come to an end. They mind it
// until they end everything: a task that began among the faults may still fail, late, and pause the
// update or the way back that it is part of. Then it is for people to have that go on, and until
// somebody does, whatever does not work is tried again and again.
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
				continue
			}
			kept++
			if w.chance(0.5) {
				d.avail(p, ledger.AvailDrain) // what runs there has a place elsewhere
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
	paused := state == taskstate.RolloutPaused || state == taskstate.RolloutRollbackPaused
	switch {
	case broken(rec.Job()) && state.Active() && !paused: // it stops, turns back or ends by itself, whatever it bears
	case broken(rec.Job()):
		next := *j.meant(rec.Job())
		next.Run.Noop = &taskstate.Noop{Duration: goodSpec + int64(d.w.between(0, 3))}
		d.update(j, next)
	case paused && (!works || first && d.w.chance(0.5)):
		d.steer(j, taskstate.RolloutUpdating)
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
