package coordinator

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

// six are peers that are all alike; the ledger has what a job left kept by some of them.
func six(t *testing.T, seed int, keepers ...taskstate.PeerID) *rig {
	r := newRig(t, CoreConfig{})
	r.core.placer.seed = uint64(1000 * seed)
	for _, p := range []string{"a", "b", "c", "d", "e", "f"} {
		r.commands("member "+p, "hello "+p+" cpus=4")
	}
	left := jobOf("left", map[string]string{"cpus": "1"})
	left.Outputs = &taskstate.Outputs{Globs: []string{"*"}}
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: left}})
	maker, _, _, _ := r.state.Assigned(taskstate.Task("left", 1, 1))
	r.step(SessionBatch{Conn: r.conns[maker], Batch: taskstate.Batch{Author: maker, Incarnation: taskstate.Incarnation(maker + "1"), Number: 1, Statuses: []taskstate.Status{{
		Task: taskstate.Task("left", 1, 1), Seq: 9, State: taskstate.Complete,
		Saved: &taskstate.Saved{Root: piece.Root{1}, Bytes: 1 << 30, Files: 1, Keepers: keepers, Keep: 2},
	}}}})
	return r
}

// follows submits a job and says where its first task went.
func (r *rig) follows(id string, count int, inputs ...taskstate.Input) (to []taskstate.PeerID) {
	j := jobOf(id, map[string]string{"cpus": "1", "count": fmt.Sprint(count)})
	j.Submitter, j.Inputs = "e", inputs
	for i := range inputs {
		if from := inputs[i].From; from != "" {
			j.After = append(j.After, from)
		}
	}
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: j}})
	for n := range count {
		peer, _, _, _ := r.state.Assigned(taskstate.Task(j.ID, n+1, 1))
		to = append(to, peer)
	}
	return to
}

// Acceptance case 28.
func TestAJobGoesToWhereItsInputsAreIfThatIsAsGoodAsElsewhere(t *testing.T) {
	for seed := range 5 {
		r := six(t, seed, "c", "d")
		if to := r.follows("j", 1, taskstate.Input{Name: "left", From: "left"}); to[0] != "c" && to[0] != "d" {
			t.Errorf("seed %d: what c and d keep is brought to %s", seed, to[0])
		}
		r = six(t, seed, "c", "d")
		if to := r.follows("j", 1, taskstate.Input{Name: "x", Ref: "b3:", Bytes: 7}); to[0] != "e" {
			t.Errorf("seed %d: what e has is brought to %s", seed, to[0])
		}
		r = six(t, seed, "c", "d")
		if to := r.follows("j", 1, taskstate.Input{Name: "x", Ref: "b3:", Bytes: 7}, taskstate.Input{Name: "left", From: "left"}); to[0] != "c" && to[0] != "d" {
			t.Errorf("seed %d: a gigabyte is brought to %s, to spare seven bytes", seed, to[0])
		}
		r = six(t, seed, "c", "d") // c and d have one task more than the others
		r.follows("i", 2, taskstate.Input{Name: "left", From: "left"})
		if to := r.follows("j", 1, taskstate.Input{Name: "left", From: "left"}); to[0] == "c" || to[0] == "d" {
			t.Errorf("seed %d: it goes to %s, which has more to do than others", seed, to[0])
		}
	}
}

func TestWhereInputsAreIsAskedAgainAfterAWhile(t *testing.T) {
	r := six(t, 1, "c", "d")
	j := jobOf("j", nil)
	j.Inputs = []taskstate.Input{{Name: "left", From: "left"}}
	x := &jobState{id: "j", job: &j}
	r.core.placer.fillPeers()
	here := func() (out string) {
		r.core.placer.inputsOf(x, r.core.placer.described)
		for _, p := range r.core.placer.described {
			if p.Here > 0 {
				out += p.ID
			}
		}
		return out
	}
	if got := here(); got != "cd" {
		t.Fatalf("it is with %s", got)
	}
	r.apply(ledger.Command{Kept: &ledger.Kept{Job: "left", Slots: []ledger.Slots{{First: 1, N: 1, Attempt: 1}}, Peer: "f", Lost: []taskstate.PeerID{"c"}}})
	if got := here(); got != "cd" {
		t.Errorf("it is read each time: %s", got)
	}
	r.core.clock.Advance(r.now.Add(nearFor + 1))
	if got := here(); got != "df" {
		t.Errorf("later it is with %s", got)
	}
	r.core.placer.inputsOf(&jobState{job: &taskstate.Job{}}, r.core.placer.described)
	if got := r.core.placer.described[3].Here; got != 0 {
		t.Errorf("a job without inputs finds %d bytes of them", got)
	}
}

func TestAPreviewGoesToWhereTheInputsAre(t *testing.T) {
	r := six(t, 1, "c", "d")
	j := jobOf("j", nil)
	j.Inputs = []taskstate.Input{{Name: "left", From: "left"}}
	if p := r.core.Preview(&j); len(p.Places) != 1 || p.Places[0].Peer != "c" && p.Places[0].Peer != "d" {
		t.Errorf("%+v", p.Places)
	}
}

// What takes only what the task of its own slot left goes to where that is, as far as there is
// room; and every slot is placed once, wherever others are kept.
func TestATaskThatTakesWhatItsSlotLeftGoesToWhereThatIs(t *testing.T) {
	r := newRig(t, CoreConfig{})
	peers := []string{"a", "b", "c", "d"}
	for _, p := range peers {
		r.commands("member "+p, "hello "+p+" cpus=2")
	}
	const n = 60
	left := jobOf("left", map[string]string{"count": fmt.Sprint(n)})
	left.Outputs = &taskstate.Outputs{Globs: []string{"*"}}
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: left}})
	ends := map[string][]taskstate.Status{}
	for slot := 1; slot <= n; slot++ {
		maker, _, _, _ := r.state.Assigned(taskstate.Task("left", slot, 1))
		keepers := []taskstate.PeerID{peers[slot%4], "a"} // who submitted it keeps all
		if slot%4 == 0 {
			keepers = keepers[1:]
		}
		ends[maker] = append(ends[maker], taskstate.Status{
			Task: taskstate.Task("left", slot, 1), Seq: 9, State: taskstate.Complete,
			Saved: &taskstate.Saved{Root: piece.Root{1, byte(slot)}, Bytes: 1, Files: 1, Keepers: keepers, Keep: 2},
		})
	}
	for _, p := range peers {
		r.step(SessionBatch{Conn: r.conns[p], Batch: taskstate.Batch{Author: p, Incarnation: taskstate.Incarnation(p + "1"), Number: 1, Statuses: ends[p]}})
	}
	next := jobOf("next", map[string]string{"count": fmt.Sprint(n), "cpus": "1"})
	next.Inputs, next.After = []taskstate.Input{{Name: "mine", From: "left", SameSlot: true}}, []taskstate.JobID{"left"}
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: next}})
	done, moved := 0, 0
	for number := 2; done < n; number++ {
		before := done
		for _, p := range peers {
			var ends []taskstate.Status
			for slot := 1; slot <= n; slot++ {
				id := taskstate.Task("next", slot, 1)
				j, _ := r.state.Job("next")
				if s := j.Slot(slot); s.Peer != p || s.Final != nil {
					continue
				}
				ends = append(ends, taskstate.Status{Task: id, Seq: 9, State: taskstate.Complete})
				from, _ := r.state.Job("left")
				if !slices.Contains(from.Slot(slot).Final.Saved.Keepers, p) {
					moved++
				}
			}
			done += len(ends)
			r.step(SessionBatch{Conn: r.conns[p], Batch: taskstate.Batch{Author: p, Incarnation: taskstate.Incarnation(p + "1"), Number: uint64(number), Statuses: ends}})
		}
		if done == before {
			t.Fatalf("after %d of %d nothing goes on: %s", done, n, r.core.Waiting("next"))
		}
	}
	if moved > n/10 {
		t.Errorf("of %d tasks %d run where what they take is not", n, moved)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

func TestSlotsAreDealtOnceAndToWhomTheyAreBestAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.IntRange(0, 6), 1, 5).Draw(t, "counts")
		sum := 0
		for _, n := range counts {
			sum += n
		}
		n := sum + rapid.IntRange(0, 9).Draw(t, "more")
		want := rapid.SliceOfN(rapid.IntRange(-1, len(counts)-1), n+1, n+1).Draw(t, "best")
		var waits []ledger.Slots
		for slot := 1; slot <= n; slot++ {
			waits = ledger.AppendSlots(waits, ledger.Slots{First: slot, N: 1, Attempt: 1 + slot/4})
		}
		dealt, rest := deal(waits, counts, func(slot int, may []int) int {
			if at := want[slot]; at >= 0 && may[at] > 0 {
				return at
			}
			return -1
		})
		seen := map[int]bool{}
		each := func(runs []ledger.Slots) (slots []int) {
			for _, r := range runs {
				for s := range r.All() {
					if seen[s] || r.Attempt != 1+s/4 {
						t.Fatalf("%v %v", dealt, rest)
					}
					seen[s] = true
					slots = append(slots, s)
				}
			}
			return slots
		}
		for i, runs := range dealt {
			own, wished := 0, 0
			for _, s := range each(runs) {
				if want[s] == i {
					own++
				}
			}
			for _, at := range want[1:] {
				if at == i {
					wished++
				}
			}
			if own < min(wished, counts[i]) || sumOf(runs) != counts[i] {
				t.Fatalf("%v, of %v for %v", dealt, want[1:], counts)
			}
		}
		if each(rest); len(seen) != n {
			t.Fatalf("%d slots of %d: %v %v", len(seen), n, dealt, rest)
		}
	})
}

func sumOf(runs []ledger.Slots) (n int) {
	for _, r := range runs {
		n += r.N
	}
	return n
}
