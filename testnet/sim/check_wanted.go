package sim

import (
	"fmt"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// unwanted is I13: what lasts is as it is wanted, and nowhere else.
func (c *check) unwanted() string {
	for _, j := range c.w.load.jobs {
		rec, ok := c.w.quorum.truth.Job(j.job.ID)
		if _, _, cancelled := recCancelled(rec, ok); !ok || !j.lasts() || c.over[j.job.ID] || cancelled {
			continue
		}
		if what := c.differently(j, rec); what != "" {
			return fmt.Sprintf("%s: %s (%+v, %+v)", j.job.ID, what, rec.Rollout(), rec.Counts())
		}
	}
	for _, p := range c.w.peers {
		if len(p.procs) > 0 && c.w.load.drains[p.id] == ledger.AvailDrain {
			return fmt.Sprintf("%s is drained and runs %v", p.id, p.running())
		}
	}
	return ""
}

func recCancelled(rec *ledger.JobRecord, ok bool) (string, int64, bool) {
	if !ok {
		return "", 0, false
	}
	return rec.Cancelled()
}

// passive tells whether a peer takes nothing new: what is bound to it stays as it is.
func (c *check) passive(id taskstate.PeerID) bool {
	m, _ := c.w.quorum.truth.Member(id)
	return !m.Takes()
}

// differently tells what is not as it is wanted with a job that lasts.
func (c *check) differently(j *work, rec *ledger.JobRecord) string {
	state := rec.Rollout().State
	paused := state == taskstate.RolloutPaused || state == taskstate.RolloutRollbackPaused
	if state.Active() && !paused {
		return "its update goes on"
	}
	on := map[taskstate.PeerID]int{}
	running, spent := 0, 0
	for n := 1; n <= rec.Slots(); n++ {
		s := rec.Slot(n)
		if s.Retired {
			continue
		}
		if s.Final != nil {
			spent++
			on[s.Pin]++
		}
		if !s.Open || s.Leaving != "" || c.w.byID[s.Peer].procs[taskstate.Task(j.job.ID, n, s.Attempt)] == nil {
			continue
		}
		running++
		on[s.Peer]++
		switch {
		case s.Version != rec.Job().Version && !paused && !(s.Pin != "" && c.passive(s.Pin)):
			return fmt.Sprintf("slot %d is of version %d", n, s.Version)
		case !c.w.zoned(c.w.byID[s.Peer], rec.Job().Constraints):
			return fmt.Sprintf("slot %d runs on %s, which its constraints exclude", n, s.Peer)
		}
	}
	meant := j.meant(rec.Job())
	if meant.Type == taskstate.ServiceJob {
		if have := running + spent; have != meant.Count && (!paused || have < meant.Count) {
			return fmt.Sprintf("%d tasks run and %d have ended for good, %d are wanted", running, spent, meant.Count)
		}
		return ""
	}
	for _, p := range c.w.peers {
		m, in := c.w.quorum.truth.Member(p.id)
		fits := in && m.In() && !p.gone && c.w.zoned(p, meant.Constraints) && m.Availability != ledger.AvailDrain
		want := 0
		if fits {
			want = 1
		}
		if n := on[p.id]; n != want && !(fits && !m.Takes() && n == 0) {
			return fmt.Sprintf("%d tasks on %s, want %d", n, p.id, want)
		}
	}
	return ""
}

// zoned tells whether a peer's labels, as decided, are what constraints ask for.
func (w *world) zoned(p *peer, constraints []string) bool {
	m, _ := w.quorum.truth.Member(p.id)
	zone := m.LabelsOver(nil)["zone"]
	for _, c := range constraints {
		switch c {
		case "peer.label.zone == a":
			if zone != "a" {
				return false
			}
		case "peer.label.zone != b":
			if zone == "b" {
				return false
			}
		default:
			w.fail("bug", "nobody knows what %q means", c)
		}
	}
	return true
}
