package node

import (
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// One of those who ask at the same moment gets a run; every other one is told which run that is.
func TestOfManyWhoTriggerAScheduleAtOnceOneStartsARun(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	j := noopJob("nightly", 1, time.Hour)
	j.Schedule = &taskstate.Schedule{Cron: "0 3 1 1 *", Zone: "UTC", Overlap: taskstate.SkipOverlap}
	id := all[0].submit(j)
	if _, _, err := all[1].Find(timed(t), id); err != nil {
		t.Fatal(err)
	}
	for round := range 5 {
		const askers = 8
		var got [askers]api.Submitted
		var errs [askers]error
		var begin, done sync.WaitGroup
		begin.Add(1)
		for i := range askers {
			done.Go(func() {
				begin.Wait()
				got[i], errs[i] = all[i%2].Trigger(timed(t), id)
			})
		}
		begin.Done()
		done.Wait()
		run := ""
		for i, err := range errs {
			if err == nil && run != "" {
				t.Fatalf("round %d: %s and %s were both started", round, run, got[i].ID)
			} else if err == nil {
				run = got[i].ID
			}
		}
		if run == "" {
			t.Fatalf("round %d: nothing was started: %v", round, errs)
		}
		for _, err := range errs {
			if err != nil {
				wants(t, err, api.Conflict, "its run "+run+" goes on", "`peer wait "+run+"`")
			}
		}
		jobs, err := all[0].Jobs(timed(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range jobs.Jobs {
			if row.Origin != nil && !row.Over() && row.ID != run {
				t.Errorf("round %d: %s goes on beside %s", round, row.ID, run)
			}
		}
		if _, err := all[1].Cancel(timed(t), run); err != nil {
			t.Fatal(err)
		}
		all[0].outcome(run)
	}
}
