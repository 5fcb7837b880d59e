package sim

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/taskstate"
)

func TestTheEndThatAJournalToldOfBeforeItWasTurnedBackMayBeTheOneThatCounts(t *testing.T) {
	for _, told := range []bool{true, false} {
		w := founded(t)
		p, job := w.peers[0], w.batch(t, 1)
		task := taskstate.Task(job.job.ID, 1, 1)
		end := taskstate.Status{Task: task, State: taskstate.Complete}
		w.check.outcomes[task] = taskstate.RunReport{Task: task, State: taskstate.Complete}
		if told { // of its end alone: that it was being saved was not written in time
			txn := &journal.Txn{Batches: []*journal.SealedBatch{{Statuses: []taskstate.Status{end}}}}
			w.check.files.toldOnDisk(&life{w: w, p: p}, &transaction{txn: txn})
		}
		w.check.files.forgetTold(p)
		w.check.outcomes[task] = taskstate.RunReport{Task: task, State: taskstate.Shutdown}
		w.check.end(job, task, &end, false)
		if ok := w.violation == nil; ok != told {
			t.Errorf("the journal had told of it: %t: %v", told, w.violation)
		}
	}
}
