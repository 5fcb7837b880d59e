package shape

import (
	"cmp"
	"slices"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// paceSpan is how far back ends count for the rate of a job.
const paceSpan = 30 * time.Second

// paces gathers how fast a job goes.
type paces struct {
	to          int64 // until when, in milliseconds since 1970: now, or the job's end
	recent      int   // ends in the half minute before
	first       int64 // the earliest start of a task
	ran, waited int64
	ends        int // that say how long they took
}

func (p *paces) from() int64 { return p.to - paceSpan.Milliseconds() }

// add takes in an end of a task that was waiting since then and was assigned at that moment.
func (p *paces) add(s *taskstate.Status, since, assigned int64) {
	if s.At >= p.from() {
		p.recent++
	}
	if p.first == 0 || assigned < p.first {
		p.first = assigned
	}
	if s.Took == 0 {
		return
	}
	p.ends++
	p.ran += s.Took
	p.waited += max(0, assigned-since) + s.Waited
}

// rate is how many tasks ended in a second; 0 if that cannot be said.
func (p *paces) rate() float64 {
	span := p.to - max(p.from(), p.first)
	if p.recent == 0 || span < time.Second.Milliseconds() {
		return 0
	}
	return float64(p.recent) / seconds(span)
}

// Pace says how fast a job goes of which so many slots have not ended. Peers have no names yet, and
// those that tasks run on are not listed.
func (f *Facts) Pace(left int) *api.Pace {
	p := &f.pace
	out := &api.Pace{Rate: p.rate(), Running: map[string]int{}, Peers: f.peerPaces()}
	if left > 0 && out.Rate > 0 {
		out.Left = float64(left) / out.Rate
	}
	if p.ends == 0 {
		return out
	}
	out.Ran, out.Waited = seconds(p.ran/int64(p.ends)), seconds(p.waited/int64(p.ends))
	longest := Row{}
	for _, r := range f.newest() {
		if !r.Open && r.Took > longest.Took {
			longest = r
		}
	}
	out.Longest, out.LongestTook = taskstate.Task(f.job, int(longest.Slot), int(longest.Attempt)).String(), seconds(int64(longest.Took))
	return out
}

const (
	pacedTasks = 5000 // of a peer that its median is taken of, at most about
	slowTasks  = 3    // fewer say nothing of a peer
	slowTimes  = 2    // a peer is slow that takes so many times as long as the others …
	slowLeast  = 0.1  // … and so many seconds longer: below that it is the starting that differs
)

// peerPaces are the peers that ran tasks or run some, those that take longest first.
func (f *Facts) peerPaces() []api.PeerPace {
	out := make([]api.PeerPace, len(f.peers))
	rows := f.newest()
	for i := range rows {
		if r := &rows[i]; r.peer != nobody {
			p := &out[r.peer]
			switch {
			case r.State == taskstate.Complete && r.Took > 0:
				p.Ended++
			case r.Open && r.State == taskstate.Running:
				p.Running++
				p.Oldest = max(p.Oldest, seconds(int64(r.Took)))
			}
		}
	}
	took, seen := make([][]uint32, len(out)), make([]int, len(out))
	for i := range rows {
		if r := &rows[i]; r.peer != nobody && r.State == taskstate.Complete && r.Took > 0 {
			if every := 1 + out[r.peer].Ended/pacedTasks; seen[r.peer]%every == 0 {
				took[r.peer] = append(took[r.peer], r.Took)
			}
			seen[r.peer]++
		}
	}
	for k := range out {
		out[k].Peer = f.peers[k]
		if all := took[k]; len(all) > 0 {
			slices.Sort(all)
			out[k].Took = seconds(int64(all[len(all)/2]))
		}
	}
	out = slices.DeleteFunc(out, func(p api.PeerPace) bool { return p.Ended+p.Running == 0 })
	slices.SortFunc(out, func(a, b api.PeerPace) int {
		return cmp.Or(cmp.Compare(b.Took, a.Took), cmp.Compare(a.Peer, b.Peer))
	})
	slower(out)
	return out
}

// slower finds the peers that are clearly slower than the others. Peers are sorted, the one that
// takes longest first.
func slower(peers []api.PeerPace) {
	all := 0
	for i := range peers {
		all += peers[i].Ended
	}
	for i := range peers {
		p := &peers[i]
		p.Others = others(peers, i, all-p.Ended)
		takes := p.Took
		if p.Ended < slowTasks {
			takes = p.Oldest
		}
		if p.Others > 0 && takes >= slowTimes*p.Others && takes-p.Others >= slowLeast {
			p.Slower = takes / p.Others
		}
	}
}

// others is what a task takes elsewhere than at one peer: of the others' medians that which half of
// their n tasks are at or above; 0 if they are too few.
func others(peers []api.PeerPace, but, n int) float64 {
	if n < slowTasks {
		return 0
	}
	longer := 0
	for i := range peers {
		if i == but {
			continue
		}
		if longer += peers[i].Ended; 2*longer >= n {
			return peers[i].Took
		}
	}
	return 0
}
