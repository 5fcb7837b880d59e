package coordinator

import (
	"slices"
	"time"

	"covey/taskstate"
)

// A version of a job of which so many tasks in a row failed on a peer in so short a time is not
// given to that peer for as long, if there is another one that is not known to be as bad. A machine
// that lacks what the job needs fails at once, has room at once, and would get all of it.
const (
	faultCount = 5
	faultTime  = 5 * time.Minute
)

// faults remembers where tasks of the present version failed: for each peer when, newest last,
// since one last ended well there. No more than count.
type faults map[taskstate.PeerID][]time.Time

func (f faults) any() bool { return len(f) > 0 }

func (f *faults) add(p taskstate.PeerID, now time.Time) {
	if *f == nil {
		*f = faults{}
	}
	list := append((*f)[p], now)
	(*f)[p] = list[max(0, len(list)-faultCount):]
}

// often tells whether the last tasks on a peer all failed, however long it took.
func (f faults) often(p taskstate.PeerID) bool { return len(f[p]) == faultCount }

// faulty tells whether they did so in a short time, and lately.
func (f faults) faulty(p taskstate.PeerID, now time.Time) bool {
	return f.often(p) && now.Sub(f[p][0]) < faultTime
}

// until is when a faulty peer may have tasks again.
func (f faults) until(p taskstate.PeerID) time.Time { return f[p][0].Add(faultTime) }

// failsEverywhere tells whether a job's tasks failed often on every peer they may go to: then the fault is
// the job's own, and all peers are as good as any until one of its tasks ends well. Here it does
// not matter how long it took: a small peer shows it later than a big one. A peer that has no room
// for them beside services and global jobs is none they may go to: that could take for ever.
func (js *jobs) failsEverywhere(j *jobState) bool {
	return !slices.ContainsFunc(js.peers.list(), func(p *peerState) bool {
		return p.worker && p.standing == Ready && p.member.Takes() && p.offer.Trouble == "" && !js.peers.shunned(p) && !j.faults.often(p.id) &&
			j.allows(p) && j.job.Resources.Fits(p.offer.Resources.Sub(p.lastingShare()))
	})
}

// lastingShare is what a peer has promised to tasks that do not end by themselves.
func (p *peerState) lastingShare() (sum taskstate.Resources) {
	for _, h := range p.holds {
		if h.job.lasting != nil {
			sum = sum.Add(h.job.job.Resources.Times(int64(h.live)))
		}
	}
	return sum
}

// avoided are the peers that a job's tasks are not given to as long as others would do.
func (js *jobs) avoided(j *jobState) map[taskstate.PeerID]bool {
	var out map[taskstate.PeerID]bool
	for p := range j.faults {
		if j.faults.faulty(p, js.clock.Now()) {
			if out == nil {
				out = map[taskstate.PeerID]bool{}
			}
			out[p] = true
		}
	}
	if len(out) > 0 && js.failsEverywhere(j) {
		return nil
	}
	return out
}

// lookAgainAt has the core look again when a peer may have back what failed there.
func (js *jobs) lookAgainAt(at time.Time) {
	if js.lookAgain.IsZero() || at.Before(js.lookAgain) {
		js.lookAgain = at
	}
	js.clock.WakeAt(js.lookAgain)
}

// lookAgainIfDue lets peers have what failed there again, once it was long enough ago.
func (js *jobs) lookAgainIfDue() {
	if js.lookAgain.IsZero() {
		return
	}
	if js.clock.Now().Before(js.lookAgain) {
		js.clock.WakeAt(js.lookAgain)
		return
	}
	js.lookAgain = time.Time{}
	js.agenda.place()
	for _, j := range js.all {
		for p := range j.faults {
			if j.faults.faulty(p, js.clock.Now()) {
				js.lookAgainAt(j.faults.until(p))
			}
		}
	}
}

// noteEnd takes note of how a task of a job's present version ended on a peer.
func (js *jobs) noteEnd(j *jobState, p taskstate.PeerID, end taskstate.State) {
	switch end {
	case taskstate.Complete:
		if len(j.faults[p]) > 0 {
			delete(j.faults, p)
			js.agenda.place()
		}
	case taskstate.Failed, taskstate.Rejected:
		j.faults.add(p, js.clock.Now())
		if j.faults.often(p) {
			js.agenda.place() // the fault may be the job's own
		}
		if j.faults.faulty(p, js.clock.Now()) {
			js.lookAgainAt(j.faults.until(p))
		}
	}
}

// ended takes note of how a task ended whose end is decided now.
func (js *jobs) ended(p *peerState, h *holding, st *taskstate.Status, r rec) {
	j := h.job
	if j.leaves(st.Task.Slot) || j.cancelled {
		return
	}
	if int(r.version) == j.job.Version {
		js.noteEnd(j, p.id, st.State)
	}
	j.lasting.ended(st, int(r.version), j.job, js.clock.Now())
}
