package coordinator

import (
	"fmt"
	"testing"

	"covey/dispatch/ledger"
	"covey/node/blob/piece"
	"covey/taskstate"
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
