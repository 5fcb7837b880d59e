package ledger

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/taskstate"
)

const runSlots = 20 // slots of the sets that are drawn here

// waiting is what runs mean, slot by slot: the attempt each waits for.
func (r runs) waiting() map[int]int {
	out := map[int]int{}
	for _, x := range r {
		for n := range x.All() {
			out[n] = x.Attempt
		}
	}
	return out
}

// asRuns writes such a map as the only runs that mean it.
func asRuns(m map[int]int) (out runs) {
	for _, n := range slices.Sorted(maps.Keys(m)) {
		out.add(Slots{First: n, N: 1, Attempt: m[n]})
	}
	return out
}

// anyWaiting draws who waits for which attempt.
func anyWaiting(t *rapid.T) map[int]int {
	return rapid.MapOfN(rapid.IntRange(1, runSlots), rapid.IntRange(1, 2), 0, runSlots).Draw(t, "waiting")
}

func TestWhatIsTakenAndWhatIsRefusedTogetherAreWhatWasAskedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyWaiting(t)
		r := asRuns(m)
		want := Slots{First: rapid.IntRange(1, runSlots).Draw(t, "first"), N: rapid.IntRange(0, runSlots).Draw(t, "n"), Attempt: rapid.IntRange(1, 2).Draw(t, "attempt")}
		var taken, refused []int
		for _, x := range r.remove(want, func(first, n int) {
			for i := range n {
				taken = append(taken, first+i)
			}
		}, nil) {
			if x.Attempt != want.Attempt || x.N < 1 {
				t.Fatalf("refused is %+v of %+v", x, want)
			}
			for n := range x.All() {
				refused = append(refused, n)
			}
		}
		var shouldTake, shouldRefuse []int
		for n := range want.All() {
			if m[n] == want.Attempt {
				shouldTake = append(shouldTake, n)
				delete(m, n)
			} else {
				shouldRefuse = append(shouldRefuse, n)
			}
		}
		if !slices.Equal(taken, shouldTake) || !slices.Equal(refused, shouldRefuse) {
			t.Fatalf("of %+v %v is taken and %v refused, want %v and %v", want, taken, refused, shouldTake, shouldRefuse)
		}
		if !slices.Equal(r, asRuns(m)) {
			t.Fatalf("left are %v, want %v", r, asRuns(m))
		}
	})
}

func TestRunsAreTheLongestHoweverTheyCameAbout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyWaiting(t)
		var one runs
		for _, n := range rapid.Permutation(slices.Sorted(maps.Keys(m))).Draw(t, "order") {
			one.put(n, m[n])
		}
		var left, right runs
		for _, n := range slices.Sorted(maps.Keys(m)) {
			x := Slots{First: n, N: 1, Attempt: m[n]}
			if rapid.Bool().Draw(t, "left") {
				left.add(x)
			} else {
				right.add(x)
			}
		}
		if want := asRuns(m); !slices.Equal(one, want) || !slices.Equal(left.merge(right), want) || !maps.Equal(want.waiting(), m) {
			t.Fatalf("one by one %v, merged %v, want %v", one, left.merge(right), want)
		}
	})
}

// whole is a job of so many slots, of which some have been given out.
func whole(t *rapid.T) (*State, *JobRecord) {
	st := NewState()
	job := taskstate.Job{ID: "j", Type: taskstate.JobType(rapid.SampledFrom([]string{"batch", "service"}).Draw(t, "type")), Count: 12, Name: "n"}
	peer := Command{Admit: &Admit{Entry: founding("p").Founder}}
	cmds := []Command{peer, {Register: &Register{Peer: "p", Incarnation: "i"}}, {Submit: &Submit{Job: job}}}
	for n := range 12 {
		if rapid.Bool().Draw(t, "given") {
			cmds = append(cmds, Command{Assign: &Assign{Job: "j", Peer: "p", Incarnation: "i", Slots: []Slots{{First: n + 1, N: 1, Attempt: 1}}, Version: versionOf(job)}})
			if rapid.Bool().Draw(t, "given up") {
				cmds = append(cmds, Command{Supersede: &Supersede{Task: taskstate.Task("j", n+1, 1), Again: true}})
			}
		}
	}
	st.Apply(Entry{Index: 1, Epoch: taskstate.At(1, 1), By: "p", Commands: cmds})
	j, _ := st.Job("j")
	return st, j
}

func versionOf(job taskstate.Job) int {
	if job.Type.Lasts() {
		return 1
	}
	return 0
}

// founding is the founder's entry alone.
func founding(peer string) Found {
	f := Found{Cluster: "c", Generation: 1}
	f.Founder.Cluster, f.Founder.Peer = "c", peer
	return f
}

// Whatever runs an assignment names – beyond the slots, twice, of another attempt – each slot of
// them is given out or named as refused.
func TestAnAssignmentIsAnsweredSlotBySlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st, j := whole(t)
		var asked []Slots
		for range rapid.IntRange(1, 3).Draw(t, "runs") {
			asked = append(asked, Slots{First: rapid.IntRange(-3, 15).Draw(t, "first"), N: rapid.IntRange(0, 15).Draw(t, "n"), Attempt: rapid.IntRange(1, 2).Draw(t, "attempt")})
		}
		waits := map[Slots]int{} // one slot and attempt each, and how often it can be given
		before := map[int]SlotRecord{}
		for n := 1; n <= 12; n++ {
			if before[n] = j.Slot(n); before[n].Pending() {
				waits[Slots{First: n, N: 1, Attempt: before[n].Attempt}] = 1
			}
		}
		refused := map[Slots]int{}
		for _, x := range asked {
			for n := range x.All() {
				one := Slots{First: n, N: 1, Attempt: x.Attempt}
				if waits[one]--; waits[one] < 0 {
					refused[one]++
				}
			}
		}
		r := st.Apply(Entry{Index: 2, Epoch: taskstate.At(1, 1), By: "p", Commands: []Command{{Assign: &Assign{Job: "j", Peer: "p", Incarnation: "i", Slots: asked, Version: versionOf(*j.Job())}}}})[0]
		for _, x := range r.Slots {
			for n := range x.All() {
				refused[Slots{First: n, N: 1, Attempt: x.Attempt}]--
			}
		}
		for one, n := range refused {
			if n != 0 {
				t.Fatalf("of %+v slot %d in attempt %d is refused %d times too few: %+v", asked, one.First, one.Attempt, n, r)
			}
		}
		for n := 1; n <= 12; n++ {
			left, could := waits[Slots{First: n, N: 1, Attempt: before[n].Attempt}]
			given := before[n].Pending() && could && left < 1
			if now := j.Slot(n); now.Open != (before[n].Open || given) || now.Attempt != before[n].Attempt {
				t.Fatalf("slot %d was %+v and is %+v after %+v", n, before[n], now, asked)
			}
		}
		if (r.Refused == CodePartly) != (len(r.Slots) > 0) {
			t.Fatalf("answered %+v", r)
		}
	})
}
