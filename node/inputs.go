package node

import (
	"fmt"
	"os"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/worker"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/node/stager"
	"github.com/coveyproject/covey/taskstate"
)

// inputsFolder is where copies of inputs are that tasks share, in the data folder: on the disk of
// the tasks' folders.
const inputsFolder = "inputs"

// openStager makes what brings inputs to the tasks that run here.
func (f *jobFiles) openStager() (err error) {
	f.stager, err = stager.New(stager.Config{
		Store: f.store, Dir: f.folder.path(inputsFolder), Net: f.host, Self: f.self, Log: f.log,
		Members: func() (out []stager.Member) {
			for _, m := range f.others() {
				out = append(out, stager.Member(m))
			}
			return out
		},
		Tell:   f.staged,
		Over:   f.jobOver,
		Left:   f.leftBy,
		Copies: os.Geteuid() <= 0, // the superuser may write to everything; on Windows a second name would not help
	})
	return err
}

// jobOver implements stager.Config.Over.
func (f *jobFiles) jobOver(id taskstate.JobID) (over, known bool) {
	if !f.level() {
		return false, true // nobody can tell
	}
	f.replica.Read(func(s *ledger.State) {
		var j *ledger.JobRecord
		if j, known = s.Job(id); known {
			_, over = j.Ended()
		}
	})
	return over, known
}

// leftBy implements stager.Config.Left.
func (f *jobFiles) leftBy(id taskstate.JobID) (left []stager.Left, several bool, err error) {
	err = stager.ErrNotKnown
	f.replica.Read(func(s *ledger.State) {
		j, known := s.Job(id)
		if !known || j.State() != taskstate.Complete {
			return
		}
		if n := j.FirstIncomplete(); n != 0 { // what that one left is not whole
			err = fmt.Errorf("its task %d is not complete", n)
			return
		}
		err, several = nil, j.Job().Count > 1
		for task, saved := range j.Saved() {
			if !saved.Root.IsZero() {
				left = append(left, stager.Left{Slot: task.Slot, Ref: tree.Ref{Root: saved.Root, Dir: true}, Bytes: saved.Bytes})
			}
		}
	})
	return left, several, err
}

// staged hears how far the inputs of a job are.
func (f *jobFiles) staged(r stager.Report) {
	switch {
	case r.NoRoom:
		f.own.NoRoom(fmt.Sprintf("job %s: %s; its tasks go elsewhere", r.Job, r.Message))
	case r.Here:
		f.own.NoRoom("")
	}
	f.worker().Staged(worker.StageReport(r))
}
