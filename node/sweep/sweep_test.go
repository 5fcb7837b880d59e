package sweep

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"covey/taskstate"
)

func TestFilesOfForgottenJobsGoWhenTheyHaveBeenUnknownForAWhileAndOnlyWhileTheLedgerIsCurrent(t *testing.T) {
	s, now := &Sweeper{limit: 1 << 40}, time.Unix(1000, 0)
	there := []leftover{{job: "gone", bytes: 1}, {job: "goeson", bytes: 1, known: true}, {job: "over", bytes: 1, known: true, ended: 5}}
	look := func(after time.Duration, current bool) []taskstate.JobID {
		now = now.Add(after)
		return s.step(there, current, now)
	}
	if got := look(0, true); len(got) > 0 {
		t.Fatal("at first sight:", got)
	}
	if got := look(Patience-1, true); len(got) > 0 {
		t.Fatal("too soon:", got)
	}
	if got := look(time.Hour, false); len(got) > 0 {
		t.Fatal("while nobody knows:", got)
	}
	if got := look(time.Hour, true); len(got) > 0 {
		t.Fatal("it counts anew after that:", got)
	}
	if got := look(Patience, true); !slices.Equal(got, []taskstate.JobID{"gone"}) {
		t.Fatal(got)
	}
}

func TestFilesStayBelowTheirLimitAndTheNewestAndThoseInUseStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var found []leftover
		var inUse int64
		for i := range rapid.IntRange(0, 12).Draw(t, "jobs") {
			l := leftover{job: taskstate.JobID(fmt.Sprint(i)), known: true, bytes: rapid.Int64Range(0, 50).Draw(t, "bytes"), ended: rapid.Int64Range(0, 5).Draw(t, "ended")}
			if l.ended == 0 {
				inUse += l.bytes
			}
			found = append(found, l)
		}
		limit := rapid.Int64Range(0, 200).Draw(t, "limit")
		removed := (&Sweeper{limit: limit}).step(found, true, time.Unix(1, 0))
		var left, newestGone int64
		for _, l := range found {
			if !slices.Contains(removed, l.job) {
				left += l.bytes
				continue
			}
			if newestGone = max(newestGone, l.ended); l.ended == 0 {
				t.Fatalf("job %s goes on and was removed", l.job)
			}
		}
		if left > max(limit, inUse) {
			t.Fatalf("%d bytes stay, the limit is %d, in use are %d", left, limit, inUse)
		}
		for _, l := range found {
			if l.ended > 0 && l.ended < newestGone && l.bytes > 0 && !slices.Contains(removed, l.job) {
				t.Fatalf("job %s ended before one that was removed, and stays", l.job)
			}
		}
	})
}
