package held

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/taskstate"
)

// A job that was said to be held is here once, as it was said, until it is dropped as what it is:
// waiting, or withdrawn. So it is after every restart.
func TestAHeldJobIsHereOnceUntilItIsDroppedAsWhatItIs(t *testing.T) {
	top := t.TempDir()
	if dir, err := os.MkdirTemp("/dev/shm", "covey-test-"); err == nil { // where fsync costs nothing
		top = dir
		defer func() { _ = os.RemoveAll(dir) }()
	}
	ids := []taskstate.JobID{"aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"}
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(top, "")
		if err != nil {
			t.Fatal(err)
		}
		h, err := Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		model, now := map[taskstate.JobID]Job{}, int64(0)
		id := func(t *rapid.T) taskstate.JobID { return rapid.SampledFrom(ids).Draw(t, "id") }
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				j := noopJob("held", rapid.IntRange(1, 2).Draw(t, "count"), 0)
				j.ID = id(t)
				now++
				here, taken := model[j.ID]
				err := h.Put(j, now)
				same := taken && here.Withdrawn == "" && here.Job.Count == j.Count
				if (err == nil) == taken || errors.Is(err, ErrHere) != same {
					t.Fatalf("put %d tasks of %s: %v, here was %+v", j.Count, j.ID, err, here)
				}
				if !taken {
					model[j.ID] = Job{Since: now, Job: j}
				}
			},
			"withdraw": func(t *rapid.T) {
				id := id(t)
				here, taken := model[id]
				if was, err := h.Withdraw(id, "by wren"); err != nil || was != (taken && here.Withdrawn == "") {
					t.Fatalf("withdraw %s: %v, %v", id, was, err)
				}
				if taken && here.Withdrawn == "" {
					here.Withdrawn = "by wren"
					model[id] = here
				}
			},
			"drop": func(t *rapid.T) {
				id, withdrawn := id(t), rapid.Bool().Draw(t, "withdrawn")
				here, taken := model[id]
				fits := taken && (here.Withdrawn != "") == withdrawn
				if was, err := h.Drop(id, withdrawn); err != nil || was != fits {
					t.Fatalf("drop %s: %v, %v", id, was, err)
				}
				if fits {
					delete(model, id)
				}
			},
			"restart": func(t *rapid.T) {
				if h, err = Open(dir, nil); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				want := slices.SortedFunc(maps.Values(model), func(a, b Job) int { return int(a.Since - b.Since) })
				var waiting, gone []string
				for _, x := range want {
					text := fmt.Sprint(x.Job.ID, x.Since, x.Job.Count, x.Withdrawn)
					if x.Withdrawn == "" {
						waiting = append(waiting, text)
					} else {
						gone = append(gone, text)
					}
				}
				text := func(list []Job) (out []string) {
					for _, x := range list {
						out = append(out, fmt.Sprint(x.Job.ID, x.Since, x.Job.Count, x.Withdrawn))
					}
					return out
				}
				if !slices.Equal(text(h.List()), waiting) || !slices.Equal(text(h.Withdrawals()), gone) {
					t.Fatalf("waiting %v, withdrawn %v; want %v and %v", text(h.List()), text(h.Withdrawals()), waiting, gone)
				}
			},
		})
	})
}
