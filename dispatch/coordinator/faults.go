package coordinator

import (
	"fmt"
	"slices"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// failsEverywhere tells whether a job's tasks failed often on every peer they may go to: then the
// fault is the job's own, and all peers are as good as any until one of its tasks ends well. Here
// it does not matter how long it took: a small peer shows it later than a big one. A peer that has
// no room for them beside services and global jobs is none they may go to: that could take for
// ever.
func (js *jobs) failsEverywhere(j *jobState) bool {
	return !slices.ContainsFunc(js.peers.list(), func(p *peerState) bool {
		return p.worker && p.standing == Ready && p.member.Takes() && p.offer.Trouble == "" && !js.peers.shunned(p) && !j.faults.often(p.id) &&
			js.peers.lets(j, p) && j.job.Resources.Fits(p.offer.Resources.Sub(p.lastingShare()))
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

// noteNoRoom takes note of a peer that has no room for a job's inputs: it is avoided like one where
// its tasks fail.
func (js *jobs) noteNoRoom(j *jobState, p *peerState, why string) {
	p.noInputRoom = noInputRoom{fmt.Sprintf("job %s: %s; its tasks go elsewhere", j.id, why), js.clock.Now().Add(faultTime)}
	for range faultCount {
		js.noteEnd(j, p.id, taskstate.Rejected)
	}
}

// noInputRoom is that a peer had no room for the inputs of a job, lately.
type noInputRoom struct {
	why   string
	until time.Time
}

// noRoom is why a peer had no room for inputs, lately; "" if it had.
func (ps *peers) noRoom(p *peerState) string {
	if ps.clock.Now().Before(p.noInputRoom.until) {
		return p.noInputRoom.why
	}
	return ""
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
	if st.State == taskstate.Complete && len(j.job.Inputs) > 0 {
		p.noInputRoom = noInputRoom{}
	}
	j.lasting.ended(st, int(r.version), j.job, js.clock.Now())
}
