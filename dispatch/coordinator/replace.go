package coordinator

import (
	"cmp"
	"slices"
	"time"

	"covey/dispatch/coordinator/clock"
	"covey/dispatch/ledger"
	"covey/taskstate"
)

// replacer gives up what peers have that are away, in trouble, or do not start it.
type replacer struct {
	cfg      *CoreConfig
	clock    *clock.Clock
	agenda   *agenda
	peers    *peers
	sessions *sessions
	tasks    *tasks
}

// dueReplacements looks whether a peer has been unreachable for as long as a job allows. What is
// given up is decided when the next proposal is cut, so that a sign of life counts until the last
// moment.
func (rp *replacer) dueReplacements() {
	for _, p := range rp.peers.list() {
		rp.dueSick(p)
		rp.dueStall(p)
		if p.standing != Unreachable {
			continue
		}
		for _, h := range p.holds {
			if due, ever := rp.replaceAt(p, h.job); ever && len(h.slots) > 0 {
				if rp.clock.Now().Before(due) {
					rp.clock.WakeAt(due)
				} else {
					rp.agenda.replacing = true
				}
			}
		}
	}
}

// addReplacements gives up what is due, as far as one proposal reaches: in the same entry of the
// ledger the slots wait again.
func (rp *replacer) addReplacements(cmds []ledger.Command, size int) ([]ledger.Command, int) {
	if !rp.agenda.replacing {
		return cmds, size
	}
	rp.agenda.replacing = false
	for _, p := range rp.peers.list() {
		if p.standing != Unreachable || p.session != nil { // a Hello is a sign of life, welcomed or not
			continue
		}
		for _, h := range p.byAge() {
			if due, ever := rp.replaceAt(p, h.job); !ever || rp.clock.Now().Before(due) {
				continue
			}
			slots := h.sorted(func(r rec) bool { return !r.is(deciding) })
			if len(slots) == 0 || !h.job.cancelled && !rp.peers.mayReplace(p) {
				continue // what is cancelled needs no replacement, only an end
			}
			if cmds, size = rp.tasks.giveUpSlots(h, slots, taskstate.ReasonUnreachable, cmds, size); rp.agenda.replacing {
				return cmds, size
			}
		}
	}
	return rp.addUntaken(cmds, size)
}

// replaceAt is when attempts of a job on an unreachable peer are given up; ever is false for work
// that must not run twice. A cancelled job waits for nobody.
func (rp *replacer) replaceAt(p *peerState, j *jobState) (due time.Time, ever bool) {
	switch {
	case j.cancelled:
		return p.lostSince, true
	case j.job.Unreachable.Wait:
		return time.Time{}, false
	}
	return p.lostSince.Add(time.Duration(j.job.Unreachable.ReplaceAfter) * time.Millisecond), true
}

// byAge lists what p holds, the oldest job first.
func (p *peerState) byAge() []*holding {
	out := make([]*holding, 0, len(p.holds))
	for _, h := range p.holds {
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b *holding) int { // several may have come with one entry
		return cmp.Or(cmp.Compare(a.job.index, b.job.index), cmp.Compare(a.job.id, b.job.id))
	})
	return out
}

// sorted lists the slots of a holding whose task pick accepts, ascending.
func (h *holding) sorted(pick func(rec) bool) []int {
	var out []int
	for n, r := range h.slots {
		if pick(r) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}
