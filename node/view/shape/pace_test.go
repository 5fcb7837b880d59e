package shape

import (
	"testing"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

func TestThePaceOfAJobIsThatOfTheLastHalfMinute(t *testing.T) {
	const now = int64(100_000)
	p := paces{to: now}
	for i := range int64(10) { // one each ten seconds, of two seconds, after a second of waiting and another in line
		p.add(&taskstate.Status{Task: taskstate.Task("j", int(i)+1, 1), State: taskstate.Complete, At: i*10_000 + 9000, Took: 2000 + i, Waited: 1000}, i*1000, i*1000+1000)
	}
	if got := p.rate(); got != 0.1 {
		t.Errorf("%v in a second", got)
	}
	if p.ran/int64(p.ends) != 2004 || p.waited/int64(p.ends) != 2000 {
		t.Errorf("%+v", p)
	}
	young := paces{to: now}
	young.add(&taskstate.Status{Task: taskstate.Task("j", 1, 1), State: taskstate.Complete, At: now - 100}, now-600, now-500)
	if got := young.rate(); got != 0 {
		t.Errorf("after half a second: %v in a second", got)
	}
}

// ranOn are the facts of a job whose tasks took so many milliseconds on each peer.
func ranOn(took map[string][]uint32, runs map[string]uint32) *Facts {
	f := New(0, 1_000_000)
	row := func(peer string, ms uint32, state taskstate.State) {
		f.slots++
		f.Rows = append(f.Rows, Row{Slot: uint32(f.slots), Attempt: 1, State: state, Open: !state.Final(), peer: f.place(peer), Start: 1, Took: ms})
	}
	for peer, all := range took {
		for _, ms := range all {
			row(peer, ms, taskstate.Complete)
		}
	}
	for peer, ms := range runs {
		row(peer, ms, taskstate.Running)
	}
	return f
}

func many(n int, ms uint32) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = ms
	}
	return out
}

func TestAPeerIsSlowThatTakesMuchLongerThanTheOthersForMostOfItsTasks(t *testing.T) {
	for name, c := range map[string]struct {
		took   map[string][]uint32
		runs   map[string]uint32
		slow   string
		times  float64
		others float64
	}{
		"five times as long":       {took: map[string][]uint32{"a": many(20, 2400), "b": many(30, 2500), "pi": many(4, 12_000)}, slow: "pi", times: 4.8, others: 2.5},
		"one task was large":       {took: map[string][]uint32{"a": many(20, 2400), "b": append(many(9, 2400), 500_000)}},
		"too few to say":           {took: map[string][]uint32{"a": many(20, 2400), "b": many(2, 12_000)}},
		"too few elsewhere":        {took: map[string][]uint32{"a": many(2, 2400), "b": many(20, 12_000)}},
		"starting takes as long":   {took: map[string][]uint32{"a": many(20, 10), "b": many(20, 60)}},
		"only one":                 {took: map[string][]uint32{"a": many(20, 10)}},
		"nothing has ended there":  {took: map[string][]uint32{"a": many(20, 2000)}, runs: map[string]uint32{"pi": 30_000}, slow: "pi", times: 15, others: 2},
		"it has only just begun":   {took: map[string][]uint32{"a": many(20, 2000)}, runs: map[string]uint32{"b": 3000}},
		"of very many tasks, some": {took: map[string][]uint32{"a": many(30_000, 1000), "b": many(12_000, 3000)}, slow: "b", times: 3, others: 1},
	} {
		slow := map[string]api.PeerPace{}
		for _, p := range ranOn(c.took, c.runs).Pace(0).Peers {
			if p.Ended != len(c.took[p.Peer]) {
				t.Errorf("%s: %+v", name, p)
			}
			if p.Slower > 0 {
				slow[p.Peer] = p
			}
		}
		if got := slow[c.slow]; (c.slow != "") != (len(slow) == 1) || got.Slower != c.times || c.slow != "" && got.Others != c.others {
			t.Errorf("%s: %+v", name, slow)
		}
	}
}
