package view

import (
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// paceSpan is how far back ends count for the rate of a job.
const paceSpan = 30 * time.Second

// paces gathers how fast a job goes. It is pure.
type paces struct {
	from, to    int64 // the half minute that counts, in milliseconds
	recent      int   // ends in it
	first       int64 // the earliest start of a task
	ran, waited int64
	ends        int // that say how long they took
	longest     taskstate.Status
}

// add takes in an end of a task that was waiting since then and was assigned at that moment.
func (p *paces) add(s *taskstate.Status, since, assigned int64) {
	if s.At >= p.from {
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
	if s.Took > p.longest.Took {
		p.longest = *s
	}
}

// rate is how many tasks ended in a second; 0 if that cannot be said.
func (p *paces) rate() float64 {
	span := p.to - max(p.from, p.first)
	if p.recent == 0 || span < time.Second.Milliseconds() {
		return 0
	}
	return float64(p.recent) / seconds(span)
}

// pace says how fast a job goes that ends by itself; nil for others.
func (v *View) pace(id taskstate.JobID) *api.Pace {
	var out *api.Pace
	running := map[taskstate.PeerID]int{}
	v.cfg.Replica.Read(func(s *ledger.State) {
		j, ok := s.Job(id)
		if !ok || j.Lasts() || j.Scheduled() {
			return
		}
		now := v.now()
		if at, over := j.Ended(); over {
			now = at
		}
		p := paces{from: now - paceSpan.Milliseconds(), to: now}
		for k := 1; k <= j.Slots(); k++ {
			r := j.Slot(k)
			switch {
			case r.Final != nil:
				if r.Peer != "" {
					p.add(r.Final, waitsSince(j, k), r.AssignedAt)
				}
			case r.Open:
				if st, ok := v.cfg.Table.Get(taskstate.Task(id, k, r.Attempt)); ok && st.State == taskstate.Running {
					running[r.Peer]++
				}
			}
		}
		c := j.Counts()
		out = &api.Pace{Rate: p.rate(), Running: map[string]int{}}
		if left := c.Pending + c.Open; left > 0 && out.Rate > 0 {
			out.Left = float64(left) / out.Rate
		}
		if p.ends > 0 {
			out.Ran, out.Waited = seconds(p.ran/int64(p.ends)), seconds(p.waited/int64(p.ends))
			out.Longest, out.LongestTook = p.longest.Task.String(), seconds(p.longest.Took)
		}
	})
	for peer, k := range running {
		out.Running[v.Who.Called(peer)] += k
	}
	return out
}
