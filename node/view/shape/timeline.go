package shape

import (
	"math"
	"time"

	"github.com/coveyproject/covey/node/api"
)

// maxBars is how many tasks are shown one by one; of more than that, how many there were at a time.
const maxBars = 5000

// maxSteps is how many steps all lanes have together.
const maxSteps = 24_000

// Timeline shows where and when the tasks ran, px steps wide where they are too many for bars. The
// lanes have no names yet.
func (f *Facts) Timeline(px int) api.Timeline {
	from, to, n := int64(math.MaxInt64), int64(0), 0
	used := make([]bool, len(f.peers))
	for i := range f.Rows {
		if r := &f.Rows[i]; r.shown() {
			from, to, n = min(from, r.Start), max(to, r.end()), n+1
			used[r.peer] = true
		}
	}
	if n == 0 {
		from, to = f.Now, f.Now
	}
	t := api.Timeline{From: stamp(from), To: stamp(to), Lanes: []api.Lane{}}
	lane := make([]int, len(f.peers))
	for p, yes := range used {
		if yes {
			lane[p] = len(t.Lanes)
			t.Lanes = append(t.Lanes, api.Lane{Peer: f.peers[p]})
		}
	}
	if n > maxBars {
		f.densities(&t, lane, from, to, px)
		return t
	}
	for i := range f.Rows {
		r := &f.Rows[i]
		if !r.shown() {
			continue
		}
		l := &t.Lanes[lane[r.peer]]
		l.Tasks++
		b := api.Bar{Slot: int(r.Slot), Attempt: int(r.Attempt), State: r.State.String(), Start: seconds(r.Start - from), End: seconds(r.end() - from), Earlier: r.Earlier, Open: r.Open}
		l.Bars = append(l.Bars, b)
	}
	return t
}

// shown tells whether a task has a place in the timeline.
func (r *Row) shown() bool { return r.Start > 0 && r.peer != nobody }

func (r *Row) end() int64 { return r.Start + int64(r.Took) }

// densities counts, for each step of each lane, how many tasks ran on average, and how many ended
// badly.
func (f *Facts) densities(t *api.Timeline, lane []int, from, to int64, px int) {
	steps := min(px, max(20, maxSteps/len(t.Lanes)))
	step := max(1, float64(to-from)/float64(steps))
	t.Step = step / 1000
	for k := range t.Lanes {
		t.Lanes[k].Busy, t.Lanes[k].Bad = make([]float64, steps), make([]int, steps)
	}
	level := make([][]float64, len(t.Lanes)) // what is added from a step on
	for k := range level {
		level[k] = make([]float64, steps+1)
	}
	for i := range f.Rows {
		r := &f.Rows[i]
		if !r.shown() {
			continue
		}
		k := lane[r.peer]
		l := &t.Lanes[k]
		l.Tasks++
		a, b := float64(r.Start-from)/step, float64(r.end()-from)/step
		first, last := min(int(a), steps-1), min(int(b), steps-1)
		if first == last {
			l.Busy[first] += b - a
		} else {
			l.Busy[first] += float64(first+1) - a
			l.Busy[last] += b - float64(last)
			level[k][first+1]++
			level[k][last]--
		}
		if bad(r.State) {
			l.Bad[last]++
		}
	}
	for k := range t.Lanes {
		now := 0.0
		for i := range t.Lanes[k].Busy {
			now += level[k][i]
			t.Lanes[k].Busy[i] = math.Round((t.Lanes[k].Busy[i]+now)*100) / 100
		}
	}
}

func stamp(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func seconds(ms int64) float64 { return float64(ms) / 1000 }
