package sim

import (
	"time"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// ruined is I12: a running task gave way to one that cannot run.
func (c *check) ruined(x *watched, rec *ledger.JobRecord, n int) {
	j := c.w.load.byID[rec.Job().ID]
	next := rec.JobOf(rec.Slot(n).Next)
	if next == nil || !broken(next) || broken(rec.JobOf(rec.Slot(n).Version)) {
		return
	}
	if x.version != rec.Job().Version {
		x.version = rec.Job().Version
		clear(x.hit)
	}
	x.hit[n] = x.down[n]
	most := 0
	for _, spec := range x.specs(j) {
		u := spec.Updating()
		if u.Parallelism == 0 || u.OnFailure == taskstate.ContinueUpdate {
			return
		}
		most = max(most, u.Parallelism+int(u.MaxFailureRatio*float64(max(spec.Count, wanted(rec)))+1e-9))
	}
	hit := 0 // of slots that are wanted: for one whose peer leaves, another may be changed
	for n, t := range x.hit {
		if !rec.Slot(n).Retired && !c.excused(rec, t) && !c.heldUp(rec.Slot(n).Peer, t.at) {
			hit++
		}
	}
	if hit > most {
		c.w.fail("I12", "version %d of %s, which cannot run, has replaced %d tasks, and should have stopped after %d", x.version, rec.Job().ID, hit, most)
	}
}

// heldUp tells whether news of a peer may have been on its way for long: a fault has touched it
// since a moment.
func (c *check) heldUp(id taskstate.PeerID, since time.Duration) bool {
	p := c.w.byID[id] // nobody: it waits
	return p != nil && (p.pains > 0 || p.trouble > since)
}
