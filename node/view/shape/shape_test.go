package shape

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// drawn are facts of any job, as Add would leave them.
func drawn(t *rapid.T) *Facts {
	n := rapid.IntRange(0, 300).Draw(t, "slots")
	f := New(n, 1_000_000)
	states := taskstate.States()[1:]
	row := func(slot int) Row {
		r := Row{Slot: uint32(slot), Attempt: 1, State: rapid.SampledFrom(states).Draw(t, "state"), peer: nobody}
		r.Open = !r.State.Final()
		if r.State >= taskstate.Running {
			r.peer = f.place(fmt.Sprint("peer-", rapid.IntRange(0, 4).Draw(t, "peer")))
			r.Start = rapid.Int64Range(1, 900_000).Draw(t, "start")
			r.Took = uint32(rapid.Int64Range(0, 100_000).Draw(t, "took"))
		}
		return r
	}
	for slot := 1; slot <= n; slot++ {
		f.Rows = append(f.Rows, row(slot))
	}
	for k := rapid.IntRange(0, 20).Draw(t, "earlier"); k > 0 && n > 0; k-- {
		r := row(rapid.IntRange(1, n).Draw(t, "of"))
		r.Earlier = true
		f.Rows = append(f.Rows, r)
	}
	return f
}

func TestAGridHasEverySlotOnceAndShowsTheWorstOfACell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawn(t)
		cells := rapid.IntRange(1, 400).Draw(t, "cells")
		g := f.Grid(cells)
		sum := 0
		for _, k := range g.Counts {
			sum += k
		}
		if g.Slots != f.slots || sum != f.slots || len(g.Cells) > cells || (len(g.Cells)-1)*g.Each >= f.slots && f.slots > 0 || len(g.Cells)*g.Each < f.slots {
			t.Fatalf("%d slots: %+v", f.slots, g)
		}
		for i, c := range []byte(g.Cells) {
			in := f.newest()[i*g.Each : min((i+1)*g.Each, f.slots)]
			at := slices.IndexFunc(letters[:], func(l struct {
				letter byte
				name   string
			},
			) bool {
				return l.letter == c
			})
			if !slices.ContainsFunc(in, func(r Row) bool { return rank(&r) == at }) || slices.ContainsFunc(in, func(r Row) bool { return rank(&r) < at }) {
				t.Fatalf("cell %d is %c of %+v", i, c, in)
			}
		}
	})
}

func TestEveryStateHasALetterOfItsRank(t *testing.T) {
	want := map[taskstate.State]string{
		taskstate.New: "pending", taskstate.Pending: "pending", taskstate.Assigned: "queued", taskstate.Accepted: "queued", taskstate.Preparing: "queued",
		taskstate.Ready: "queued", taskstate.Starting: "queued",
	}
	for _, s := range taskstate.States() {
		name := want[s]
		if name == "" {
			name = s.String()
		}
		if got := letters[rank(&Row{State: s})].name; got != name {
			t.Errorf("%s is shown as %s", s, got)
		}
	}
}

// ran is how long all tasks ran together, and how many of them are shown.
func ran(f *Facts) (seconds float64, n int) {
	for _, r := range f.Rows {
		if r.shown() {
			seconds, n = seconds+float64(r.Took)/1000, n+1
		}
	}
	return seconds, n
}

func TestBarsAndDensitiesShowAllTimeThatTasksRan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawn(t)
		took, n := ran(f)
		bars := f.Timeline(100)
		sum, tasks, from := 0.0, 0, math.Inf(1)
		for _, l := range bars.Lanes {
			tasks += l.Tasks
			for _, b := range l.Bars {
				sum, from = sum+b.End-b.Start, min(from, b.Start)
			}
		}
		if math.Abs(sum-took) > 0.01 || tasks != n || n > 0 && from != 0 {
			t.Fatalf("%d bars of %f from %f, want %d of %f", tasks, sum, from, n, took)
		}
		if n == 0 {
			return
		}
		dense, lane := api.Timeline{}, make([]int, len(f.peers))
		for i, l := range bars.Lanes {
			dense.Lanes = append(dense.Lanes, api.Lane{Peer: l.Peer})
			lane[f.places[l.Peer]] = i
		}
		f.densities(&dense, lane, bars.From.UnixMilli(), bars.To.UnixMilli(), rapid.IntRange(1, 500).Draw(t, "px"))
		sum, steps, failed := 0.0, 0, 0
		for _, l := range dense.Lanes {
			for i, b := range l.Busy {
				if b < -0.006 {
					t.Fatalf("%f tasks at once", b)
				}
				sum, failed, steps = sum+b*dense.Step, failed+l.Bad[i], steps+1
			}
		}
		if math.Abs(sum-took) > 0.006*dense.Step*float64(steps) { // each number is rounded
			t.Fatalf("densities show %f s of %f", sum, took)
		}
		for _, r := range f.Rows {
			if r.shown() && bad(r.State) {
				failed--
			}
		}
		if failed != 0 {
			t.Fatalf("%d failures too many", failed)
		}
	})
}

func TestPagesTogetherAreAllThatFitsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawn(t)
		q := Query{Sort: rapid.SampledFrom(Sorts[:]).Draw(t, "sort"), Limit: rapid.IntRange(1, 50).Draw(t, "limit")}
		if rapid.Bool().Draw(t, "down") {
			q.Sort = "-" + q.Sort
		}
		if rapid.Bool().Draw(t, "some") {
			q.States, q.Peer = []taskstate.State{taskstate.Running, taskstate.Failed}, "peer-1"
		}
		key, _ := keyOf(q.Sort)
		want := slices.DeleteFunc(slices.Clone(f.newest()), func(r Row) bool {
			return q.Peer != "" && (f.Peer(&r) != q.Peer || !slices.Contains(q.States, r.State))
		})
		slices.SortStableFunc(want, func(a, b Row) int { return sortKey{key(&a), a.Slot}.compare(sortKey{key(&b), b.Slot}) })
		var got []int
		for {
			slots, all, next, err := f.Page(q)
			if err != nil || all != len(want) || len(slots) > q.Limit {
				t.Fatalf("%v: %d of %d: %v", q, len(slots), all, err)
			}
			got = append(got, slots...)
			if next == "" {
				break
			}
			q.After = next
		}
		for i, r := range want {
			if i >= len(got) || got[i] != int(r.Slot) {
				t.Fatalf("%v: row %d of %v should be %d", q, i, got, r.Slot)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d rows, want %d", len(got), len(want))
		}
	})
}

func TestWhatCannotBeAskedForIsSaid(t *testing.T) {
	f := New(0, 0)
	for _, q := range []Query{{Sort: "size", Limit: 1}, {After: "x", Limit: 1}, {After: "1", Limit: 1}, {After: "1.-1", Limit: 1}} {
		if _, _, _, err := f.Page(q); err == nil {
			t.Errorf("%+v is answered", q)
		}
	}
}

func TestAlikeFailuresAreOneGroupAndOthersAreCounted(t *testing.T) {
	f := New(0, 0)
	for slot := 1; slot <= 10; slot++ {
		st := taskstate.Status{Task: taskstate.Task("j", slot, 1), State: taskstate.Failed, Exit: 1 + slot%2, Reason: taskstate.ReasonExit}
		f.groups.add(&Row{Earlier: slot == 1}, "p", &st)
	}
	f.groups.add(&Row{}, "p", &taskstate.Status{State: taskstate.Complete})
	f.groups.add(&Row{}, "p", &taskstate.Status{State: taskstate.Shutdown})
	out := f.Failures()
	if len(out.Groups) != 2 || out.Count != 9 || out.Groups[0].Count != 5 || *out.Groups[0].ExitCode != 1 || out.Groups[1].Earlier != 1 || len(out.Groups[0].Examples) != MaxExamples || out.Groups[0].Peers[0].Tasks != 5 {
		t.Errorf("%+v", out)
	}
	for k := range maxGroups {
		f.groups.add(&Row{}, "p", &taskstate.Status{State: taskstate.Orphaned, Exit: taskstate.NoExit, Message: fmt.Sprint(k)})
	}
	if out := f.Failures(); len(out.Groups) != maxGroups || out.Rest != 2 {
		t.Errorf("%d groups and %d besides", len(out.Groups), out.Rest)
	}
}

func TestAJobIsScannedOnceHoweverManyLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Cache
		scans, draws := 0, 0
		look := func(now Stamp, dear time.Duration, open int, key string) {
			c.Look("job", now, func() *Facts { scans++; time.Sleep(dear); return &Facts{Open: open} }, key, func(*Facts) any { draws++; return draws })
		}
		is := func(s, d int, why string) {
			t.Helper()
			if scans != s || draws != d {
				t.Errorf("%s: %d scans and %d pictures, want %d and %d", why, scans, draws, s, d)
			}
		}
		for range 10 {
			look(Stamp{Ledger: 1}, time.Second, 0, "a")
			look(Stamp{Ledger: 1}, time.Second, 0, "b")
		}
		is(1, 2, "nothing changed")
		look(Stamp{Ledger: 2}, time.Second, 0, "a")
		is(1, 2, "a dear scan stands although something changed")
		time.Sleep(payback*time.Second + 1)
		look(Stamp{Ledger: 1}, time.Second, 0, "a")
		is(1, 2, "it stands as long as nothing has")
		look(Stamp{Ledger: 2}, 0, 1, "a")
		is(2, 3, "something changed")
		look(Stamp{Ledger: 3}, 0, 1, "a")
		is(3, 4, "a cheap scan does not stand")
		time.Sleep(openFor)
		look(Stamp{Ledger: 3}, 0, 1, "a")
		is(4, 5, "what runs has run longer")
		time.Sleep(3 * keepFor)
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.jobs) != 0 || c.timer != nil {
			t.Errorf("%d jobs are kept that nobody looks at", len(c.jobs))
		}
	})
}

func TestTheLargestJobsDoNotAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Cache
		rows := make([]Row, keepRows/2)
		for k := range 10 {
			c.Look(taskstate.JobID(fmt.Sprint("job", k)), Stamp{}, func() *Facts { return &Facts{Rows: rows} }, "", func(*Facts) any { return 0 })
			time.Sleep(time.Millisecond)
		}
		if _, newest := c.jobs["job9"]; len(c.jobs) != 2 || !newest {
			t.Errorf("%d jobs are kept", len(c.jobs))
		}
		c.timer.Stop()
	})
}

func TestTheLastLineOfAnOutputIsOneForPeople(t *testing.T) {
	for out, want := range map[string]string{
		"":                              "",
		"\n \r\n":                       "",
		"one\ntwo\n\n":                  "two",
		"Traceback\nKeyError: 'x'":      "KeyError: 'x'",
		"10 %\r50 %\r99 %\r\n":          "99 %",
		"\x1b[31mred\x1b[0m\tflag\n":    `\x1b[31mred\x1b[0m flag`,
		"a\xff\u202eb\n":                `a` + "\uFFFD" + `\u202eb`,
		strings.Repeat("ä", 100):        strings.Repeat("ä", 100),
		strings.Repeat("ä", 101) + "\n": strings.Repeat("ä", 100) + "…",
	} {
		if got := LastLine([]byte(out)); got != want {
			t.Errorf("%q: %q, not %q", out, got, want)
		}
	}
}
