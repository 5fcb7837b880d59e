package node

import (
	"fmt"
	"os"

	"covey/dispatch/ledger"
	"covey/dispatch/worker"
	"covey/node/api"
	"covey/node/blob/tree"
	"covey/node/stager"
	"covey/taskstate"
)

// inputsFolder is where copies of inputs are that tasks share, in the data folder: on the disk of
// the tasks' folders.
const inputsFolder = "inputs"

// openStager makes what brings inputs to the tasks that run here.
func (n *Node) openStager() (err error) {
	others := holders{n.self, n.members, n.roster, n.view.Who}.others
	n.stager, err = stager.New(stager.Config{
		Store: n.blobs, Dir: n.folder.path(inputsFolder), Net: n.host, Self: n.self, Log: n.log,
		Members: func() (out []stager.Member) {
			for _, m := range others() {
				out = append(out, stager.Member(m))
			}
			return out
		},
		Tell:   n.staged,
		Over:   n.jobOver,
		Left:   n.leftBy,
		Copies: os.Geteuid() <= 0, // the superuser may write to everything; on Windows a second name would not help
	})
	return err
}

// jobOver implements stager.Config.Over.
func (n *Node) jobOver(id taskstate.JobID) (over, known bool) {
	if !n.keeper.Level() {
		return false, true // nobody can tell
	}
	n.replica.Read(func(s *ledger.State) {
		var j *ledger.JobRecord
		if j, known = s.Job(id); known {
			_, over = j.Ended()
		}
	})
	return over, known
}

// leftBy implements stager.Config.Left.
func (n *Node) leftBy(id taskstate.JobID) (left []stager.Left, several, ok bool) {
	n.replica.Read(func(s *ledger.State) {
		j, known := s.Job(id)
		if !known || j.State() != taskstate.Complete {
			return
		}
		ok, several = true, j.Job().Count > 1
		for task, saved := range j.Saved() {
			if !saved.Root.IsZero() {
				left = append(left, stager.Left{Slot: task.Slot, Ref: tree.Ref{Root: saved.Root, Dir: true}, Bytes: saved.Bytes})
			}
		}
	})
	return left, several, ok
}

// staged hears how far the inputs of a job are.
func (n *Node) staged(r stager.Report) {
	switch {
	case r.NoRoom:
		n.troubles.Set(n.self, api.TroubleNoRoom, fmt.Sprintf("job %s: %s; its tasks go elsewhere", r.Job, r.Message))
	case r.Here:
		n.troubles.Clear(n.self, api.TroubleNoRoom)
	}
	n.worker.Staged(worker.StageReport(r))
}
